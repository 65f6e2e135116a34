//! How far the log was on disk at least, noted apart from the log.
//!
//! A log whose last file is gone, or a term whose folder is, looks like one that has ended earlier. So
//! each term also notes, in a file of its own beside the log's folder, a position that was on disk: when
//! it begins, at its first write to disk, whenever it goes on in another file, and when it ends. Where
//! the log that is found ends before that, it has lost what was acknowledged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::write_whole;
use crate::error::DurabilityError;

const PREFIX: &str = "reached-";

/// The note of one term of a data directory.
#[derive(Debug, Clone)]
pub(super) struct Reached {
    directory: PathBuf,
    term: u64,
}

impl Reached {
    /// The note of `term` in the data directory at `directory`.
    pub fn of(directory: &Path, term: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            term,
        }
    }

    /// Its file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{PREFIX}{:08x}", self.term))
    }

    /// The position that it has, if it is there.
    ///
    /// # Errors
    /// The kernel's; a file that is not what was written.
    pub fn read(&self) -> Result<Option<u64>, DurabilityError> {
        let path = self.path();
        let failed = |error: io::Error| DurabilityError::io("cannot read", &path, &error);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(failed)?,
        };
        let position = text.strip_prefix("position ");
        let position = position.and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
        let wrong = || failed(io::Error::other("it is not what was written; remove it"));
        position.map(Some).ok_or_else(wrong)
    }

    /// Notes that the log was on disk up to `position`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write(&self, position: u64) -> Result<(), DurabilityError> {
        write_whole(&self.path(), format!("position {position}\n").as_bytes())
    }

    /// The terms that have noted something, ascending.
    ///
    /// # Errors
    /// The kernel's.
    pub fn terms(directory: &Path) -> Result<Vec<u64>, DurabilityError> {
        let failed = |error: io::Error| DurabilityError::io("cannot read", directory, &error);
        let mut terms = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            terms.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        terms.sort_unstable();
        Ok(terms)
    }

    /// Removes the notes of earlier terms, which this one's takes the place of.
    pub fn remove_earlier(&self) {
        let terms = Self::terms(&self.directory).unwrap_or_default();
        for term in terms.into_iter().filter(|term| *term < self.term) {
            let path = Self::of(&self.directory, term).path();
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "an old note can't be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (
            Reached::of(folder.path(), 0),
            Reached::of(folder.path(), 26),
        );
        assert_eq!(first.read().expect("none"), None);
        first.write(7).expect("written");
        second.write(1 << 40).expect("written");
        assert_eq!(second.read().expect("read"), Some(1 << 40));
        assert_eq!(Reached::terms(folder.path()).expect("read"), [0, 26]);
        second.remove_earlier();
        assert_eq!(Reached::terms(folder.path()).expect("read"), [26]);
        for wrong in ["", "position", "position 1", "position -1\n", "other 1\n"] {
            fs::write(second.path(), wrong).expect("written");
            let error = second.read().expect_err(wrong).to_string();
            assert!(error.contains("reached-0000001a"), "{error}");
        }
    }
}
