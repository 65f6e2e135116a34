//! Messages into a stream of bytes.

use std::io;

use bytes::{Buf, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use tokio::io::{AsyncWrite, AsyncWriteExt};

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
