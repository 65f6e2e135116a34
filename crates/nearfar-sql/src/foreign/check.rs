//! Files and folders, checked before a library reads them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::FileFormat;
use super::{arrow_ipc, parquet};
use crate::error::Damage;
use crate::error::EngineError;

/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 16;

/// Checks what the metadata of the file `path`, or of the files of `format` below the folder `path`,
/// say. What can't be opened is left to who reads it.
///
/// # Errors
/// [`EngineError::Unreadable`] with the [`Damage`] of the first file that is damaged.
pub fn check(path: &Path, format: FileFormat) -> Result<(), EngineError> {
    check_below(path, format, DEPTH_MAX)
}

fn check_below(path: &Path, format: FileFormat, depth: usize) -> Result<(), EngineError> {
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(());
    };
    if metadata.is_file() {
        return check_file(path, format);
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(());
    };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() || FileFormat::of_path(&path).ok() == Some(format) {
            check_below(&path, format, depth)?;
        }
    }
    Ok(())
}

/// Checks one file.
///
/// # Errors
/// As [`check`].
pub(super) fn check_file(path: &Path, format: FileFormat) -> Result<(), EngineError> {
    let Ok(file) = Bytes::open(path) else {
        return Ok(());
    };
    let checked = match format {
        // Some writers leave files without a byte, which are passed over.
        _ if file.len == 0 => Ok(()),
        FileFormat::Parquet => parquet::check(&file),
        FileFormat::Arrow => arrow_ipc::check(&file),
        // It says nothing of itself.
        FileFormat::Csv => Ok(()),
    };
    checked.map_err(|damage| unreadable(path, damage))
}

/// A file with this damage.
pub(super) fn unreadable(path: &Path, damage: Damage) -> EngineError {
    EngineError::Unreadable {
        path: path.to_owned(),
        source: Box::new(EngineError::Damaged(damage)),
    }
}

/// The bytes of a file.
pub(super) struct Bytes {
    file: File,
    /// How many they are.
    pub len: u64,
}

impl Bytes {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether the file has as many bytes there. Offsets and lengths are those that a file says.
    pub fn check(&self, what: &'static str, offset: i128, said: i128) -> Result<(), Damage> {
        let is_within = offset >= 0 && said >= 0 && offset + said <= i128::from(self.len);
        match is_within {
            true => Ok(()),
            false => Err(Damage::Beyond {
                what,
                offset,
                said_bytes: said,
                bytes: self.len,
            }),
        }
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// There are not as many; the kernel's.
    pub fn read(&self, what: &'static str, offset: i128, count: i128) -> Result<Vec<u8>, Damage> {
        self.check(what, offset, count)?;
        let mut bytes = vec![0; count as usize];
        let read = self.file.read_exact_at(&mut bytes, offset as u64);
        read.map_err(|error| Damage::malformed(what, error))?;
        Ok(bytes)
    }

    /// As many bytes of the file as an array has.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn array<const N: usize>(
        &self,
        what: &'static str,
        offset: i128,
    ) -> Result<[u8; N], Damage> {
        self.check(what, offset, N as i128)?;
        let mut bytes = [0; N];
        let read = self.file.read_exact_at(&mut bytes, offset as u64);
        read.map_err(|error| Damage::malformed(what, error))?;
        Ok(bytes)
    }
}

#[cfg(test)]
impl Bytes {
    /// A file of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use std::io::Write;
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        let len = bytes.len() as u64;
        Self { file, len }
    }
}
