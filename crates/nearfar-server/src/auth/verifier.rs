//! What is kept of a password: enough to check it, not enough to log in with.
//!
//! In the form that PostgreSQL stores (`SCRAM-SHA-256$iterations:salt$stored key:server key`), as
//! RFC 5802 and RFC 7677 define its parts.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// As PostgreSQL chooses.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
/// More would let a file of users keep a client busy for long.
const ITERATIONS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
/// Of SHA-256.
pub const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// A key of SHA-256.
pub type Key = [u8; KEY_BYTES];

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) iterations: NonZeroU32,
    pub(super) salt: Vec<u8>,
    /// The hash of the key that a client proves to have.
    pub(super) stored_key: Key,
    /// With which the server proves that it knows the password too.
    pub(super) server_key: Key,
}

impl Verifier {
    /// The verifier of a password, with a salt of its own.
    pub fn of_password(password: &str) -> Self {
        let salt = random::<SALT_BYTES>();
        Self::with_salt(password, &salt, ITERATIONS)
    }

    pub(super) fn with_salt(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        // As in PostgreSQL, a password that can't be prepared is taken as it is.
        let prepared = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let mut salted = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(
            algorithm,
            iterations,
            salt,
            prepared.as_bytes(),
            &mut salted,
        );
        let client_key = sign(&salted, b"Client Key");
        Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: hash(&client_key),
            server_key: sign(&salted, b"Server Key"),
        }
    }

    /// A verifier that no password fits, the same whenever it is made for `name` with `secret`: an
    /// attacker can't tell it from that of a user.
    pub(super) fn of_nobody(name: &str, secret: &Key) -> Self {
        let seed = sign(secret, name.as_bytes());
        Self {
            iterations: ITERATIONS,
            salt: seed[..SALT_BYTES].to_vec(),
            stored_key: random(),
            server_key: random(),
        }
    }
}

/// Keys stay out of logs.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|part| STANDARD.encode(part));
        write!(
            f,
            "SCRAM-SHA-256${}:{salt}${stored}:{server}",
            self.iterations
        )
    }
}

impl FromStr for Verifier {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("SCRAM-SHA-256$").ok_or(())?;
        let (head, keys) = rest.split_once('$').ok_or(())?;
        let (iterations, salt) = head.split_once(':').ok_or(())?;
        let (stored, server) = keys.split_once(':').ok_or(())?;
        let key = |text: &str| -> Result<Key, ()> {
            let bytes = STANDARD.decode(text).map_err(|_| ())?;
            bytes.try_into().map_err(|_| ())
        };
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| ())?;
        let salt = STANDARD.decode(salt).map_err(|_| ())?;
        if salt.is_empty() || iterations.get() > ITERATIONS_MAX {
            return Err(());
        }
        Ok(Self {
            iterations,
            salt,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

/// HMAC-SHA-256.
pub fn sign(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    to_key(tag.as_ref())
}

/// SHA-256.
pub fn hash(bytes: &[u8]) -> Key {
    to_key(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn to_key(bytes: &[u8]) -> Key {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(bytes);
    key
}

/// Whether two secrets are the same, in a time that tells nothing of how much of them is.
pub fn same(first: &[u8], second: &[u8]) -> bool {
    bool::from(hash(first).ct_eq(&hash(second)))
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The kernel's source of randomness does not fail once it is up; without it, nothing is safe.
    assert!(
        SystemRandom::new().fill(&mut bytes).is_ok(),
        "no randomness"
    );
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verifier of "pencil" of the exchange in RFC 7677, section 3.
    #[test]
    fn the_known_password_has_the_known_keys() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let made = Verifier::with_salt("pencil", &salt, ITERATIONS).to_string();
        assert_eq!(
            made,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
             WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn verifiers_are_read_as_they_are_written() {
        let made = Verifier::of_password("Pässwörd $:,");
        assert_eq!(made.to_string().parse(), Ok(made));
        for wrong in [
            "",
            "pencil",
            "md5abc",
            "SCRAM-SHA-256$0:YQ==$YQ==:YQ==",
            "SCRAM-SHA-256$4096:$x:y",
            "SCRAM-SHA-256$4096:YQ==$YQ==:YQ==",
        ] {
            assert_eq!(wrong.parse::<Verifier>(), Err(()), "{wrong}");
        }
    }
}
