//! Messages over a TCP connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use super::message::{Malformed, Message};
use crate::secret::{Code, Secret};

/// The longest message, without its length and its code.
pub const MESSAGE_BYTES_MAX: usize = 128;

const LENGTH_BYTES: usize = 4;
const CODE_BYTES: usize = size_of::<Code>();
/// Within which a peer takes what is sent to it.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// After so much silence the peer's kernel is asked whether it is there, and again so often.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// For how long a host that does not acknowledge counts as there, in the middle of a request too.
const GONE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is wrong with a connection, or with what came over it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The peer has closed it.
    #[error("the connection was closed")]
    Closed,
    /// It is broken.
    #[error("the connection is broken")]
    Broken(#[from] io::Error),
    /// Nothing came in time.
    #[error("no answer came within {} ms", waited.as_millis())]
    Silent {
        /// How long was waited.
        waited: Duration,
    },
    /// A message of no bytes, or of more than any has.
    #[error("a message of {bytes} bytes: there are 1 to {MESSAGE_BYTES_MAX}")]
    Length {
        /// Its bytes.
        bytes: usize,
    },
    /// Bytes that are no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A message that the peer did not send, or not now.
    #[error("a message was changed, left out or repeated")]
    Forged,
    /// A message that has no place here.
    #[error("a message that has no place here")]
    Unexpected,
}

/// Which end of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"c",
            Self::Server => b"s",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What authenticates messages.
#[derive(Debug)]
struct Session {
    key: Secret,
    sent: u64,
    received: u64,
}

/// A connection that messages go over.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    side: Side,
    /// What has come of the next message.
    arrived: Vec<u8>,
    session: Option<Session>,
}

impl Channel {
    pub(crate) fn new(stream: TcpStream, side: Side) -> Result<Self, ChannelError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        let socket = SockRef::from(&stream);
        let probes = TcpKeepalive::new().with_time(PROBE_INTERVAL);
        socket.set_tcp_keepalive(&probes.with_interval(PROBE_INTERVAL))?;
        socket.set_tcp_user_timeout(Some(GONE_TIMEOUT))?;
        Ok(Self {
            stream,
            side,
            arrived: Vec::new(),
            session: None,
        })
    }

    /// Authenticates all messages from now on.
    pub(crate) fn protect(&mut self, key: Secret) {
        self.session = Some(Session {
            key,
            sent: 0,
            received: 0,
        });
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), ChannelError> {
        let body = message.encode();
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&body);
        if let Some(session) = &mut self.session {
            let number = session.sent.to_le_bytes();
            let code = session.key.sign(&[self.side.label(), &number, &body]);
            bytes.extend_from_slice(&code);
            session.sent += 1;
        }
        self.stream.write_all(&bytes)?;
        Ok(())
    }

    /// The next message, if all of it comes within `wait`. What has come of it is kept.
    pub(crate) fn receive(&mut self, wait: Duration) -> Result<Option<Message>, ChannelError> {
        let started = Instant::now();
        loop {
            if let Some(message) = self.arrived_message()? {
                return Ok(Some(message));
            }
            let left = wait.saturating_sub(started.elapsed());
            // None would be for ever.
            let timeout = left.max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(timeout))?;
            let mut bytes = [0; 256];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(count) => self.arrived.extend_from_slice(&bytes[..count]),
                Err(error) if is_no_answer(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if started.elapsed() >= wait {
                return self.arrived_message();
            }
        }
    }

    /// The next message, which is waited for.
    pub(crate) fn expect(&mut self, wait: Duration) -> Result<Message, ChannelError> {
        let message = self.receive(wait)?;
        message.ok_or(ChannelError::Silent { waited: wait })
    }

    /// A whole message of what has come; its length is looked at before any more is waited for.
    fn arrived_message(&mut self) -> Result<Option<Message>, ChannelError> {
        let Some(length) = self.arrived.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let bytes = u32::from_le_bytes(*length) as usize;
        if !(1..=MESSAGE_BYTES_MAX).contains(&bytes) {
            return Err(ChannelError::Length { bytes });
        }
        let code_bytes = self.session.as_ref().map_or(0, |_| CODE_BYTES);
        let whole = LENGTH_BYTES + bytes + code_bytes;
        if self.arrived.len() < whole {
            return Ok(None);
        }
        let message: Vec<u8> = self.arrived.drain(..whole).collect();
        let (body, code) = message[LENGTH_BYTES..].split_at(bytes);
        if let Some(session) = &mut self.session {
            let number = session.received.to_le_bytes();
            let parts = [self.side.other().label(), &number, body];
            let code = code.first_chunk::<CODE_BYTES>();
            if !code.is_some_and(|code| session.key.is_signed(&parts, code)) {
                return Err(ChannelError::Forged);
            }
            session.received += 1;
        }
        Ok(Some(Message::decode(body)?))
    }
}

fn is_no_answer(error: &io::Error) -> bool {
    // A peer that is gone is `TimedOut`, a wait that ended `WouldBlock`.
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::TcpListener;

    use super::*;

    const SOON: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(5);

    /// A client's and a server's end.
    pub(in super::super) fn ends() -> (Channel, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (
            Channel::new(client, Side::Client).unwrap(),
            Channel::new(server, Side::Server).unwrap(),
        )
    }

    fn protected() -> (Channel, Channel) {
        let (mut client, mut server) = ends();
        let key = Secret::new(&[7; 32]).unwrap();
        client.protect(key.clone());
        server.protect(key);
        (client, server)
    }

    #[test]
    fn messages_come_whole_and_in_order() {
        let (mut client, mut server) = protected();
        client.send(&Message::Renew).unwrap();
        client.send(&Message::Free { region: 3 }).unwrap();
        assert_eq!(server.expect(LONG).unwrap(), Message::Renew);
        assert_eq!(server.expect(LONG).unwrap(), Message::Free { region: 3 });
        assert_eq!(server.receive(SOON).unwrap(), None);
        server.send(&Message::Renewed).unwrap();
        assert_eq!(client.expect(LONG).unwrap(), Message::Renewed);
        drop(server);
        assert!(matches!(client.expect(LONG), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_message_in_pieces_is_waited_for_and_kept() {
        let (mut client, mut server) = ends();
        let bytes = [9, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0];
        for byte in bytes {
            assert_eq!(server.receive(Duration::from_millis(2)).unwrap(), None);
            client.stream.write_all(&[byte]).unwrap();
        }
        assert_eq!(server.expect(LONG).unwrap(), Message::Free { region: 1 });
    }

    #[test]
    fn lengths_are_refused_before_anything_is_waited_for() {
        for length in [0, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
            let (mut client, mut server) = ends();
            client.stream.write_all(&length.to_le_bytes()).unwrap();
            let error = server.expect(LONG).unwrap_err();
            assert!(matches!(error, ChannelError::Length { .. }), "{error}");
        }
    }

    #[test]
    fn changed_and_repeated_messages_are_noticed() {
        let sent = |change: usize| {
            let (client, server) = protected();
            let session = client.session.as_ref().unwrap();
            let body = Message::Allocate { bytes: 5 }.encode();
            let number = session.sent.to_le_bytes();
            let code = session.key.sign(&[b"c", &number, &body]);
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend([&body[..], &code].concat());
            if change >= LENGTH_BYTES {
                bytes[change] ^= 1;
            }
            (client, server, bytes)
        };
        let (mut client, mut server, bytes) = sent(0);
        client.stream.write_all(&bytes).unwrap();
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(server.expect(LONG).unwrap(), Message::Allocate { bytes: 5 });
        assert!(matches!(server.expect(LONG), Err(ChannelError::Forged)));
        for change in [4, 5, 12, 13, 44] {
            let (mut client, mut server, bytes) = sent(change);
            client.stream.write_all(&bytes).unwrap();
            let found = server.expect(LONG);
            assert!(matches!(found, Err(ChannelError::Forged)), "{found:?}");
        }
    }

    #[test]
    fn a_server_s_message_is_no_client_s() {
        let (client, mut server) = protected();
        let mut echo = client.stream.try_clone().unwrap();
        server.send(&Message::Renewed).unwrap();
        let mut bytes = [0; 64];
        let count = echo.read(&mut bytes).unwrap();
        echo.write_all(&bytes[..count]).unwrap();
        assert!(matches!(server.expect(LONG), Err(ChannelError::Forged)));
    }
}
