//! Messages out of a stream of bytes.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::request::{Request, RequestKind, Unnamed};

/// Why there is no next message.
#[derive(Debug)]
pub enum ReadError {
    /// The client has closed the connection, or the connection has failed.
    Gone,
    /// Bytes that are no message; nothing behind them can be read.
    Malformed(&'static str),
    /// A message that is too long, and was passed over.
    TooLong {
        /// What it is.
        kind: RequestKind,
        /// Its length.
        bytes: usize,
        /// What it may have.
        bytes_max: usize,
    },
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Unnamed> for ReadError {
    fn from(Unnamed(expected): Unnamed) -> Self {
        Self::Malformed(expected)
    }
}

/// The kind and length before each message.
const HEAD_BYTES: usize = 5;
/// Room that is made for what comes.
const CHUNK_BYTES: usize = 8 << 10;
/// The same within a long message.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes that are read ahead while a statement runs, to see whether the client is still there.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// Until a client has said who it is.
const STRANGER_BYTES_MAX: usize = 8 << 10;

/// Reads messages. Futures of it may be dropped at any time: nothing that was read is lost.
#[derive(Debug)]
pub struct Reader<R> {
    stream: R,
    buffer: BytesMut,
    message_bytes_max: usize,
    /// A message that is being passed over: its kind, its length, and what is left of it.
    skipped: Option<(RequestKind, usize, usize)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// A reader of messages of a client that has not said who it is.
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            message_bytes_max: STRANGER_BYTES_MAX,
            skipped: None,
        }
    }

    /// Takes longer messages from now on.
    pub fn allow(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// The next message.
    ///
    /// # Errors
    /// [`ReadError`]; after [`ReadError::TooLong`], there may be a next one.
    pub async fn next(&mut self) -> Result<Request, ReadError> {
        loop {
            if let Some(request) = self.take()? {
                return Ok(request);
            }
            self.fill().await?;
        }
    }

    /// The next message, if it has come whole.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn take(&mut self) -> Result<Option<Request>, ReadError> {
        if let Some((kind, bytes, left)) = self.skipped {
            let passed = left.min(self.buffer.len());
            self.buffer.advance(passed);
            if passed < left {
                self.skipped = Some((kind, bytes, left - passed));
                return Ok(None);
            }
            self.skipped = None;
            return Err(ReadError::TooLong {
                kind,
                bytes,
                bytes_max: self.message_bytes_max,
            });
        }
        let Some(mut head) = self.buffer.get(..HEAD_BYTES) else {
            return Ok(None);
        };
        let (kind, length) = (RequestKind::of(head.get_u8()), head.get_i32());
        let kind = kind.ok_or(Unnamed("a message of the protocol"))?;
        // The length counts itself.
        let body = usize::try_from(length).ok().and_then(|n| n.checked_sub(4));
        let body = body.ok_or(Unnamed("a message of at least four bytes"))?;
        if body > self.message_bytes_max {
            self.buffer.advance(HEAD_BYTES);
            self.skipped = Some((kind, body, body));
            return self.take();
        }
        if self.buffer.len() < HEAD_BYTES + body {
            let missing = HEAD_BYTES + body - self.buffer.len();
            self.buffer.reserve(missing.min(CHUNK_BYTES_MAX));
            return Ok(None);
        }
        self.buffer.advance(HEAD_BYTES);
        let body = self.buffer.split_to(body).freeze();
        Ok(Some(Request::read(kind, body)?))
    }

    async fn fill(&mut self) -> Result<(), ReadError> {
        if self.buffer.capacity() == self.buffer.len() {
            self.buffer.reserve(CHUNK_BYTES);
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ReadError::Gone),
            _ => Ok(()),
        }
    }

    /// Ends when the client has gone. What it sends meanwhile is kept.
    pub async fn gone(&mut self) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            if self.fill().await.is_err() {
                return;
            }
        }
        // A client that sends on and on before it is answered is there.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> (Vec<Request>, ReadError) {
        let mut reader = Reader::new(bytes);
        let mut requests = Vec::new();
        loop {
            match reader.next().await {
                Ok(request) => requests.push(request),
                Err(error) => return (requests, error),
            }
        }
    }

    #[tokio::test]
    async fn messages_follow_each_other() {
        let (requests, end) = all(b"H\0\0\0\x04S\0\0\0\x04Q\0\0\0\x0bSEL").await;
        assert_eq!(requests, [Request::Flush, Request::Sync]);
        assert!(matches!(end, ReadError::Gone));
    }

    #[tokio::test]
    async fn wrong_kinds_and_lengths_end_it() {
        for bytes in [
            &b"z\0\0\0\x04"[..],
            b"S\0\0\0\x03",
            b"S\xff\xff\xff\xff",
            b"S\0\0\0\x05x",
        ] {
            let (requests, end) = all(bytes).await;
            assert!(
                requests.is_empty() && matches!(end, ReadError::Malformed(_)),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_long_message_is_passed_over() {
        let mut bytes = b"Q\0\x01\0\0".to_vec();
        bytes.resize(HEAD_BYTES + 65_532, b'x');
        bytes.extend_from_slice(b"S\0\0\0\x04");
        let mut reader = Reader::new(&bytes[..]);
        let long = reader.next().await;
        assert!(matches!(
            long,
            Err(ReadError::TooLong {
                kind: RequestKind::Query,
                bytes: 65_532,
                ..
            })
        ));
        assert_eq!(reader.next().await.ok(), Some(Request::Sync));
    }
}
