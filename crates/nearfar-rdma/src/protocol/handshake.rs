//! How both ends prove that they know the secret.

use std::time::{Duration, Instant};

use super::channel::{Channel, ChannelError};
use super::message::{Message, Refusal, VERSION};
use crate::secret::{Nonce, Secret, SecretError, nonce};

/// Within which each message of the introduction must come.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a server that waits for one looks whether it is stopping.
const TURN: Duration = Duration::from_millis(50);
/// How long a wrong secret is let wait, so that many are not tried.
const WRONG_DELAY: Duration = Duration::from_millis(500);

/// What a server offers to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease_ms: u32,
    pub(crate) offered_bytes: u64,
}

const CLIENT: &[u8] = b"nearfar rdma client";
const SERVER: &[u8] = b"nearfar rdma server";

/// What both ends have said before they prove anything, all of which their codes and the session's key are of.
struct Said {
    client_version: [u8; 2],
    server_version: [u8; 2],
    client: Nonce,
    server: Nonce,
}

impl Said {
    fn new((client_version, client): (u16, Nonce), (server_version, server): (u16, Nonce)) -> Self {
        Self {
            client_version: client_version.to_le_bytes(),
            server_version: server_version.to_le_bytes(),
            client,
            server,
        }
    }

    fn parts(&self) -> [&[u8]; 4] {
        let versions: [&[u8]; 2] = [&self.client_version, &self.server_version];
        [versions[0], versions[1], &self.client, &self.server]
    }

    /// What the client's code is of.
    fn proof(&self) -> Vec<&[u8]> {
        [&[CLIENT][..], &self.parts()].concat()
    }

    /// What the server's code is of: its terms too.
    fn welcome<'a>(&'a self, terms: &'a [u8]) -> Vec<&'a [u8]> {
        [&[SERVER][..], &self.parts(), &[terms]].concat()
    }
}

impl Terms {
    fn bytes(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.lease_ms.to_le_bytes());
        bytes[4..].copy_from_slice(&self.offered_bytes.to_le_bytes());
        bytes
    }
}

/// What a client was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    /// It knows the secret, and the terms: this is its place.
    Welcomed(T),
    /// It was refused: it does not know the secret, or speaks another version.
    Refused,
    /// It was refused, since there is no place for it.
    Full,
    /// Nothing more: the server is stopping.
    Stopping,
}

/// A message that is waited for as long as the server does not stop.
fn expect_unless(
    channel: &mut Channel,
    is_stopping: &dyn Fn() -> bool,
) -> Result<Option<Message>, ChannelError> {
    let started = Instant::now();
    loop {
        if is_stopping() {
            return Ok(None);
        }
        let left = STEP_TIMEOUT.saturating_sub(started.elapsed());
        if left.is_zero() {
            let waited = STEP_TIMEOUT;
            return Err(ChannelError::Silent { waited });
        }
        if let Some(message) = channel.receive(TURN.min(left))? {
            return Ok(Some(message));
        }
    }
}

/// The server's part, unless it stops. Who knows the secret is welcome where `place` gives a place.
///
/// # Errors
/// What is wrong with the connection, or with what the client said.
pub(crate) fn answer<T>(
    channel: &mut Channel,
    secret: &Secret,
    terms: Terms,
    is_stopping: &dyn Fn() -> bool,
    place: impl FnOnce() -> Option<T>,
) -> Result<Answer<T>, ChannelError> {
    let (version, c) = match expect_unless(channel, is_stopping)? {
        Some(Message::Hello { version, nonce }) => (version, nonce),
        Some(_) => return Err(ChannelError::Unexpected),
        None => return Ok(Answer::Stopping),
    };
    let s = nonce().map_err(|error| std::io::Error::other(error.to_string()))?;
    let (nonce, ours) = (s, VERSION);
    channel.send(&Message::Challenge {
        version: ours,
        nonce,
    })?;
    if version != VERSION {
        return Ok(Answer::Refused);
    }
    let code = match expect_unless(channel, is_stopping)? {
        Some(Message::Proof { code }) => code,
        Some(_) => return Err(ChannelError::Unexpected),
        None => return Ok(Answer::Stopping),
    };
    let said = Said::new((version, c), (VERSION, s));
    if !secret.is_signed(&said.proof(), &code) {
        std::thread::sleep(WRONG_DELAY);
        channel.send(&Message::Refused(Refusal::WrongSecret))?;
        return Ok(Answer::Refused);
    }
    let Some(place) = place() else {
        channel.send(&Message::Refused(Refusal::Full))?;
        return Ok(Answer::Full);
    };
    channel.send(&Message::Welcome {
        code: secret.sign(&said.welcome(&terms.bytes())),
        lease_ms: terms.lease_ms,
        offered_bytes: terms.offered_bytes,
    })?;
    channel.protect(secret.session(&said.parts()));
    Ok(Answer::Welcomed(place))
}

/// Why a client does not get to know a server's terms.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntroductionError {
    #[error("the server refuses this secret")]
    WrongSecret,
    #[error("the server has as many clients as it takes")]
    Full,
    #[error("the server does not know the secret")]
    Impostor,
    #[error("the server speaks version {theirs} of the protocol, this program version {ours}")]
    Version { theirs: u16, ours: u16 },
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// The client's part: the server's terms.
///
/// # Errors
/// [`IntroductionError`].
pub(crate) fn introduce(
    channel: &mut Channel,
    secret: &Secret,
) -> Result<Terms, IntroductionError> {
    let c = nonce()?;
    channel.send(&Message::Hello {
        version: VERSION,
        nonce: c,
    })?;
    let Message::Challenge { version, nonce: s } = channel.expect(STEP_TIMEOUT)? else {
        return Err(ChannelError::Unexpected.into());
    };
    if version != VERSION {
        let (theirs, ours) = (version, VERSION);
        return Err(IntroductionError::Version { theirs, ours });
    }
    let said = Said::new((VERSION, c), (version, s));
    let code = secret.sign(&said.proof());
    channel.send(&Message::Proof { code })?;
    match channel.expect(STEP_TIMEOUT)? {
        Message::Welcome {
            code,
            lease_ms,
            offered_bytes,
        } => {
            let terms = Terms {
                lease_ms,
                offered_bytes,
            };
            if !secret.is_signed(&said.welcome(&terms.bytes()), &code) {
                return Err(IntroductionError::Impostor);
            }
            channel.protect(secret.session(&said.parts()));
            Ok(terms)
        }
        Message::Refused(Refusal::WrongSecret) => Err(IntroductionError::WrongSecret),
        Message::Refused(Refusal::Full) => Err(IntroductionError::Full),
        _ => Err(ChannelError::Unexpected.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel::tests::ends;
    use super::*;

    const TERMS: Terms = Terms {
        lease_ms: 1500,
        offered_bytes: 1 << 30,
    };

    fn secret(byte: u8) -> Secret {
        Secret::new(&[byte; 20]).unwrap()
    }

    type Both = (
        Result<Terms, IntroductionError>,
        Result<Answer<()>, ChannelError>,
    );

    fn introduced(client: &Secret, server: &Secret, place: Option<()>) -> Both {
        let (mut ours, mut theirs) = ends();
        std::thread::scope(|scope| {
            let answered = scope.spawn(|| answer(&mut theirs, server, TERMS, &|| false, || place));
            let terms = introduce(&mut ours, client);
            (terms, answered.join().unwrap())
        })
    }

    #[test]
    fn who_knows_the_secret_gets_the_terms() {
        let (terms, answered) = introduced(&secret(1), &secret(1), Some(()));
        assert_eq!(terms.unwrap(), TERMS);
        assert_eq!(answered.unwrap(), Answer::Welcomed(()));
    }

    #[test]
    fn a_client_for_whom_there_is_no_place_is_told_so() {
        let (terms, answered) = introduced(&secret(1), &secret(1), None);
        let error = terms.unwrap_err();
        assert!(matches!(error, IntroductionError::Full), "{error}");
        assert_eq!(answered.unwrap(), Answer::Full);
    }

    #[test]
    fn a_wrong_secret_is_refused_and_named() {
        let (terms, answered) = introduced(&secret(1), &secret(2), Some(()));
        let error = terms.unwrap_err();
        assert!(matches!(error, IntroductionError::WrongSecret), "{error}");
        assert_eq!(answered.unwrap(), Answer::Refused);
    }

    #[test]
    fn a_server_that_does_not_know_the_secret_is_an_impostor() {
        let (mut ours, mut theirs) = ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.expect(STEP_TIMEOUT).unwrap();
                let (version, nonce) = (VERSION, [3; 32]);
                theirs.send(&Message::Challenge { version, nonce }).unwrap();
                theirs.expect(STEP_TIMEOUT).unwrap();
                let welcome = Message::Welcome {
                    code: [0; 32],
                    lease_ms: 1000,
                    offered_bytes: 1,
                };
                theirs.send(&welcome).unwrap();
            });
            let error = introduce(&mut ours, &secret(1)).unwrap_err();
            assert!(matches!(error, IntroductionError::Impostor), "{error}");
        });
    }

    #[test]
    fn codes_are_of_the_versions_too() {
        let said = |client, server| Said::new((client, [1; 32]), (server, [2; 32]));
        let secret = secret(1);
        let of = |said: &Said| {
            let session = secret.session(&said.parts()).sign(&[b"message"]);
            [
                secret.sign(&said.proof()),
                secret.sign(&said.welcome(&TERMS.bytes())),
                session,
            ]
        };
        let codes = of(&said(2, 2));
        for other in [said(1, 2), said(2, 1)] {
            let others = of(&other);
            assert!(codes.iter().zip(&others).all(|(code, other)| code != other));
        }
    }

    #[test]
    fn another_version_is_told_by_both_numbers() {
        let (mut ours, mut theirs) = ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.expect(STEP_TIMEOUT).unwrap();
                let (version, nonce) = (9, [3; 32]);
                theirs.send(&Message::Challenge { version, nonce }).unwrap();
            });
            let error = introduce(&mut ours, &secret(1)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the server speaks version 9 of the protocol, this program version 2"
            );
        });
        let (mut ours, mut theirs) = ends();
        let (version, nonce) = (1, [3; 32]);
        ours.send(&Message::Hello { version, nonce }).unwrap();
        let answered = answer(&mut theirs, &secret(1), TERMS, &|| false, || Some(()));
        assert_eq!(answered.unwrap(), Answer::Refused);
    }

    #[test]
    fn a_silent_stranger_does_not_keep_a_server_from_stopping() {
        let hello = Message::Hello {
            version: VERSION,
            nonce: [3; 32],
        };
        for said in [None, Some(hello)] {
            let (mut ours, mut theirs) = ends();
            if let Some(said) = said {
                ours.send(&said).unwrap();
            }
            let started = Instant::now();
            let is_stopping = || started.elapsed() > 2 * TURN;
            let found = answer(&mut theirs, &secret(1), TERMS, &is_stopping, || Some(()));
            assert_eq!(found.unwrap(), Answer::Stopping);
            assert!(started.elapsed() < STEP_TIMEOUT / 2);
        }
    }

    #[test]
    fn whoever_begins_with_something_else_is_not_answered() {
        for message in [Message::Renew, Message::Allocate { bytes: 1 }] {
            let (mut ours, mut theirs) = ends();
            ours.send(&message).unwrap();
            let found = answer(&mut theirs, &secret(1), TERMS, &|| false, || Some(()));
            assert!(matches!(found, Err(ChannelError::Unexpected)));
        }
    }
}
