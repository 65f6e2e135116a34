//! The begin of a connection: whether it is encrypted, what it is for, and who it says it is.

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf, Bytes};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::request::Body;
use crate::tls::ALPN;

/// As PostgreSQL takes them.
const PACKET_BYTES_MAX: usize = 10_000;
/// The length and the code that begin the first packet.
const HEAD_BYTES: usize = 8;
const CODE_CANCEL: u32 = 80_877_102;
const CODE_TLS: u32 = 80_877_103;
const CODE_GSSAPI: u32 = 80_877_104;
/// The first byte of a client that encrypts without asking.
const TLS_HANDSHAKE: u8 = 0x16;
const KEY_BYTES_MAX: usize = 256;
const MAJOR_VERSION: u32 = 3;

/// A connection whose purpose is known.
pub struct Opening {
    /// The stream, encrypted if the client wanted that and there is a certificate.
    pub stream: MaybeTls,
    /// Whether it is.
    pub is_encrypted: bool,
    /// What it is for.
    pub startup: Startup,
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup {
    /// A session.
    Session {
        /// The minor version of the protocol that the client would like.
        minor_version: u16,
        /// `user`, `database` and settings.
        parameters: BTreeMap<String, String>,
    },
    /// To cancel what another connection is doing.
    Cancel(Cancel),
}

/// Which connection is meant by a cancel request, and the proof that it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The number that the connection was given.
    pub id: i32,
    /// The key that it was given.
    pub key: Bytes,
}

/// Why a connection is not opened.
pub enum StartupError {
    /// The connection has failed.
    Io(io::Error),
    /// Bytes that no client sends; the stream, if an answer would be understood.
    Malformed(Option<Box<MaybeTls>>, &'static str),
}

impl From<io::Error> for StartupError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Finds out what a connection is for.
///
/// # Errors
/// [`StartupError`].
pub async fn negotiate(
    mut plain: TcpStream,
    tls: Option<&TlsAcceptor>,
) -> Result<Opening, StartupError> {
    let mut first = [0];
    if plain.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE {
        let malformed = StartupError::Malformed(None, "there is no certificate for TLS");
        let accepted = tls.ok_or(malformed)?.accept(plain).await?;
        if accepted.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(StartupError::Malformed(
                None,
                "TLS without the protocol's name",
            ));
        }
        return open(MaybeTls::Tls(Box::new(accepted)), true).await;
    }
    // Each may be asked for once; a client that goes on has its answers already.
    for _ in 0..2 {
        let mut head = [0; HEAD_BYTES];
        let peeked = peek_all(&plain, &mut head).await?;
        let code = peeked.then(|| (&head[4..]).get_u32());
        match (code, tls) {
            (Some(CODE_TLS), Some(tls)) => {
                plain.read_exact(&mut head).await?;
                plain.write_all(b"S").await?;
                // Nothing was read beyond the request, so nothing unencrypted is taken for encrypted.
                let accepted = tls.accept(plain).await?;
                return open(MaybeTls::Tls(Box::new(accepted)), true).await;
            }
            (Some(CODE_TLS | CODE_GSSAPI), _) => {
                plain.read_exact(&mut head).await?;
                plain.write_all(b"N").await?;
            }
            _ => break,
        }
    }
    open(MaybeTls::Plain(plain), false).await
}

/// Looks at the first bytes without taking them; false if there will not be as many.
async fn peek_all(stream: &TcpStream, bytes: &mut [u8; HEAD_BYTES]) -> io::Result<bool> {
    let mut seen = 0;
    loop {
        let count = stream.peek(bytes).await?;
        if count == HEAD_BYTES || count == 0 {
            return Ok(count == HEAD_BYTES);
        }
        if count == seen {
            // Ready, but with no more than before.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        seen = count;
    }
}

async fn open(mut stream: MaybeTls, is_encrypted: bool) -> Result<Opening, StartupError> {
    let length = stream.read_u32().await? as usize;
    let malformed = |stream, what| Err(StartupError::Malformed(Some(Box::new(stream)), what));
    if !(HEAD_BYTES..=PACKET_BYTES_MAX).contains(&length) {
        return malformed(stream, "its length");
    }
    let mut packet = vec![0; length - 4];
    stream.read_exact(&mut packet).await?;
    match read(packet.into()) {
        Ok(startup) => Ok(Opening {
            stream,
            is_encrypted,
            startup,
        }),
        Err(what) => malformed(stream, what),
    }
}

/// Reads a packet behind its length.
fn read(packet: Bytes) -> Result<Startup, &'static str> {
    let mut body = Body::new(packet);
    let code = body.i32().map_err(|wrong| wrong.0)? as u32;
    if code == CODE_CANCEL {
        let id = body.i32().map_err(|wrong| wrong.0)?;
        let key = body.rest();
        return match (1..=KEY_BYTES_MAX).contains(&key.len()) {
            true => Ok(Startup::Cancel(Cancel { id, key })),
            false => Err("the key of a cancel request"),
        };
    }
    if code >> 16 != MAJOR_VERSION {
        return Err("this server speaks version 3 of the protocol");
    }
    let mut parameters = BTreeMap::new();
    loop {
        let name = body.text().map_err(|wrong| wrong.0)?;
        if name.is_empty() {
            break;
        }
        let value = body.text().map_err(|wrong| wrong.0)?;
        parameters.insert(name, value);
    }
    match body.is_empty() {
        true => Ok(Startup::Session {
            minor_version: (code & 0xffff) as u16,
            parameters,
        }),
        false => Err("bytes behind its end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sessions_and_cancel_requests_are_read() {
        let packet = Bytes::from_static(b"\0\x03\0\0user\0ann\0\0");
        let parameters = BTreeMap::from([("user".to_owned(), "ann".to_owned())]);
        let session = Startup::Session {
            minor_version: 0,
            parameters,
        };
        assert_eq!(read(packet), Ok(session));
        let cancel = Bytes::from_static(b"\x04\xd2\x16\x2e\0\0\0\x07keys");
        let key = Bytes::from_static(b"keys");
        assert_eq!(read(cancel), Ok(Startup::Cancel(Cancel { id: 7, key })));
    }

    #[test]
    fn other_versions_and_cut_packets_are_refused() {
        for packet in [
            &b"\0\x02\0\0user\0ann\0\0"[..],
            b"\0\x03\0\0user\0ann\0",
            b"\0\x03\0\0user\0ann\0\0x",
            b"\x04\xd2\x16\x2e\0\0\0\x07",
            b"\0\x03",
        ] {
            assert!(read(Bytes::copy_from_slice(packet)).is_err(), "{packet:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(packet in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(Bytes::from(packet));
        }
    }
}
