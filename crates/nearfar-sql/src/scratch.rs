//! Folders of files that end with the process.
//!
//! A process that is killed leaves its folder behind. Each has a file that its process keeps locked,
//! so that the next process knows whose has ended, and removes those of the same user.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearfar_memory::sys::NO_FOLLOW;

/// How the names of all of them begin.
const PREFIX: &str = "nearfar-";
const LOCK: &str = "LOCK";
/// Of one that another process is just making, the lock is not there yet.
const NEW: Duration = Duration::from_secs(3600);
/// Another process may take one that is just being made for one that was left behind.
const TRIES: usize = 8;

/// A folder of this process, which is removed with what is in it when this is dropped.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    /// Locked.
    _lock: File,
}

impl ScratchFolder {
    /// Makes one in `parent`, after removing those that processes of this user have left there.
    /// `purpose` is part of its name.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make(parent: &Path, purpose: &str) -> io::Result<Self> {
        let mut tried = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..TRIES {
            let number = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("{PREFIX}{purpose}-{number:016x}"));
            tried = Self::make_at(path);
            match &tried {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && parent.is_dir() => {}
                _ => break,
            }
        }
        sweep(parent);
        tried
    }

    fn make_at(path: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let lock = options.open(path.join(LOCK))?;
        lock.try_lock().map_err(|_| io::ErrorKind::AlreadyExists)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the folders in `parent` whose processes have ended, and which are of the user of this one.
/// What can't be removed stays.
pub fn sweep(parent: &Path) {
    let Ok(user) = fs::metadata("/proc/self").map(|process| process.uid()) else {
        return;
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = is_scratch(&entry.file_name())
            && fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_ours && has_ended(&path) {
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::debug!(path = %path.display(), "a folder was left behind"),
                Err(error) => tracing::debug!(%error, "a folder that was left behind stays"),
            }
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        /// Files may still be made in it by what was given up.
        const TRIES: usize = 10;
        // One that stays behind is removed by a later process.
        let _ = (0..TRIES).find(|_| fs::remove_dir_all(&self.path).is_ok());
    }
}

/// Whether a name is one that [`ScratchFolder::make`] gives.
fn is_scratch(name: &OsStr) -> bool {
    let number = name
        .to_str()
        .and_then(|name| name.strip_prefix(PREFIX)?.rsplit_once('-'));
    number.is_some_and(|(_, number)| {
        number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Whether the process of a folder has ended.
fn has_ended(folder: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(NO_FOLLOW);
    match options.open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = fs::symlink_metadata(folder).and_then(|found| found.modified());
            made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > NEW))
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().expect("a folder");
        let at = |name: &str| parent.path().join(name);
        let living = ScratchFolder::make(parent.path(), "spill").expect("made");
        let left = at("nearfar-spill-0123456789abcdef");
        let others = ["nearfar-spill", "nearfar-notes-1", "unrelated"].map(at);
        for folder in others.iter().chain([&left]) {
            fs::create_dir(folder).expect("made");
            fs::write(folder.join(LOCK), "").expect("written");
            fs::write(folder.join("rows"), "rows").expect("written");
        }
        let link = at("nearfar-spill-fedcba9876543210");
        std::os::unix::fs::symlink(&others[2], &link).expect("linked");
        let next = ScratchFolder::make(parent.path(), "bench").expect("made");
        assert!(!left.exists());
        assert!(living.path().exists() && next.path().exists());
        assert!(link.is_symlink() && others.iter().all(|folder| folder.join("rows").exists()));
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
