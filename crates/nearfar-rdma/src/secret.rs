//! The secret that a server and its clients share, and what is derived from it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// The fewest bytes of a secret: what is sent lets whoever hears it try short ones.
const SECRET_BYTES_MIN: usize = 16;

/// Random bytes that are used once.
pub(crate) type Nonce = [u8; 32];
/// An authentication code.
pub(crate) type Code = [u8; 32];

/// What is wrong with a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Its file cannot be read.
    #[error("the secret {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Everybody may read its file.
    #[error("everybody can read the secret {}: chmod it to 600", path.display())]
    OpenToAll {
        /// The file.
        path: PathBuf,
    },
    /// It can be guessed.
    #[error("a secret of {bytes} bytes can be guessed: give {SECRET_BYTES_MIN} at least")]
    Short {
        /// Its bytes.
        bytes: usize,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// The secret that a server and its clients share. It is never sent.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// [`SecretError::Short`] for fewer than 16.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(SecretError::Short { bytes: bytes.len() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// [`SecretError`] for a file that can't be read, that others than its owner and group may read, or whose first
    /// line is too short.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let failed = |source| SecretError::Read {
            path: path.to_owned(),
            source,
        };
        // One file, whatever its name comes to mean meanwhile.
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o007 != 0 {
            let path = path.to_owned();
            return Err(SecretError::OpenToAll { path });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        Self::new(text.lines().next().unwrap_or_default().trim().as_bytes())
    }

    /// The code of these parts.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> Code {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        let mut code = Code::default();
        code.copy_from_slice(context.sign().as_ref());
        code
    }

    /// Whether it is the code of these parts, in a time that tells nothing of how much of it is right.
    pub(crate) fn is_signed(&self, parts: &[&[u8]], code: &Code) -> bool {
        hmac::verify(&self.0, &parts.concat(), code).is_ok()
    }

    /// The key of one session, in which this was said.
    pub(crate) fn session(&self, said: &[&[u8]]) -> Self {
        let key = self.sign(&[&[&b"nearfar rdma session"[..]], said].concat());
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}

/// Secrets stay out of logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

/// Random bytes.
///
/// # Errors
/// [`SecretError::Random`] where the system gives none.
pub(crate) fn nonce() -> Result<Nonce, SecretError> {
    let mut nonce = Nonce::default();
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| SecretError::Random)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_others_may_read_and_short_secrets_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "sixteen bytes at least\nmore\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        let open = Secret::read(&file).unwrap_err();
        assert!(matches!(open, SecretError::OpenToAll { .. }), "{open}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let read = Secret::read(&file).unwrap();
        let same = Secret::new(b"sixteen bytes at least").unwrap();
        let code = same.sign(&[b"a", b"bc"]);
        assert!(read.is_signed(&[b"ab", b"c"], &code));
        assert!(!read.is_signed(&[b"ab", b"d"], &code));
        let other = Secret::new(b"sixteen bytes at most").unwrap();
        assert!(!other.is_signed(&[b"abc"], &code));
        fs::write(&file, "short\n").unwrap();
        let short = Secret::read(&file).unwrap_err();
        assert!(matches!(short, SecretError::Short { bytes: 5 }), "{short}");
        assert_eq!(format!("{read:?}"), "Secret { .. }");
    }
}
