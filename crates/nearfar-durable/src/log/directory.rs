//! The data directory: who has it open, and what its files are.
//!
//! | file | what it is |
//! |---|---|
//! | `LOCK` | locked (`flock`) by the process that has the directory open, and has its id |
//! | `NEARFAR` | the version of the layout and the directory's identity, as text |
//! | `log/` | the log, in files of 16 MiB; `log/term-N/` where there is a pool |
//! | `savepoint/` | checkpoints |

use nearfar_memory::FileAccess;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::term::last_pool;
use crate::checkpoint::pooled::DataLink;
use crate::error::DurabilityError;
use crate::private;

/// The version of the layout.
const LAYOUT_VERSION: u32 = 2;

const LOCK: &str = "LOCK";
const IDENTITY: &str = "NEARFAR";
const LOG: &str = "log";

/// A data directory that this process has to itself until the value is dropped.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    /// Not zero, which is for pools without a data directory.
    identity: u64,
    /// Keeps the lock, which owners of one pool share: their claims decide.
    lock: File,
}

impl DataDirectory {
    /// [`Self::open_for`] its owner alone.
    #[cfg(test)]
    pub fn open(path: &Path, pool: Option<u128>) -> Result<Self, DurabilityError> {
        Self::open_for(path, pool, FileAccess::Owner)
    }

    /// Opens the directory, or makes it for `access` where there is none. A process that owns the pool which the
    /// directory was last written with shares it with earlier owners, who may not know yet that
    /// they are none.
    ///
    /// # Errors
    /// [`DurabilityError::InUse`], [`DurabilityError::NotADataDirectory`],
    /// [`DurabilityError::TooOpen`], [`DurabilityError::Version`], and the kernel's.
    pub fn open_for(
        path: &Path,
        pool: Option<u128>,
        access: FileAccess,
    ) -> Result<Self, DurabilityError> {
        fs::create_dir_all(path)
            .map_err(|error| DurabilityError::io("cannot make data directory", path, &error))?;
        let path = path
            .canonicalize()
            .map_err(|error| DurabilityError::io("cannot open data directory", path, &error))?;
        check_folder(&path, access)?;
        let last_pool = last_pool(&path.join(LOG))?;
        let lock = lock(&path, pool.is_some() && pool == last_pool)?;
        let mut directory = Self {
            path,
            identity: 0,
            lock,
        };
        directory.identity = directory.identify()?;
        for folder in [directory.log(), directory.checkpoints()] {
            private::make_folder(&folder)
                .map_err(|error| DurabilityError::io("cannot make folder", &folder, &error))?;
        }
        sync_folder(&directory.path)?;
        Ok(directory)
    }

    /// Lets later owners of the pool in, where there is one, once the directory says which pool it
    /// is.
    ///
    /// # Errors
    /// [`DurabilityError::InUse`]; the kernel's.
    pub fn share(&self, has_pool: bool) -> Result<(), DurabilityError> {
        match has_pool {
            true => try_lock(&self.path, &self.lock, true),
            false => Ok(()),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a pool has to know of it.
    pub fn link(&self) -> DataLink {
        DataLink {
            identity: self.identity,
            checkpoints: self.checkpoints(),
        }
    }

    /// The folder of the log.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("savepoint")
    }

    /// Checks the version, or writes it where the directory is new. Which directory it is.
    fn identify(&self) -> Result<u64, DurabilityError> {
        let path = self.path.join(IDENTITY);
        match fs::read_to_string(&path) {
            Ok(text) => self.read_identity(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_identity(),
            Err(error) => Err(DurabilityError::io("cannot read", &path, &error)),
        }
    }

    fn write_identity(&self) -> Result<u64, DurabilityError> {
        let identity = random_identity();
        let text = format!("nearfar {LAYOUT_VERSION}\nidentity {identity:016x}\n");
        write_whole(&self.path.join(IDENTITY), text.as_bytes())?;
        Ok(identity)
    }

    fn read_identity(&self, text: &str) -> Result<u64, DurabilityError> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let found = first.strip_prefix("nearfar ").unwrap_or(first);
        let identity = lines.next().and_then(|line| line.strip_prefix("identity "));
        let identity = identity.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match (found.parse(), identity) {
            (Ok(LAYOUT_VERSION), Some(identity)) => Ok(identity),
            _ => Err(DurabilityError::Version {
                path: self.path.clone(),
                found: found.to_owned(),
                expected: LAYOUT_VERSION,
            }),
        }
    }
}

/// Tells what gets it from everything else, and is not zero.
pub(super) fn random_identity() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// A new directory is made private; one that others may read or change is refused.
fn check_folder(path: &Path, access: FileAccess) -> Result<(), DurabilityError> {
    let failed = |error: io::Error| DurabilityError::io("cannot make private", path, &error);
    if !path.join(IDENTITY).exists() {
        return match is_new(path)? {
            true => private::restrict_folder(path, access).map_err(failed),
            false => Err(DurabilityError::NotADataDirectory {
                path: path.to_owned(),
            }),
        };
    }
    match private::too_open(path).map_err(failed)? {
        None => Ok(()),
        Some(mode) => Err(DurabilityError::TooOpen {
            path: path.to_owned(),
            mode,
        }),
    }
}

/// Whether nothing is in the folder but what a directory begins with, and `lost+found`, which is in
/// every new file system.
fn is_new(path: &Path) -> Result<bool, DurabilityError> {
    let failed = |error: io::Error| DurabilityError::io("cannot read", path, &error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let temporary = format!("{IDENTITY}.new");
        if name != LOCK && name != "lost+found" && name != temporary.as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lock(directory: &Path, is_shared: bool) -> Result<File, DurabilityError> {
    let path = directory.join(LOCK);
    let failed = |error: io::Error| DurabilityError::io("cannot lock", &path, &error);
    let mut file = private::open_or_create(&path).map_err(failed)?;
    try_lock(directory, &file, is_shared)?;
    // Always as long, so that nothing is cut off first: that can wait for the disk.
    file.write_all(format!("{:<10}\n", std::process::id()).as_bytes())
        .map_err(failed)?;
    Ok(file)
}

fn try_lock(directory: &Path, file: &File, is_shared: bool) -> Result<(), DurabilityError> {
    let path = directory.join(LOCK);
    let locked = match is_shared {
        true => file.try_lock_shared(),
        false => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let text = fs::read_to_string(&path).unwrap_or_default();
            Err(DurabilityError::InUse {
                path: directory.to_owned(),
                owner: text.trim().parse().ok(),
            })
        }
        Err(TryLockError::Error(error)) => Err(DurabilityError::io("cannot lock", &path, &error)),
    }
}

/// Writes a file that is there whole or not at all, whatever happens.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DurabilityError> {
    let failed = |error: io::Error| DurabilityError::io("cannot write", path, &error);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = private::create_anew(Path::new(&temporary)).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Has the kernel write the names in a folder to disk.
pub(super) fn sync_folder(path: &Path) -> Result<(), DurabilityError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| DurabilityError::io("cannot write to disk", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_open_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        let first = DataDirectory::open(&path, None).expect("new");
        match DataDirectory::open(&path, None) {
            Err(DurabilityError::InUse { owner, .. }) => {
                assert_eq!(owner, Some(std::process::id()));
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        DataDirectory::open(&path, None).expect("again");
    }

    #[test]
    fn other_folders_and_versions_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("letter.txt"), "mine").expect("written");
        let refused = DataDirectory::open(folder.path(), None);
        assert!(
            matches!(refused, Err(DurabilityError::NotADataDirectory { .. })),
            "{refused:?}"
        );
        assert!(!folder.path().join(LOCK).exists());
        let path = folder.path().join("data");
        drop(DataDirectory::open(&path, None).expect("new"));
        fs::write(path.join(IDENTITY), "nearfar 99\n").expect("written");
        let refused = DataDirectory::open(&path, None).expect_err("another version");
        assert!(refused.to_string().contains("version 99"), "{refused}");
    }
}
