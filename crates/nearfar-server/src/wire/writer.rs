//! Messages into a stream of bytes.

use std::io;

use bytes::{Buf, BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The first byte of the message behind a command.
const COMMAND_COMPLETE: u8 = b'C';
/// Bytes of rows that are sent together.
const CHUNK_BYTES: usize = 64 << 10;

/// Collects messages and sends them. Futures of it may be dropped at any time: what was not sent yet
/// is sent before what follows.
#[derive(Debug)]
pub struct Writer<W> {
    stream: W,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// A writer to `stream`.
    pub fn new(stream: W) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Adds a message, to be sent with others.
    ///
    /// # Errors
    /// A message that is longer than the protocol allows; nothing of it is sent.
    pub fn add(&mut self, message: &PgWireBackendMessage) -> io::Result<()> {
        let before = self.buffer.len();
        message.encode(&mut self.buffer).map_err(|error| {
            self.buffer.truncate(before);
            io::Error::from(error)
        })
    }

    /// Adds a message whose first byte is `kind` and whose body is what `write` writes.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_message(&mut self, kind: u8, write: impl FnOnce(&mut BytesMut)) -> io::Result<()> {
        let before = self.buffer.len();
        self.buffer.put_u8(kind);
        let length_at = self.buffer.len();
        self.buffer.put_i32(0);
        write(&mut self.buffer);
        // The length counts itself.
        let Ok(length) = i32::try_from(self.buffer.len() - length_at) else {
            self.buffer.truncate(before);
            let message = "a message is longer than the protocol allows";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        self.buffer[length_at..][..size_of::<i32>()].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Says that a command is done, and how many rows it has given or changed where that is told.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_complete(&mut self, command: &str, rows: Option<u64>) -> io::Result<()> {
        self.add_message(COMMAND_COMPLETE, |out| {
            out.put_slice(command.as_bytes());
            if let Some(rows) = rows {
                // Behind the identifier of a row, of which there is none.
                out.put_slice(if command == "INSERT" { b" 0 " } else { b" " });
                put_decimal(out, rows);
            }
            out.put_u8(0);
        })
    }

    /// What was added and is not sent.
    #[cfg(test)]
    pub fn added(&self) -> &BytesMut {
        &self.buffer
    }

    /// Adds messages that were encoded before.
    pub fn add_encoded(&mut self, messages: &[u8]) {
        self.buffer.extend_from_slice(messages);
    }

    /// Sends what has been added if that is a lot.
    ///
    /// # Errors
    /// A connection that has failed.
    pub async fn relieve(&mut self) -> io::Result<()> {
        match self.buffer.len() < CHUNK_BYTES {
            true => Ok(()),
            false => self.drain().await,
        }
    }

    /// Sends what has been added.
    ///
    /// # Errors
    /// A connection that has failed.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.drain().await?;
        self.stream.flush().await
    }

    async fn drain(&mut self) -> io::Result<()> {
        while self.buffer.has_remaining() {
            let written = self.stream.write(&self.buffer).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.buffer.advance(written);
        }
        Ok(())
    }

    /// Sends what has been added and ends the stream.
    ///
    /// # Errors
    /// A connection that has failed.
    pub async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await
    }
}

/// Writes the digits of a number.
fn put_decimal(out: &mut BytesMut, number: u64) {
    if number >= 10 {
        put_decimal(out, number / 10);
    }
    out.put_u8(b'0' + (number % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_as_postgresql_tells_them() {
        let mut writer = Writer::new(tokio::io::sink());
        for (command, rows, told) in [
            ("SELECT", Some(0), "SELECT 0"),
            ("INSERT", Some(10), "INSERT 0 10"),
            ("UPDATE", Some(u64::MAX), "UPDATE 18446744073709551615"),
            ("CREATE TABLE", None, "CREATE TABLE"),
        ] {
            writer.buffer.clear();
            writer.add_complete(command, rows).expect("short");
            let head = [&b"C\0\0\0"[..], &[told.len() as u8 + 5]].concat();
            let expected = [&head, told.as_bytes(), b"\0"].concat();
            assert_eq!(&writer.buffer[..], expected);
        }
    }
}
