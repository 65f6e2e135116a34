//! The files of a machine, below a root that is a parameter: `/`, or where a captured tree lies.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use crate::error::RegulateError;

/// A machine's files.
#[derive(Debug, Clone)]
pub struct MachineFiles {
    root: PathBuf,
}

impl MachineFiles {
    /// Those below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Whether they are those of the machine that this runs on.
    pub fn is_this_one(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A file of theirs.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// What a file holds.
    ///
    /// # Errors
    /// [`RegulateError::Vanished`], [`RegulateError::Denied`] or [`RegulateError::File`].
    pub fn read(&self, relative: &str) -> Result<String, RegulateError> {
        read(&self.path(relative))
    }
}

/// What a file holds.
pub(crate) fn read(path: &Path) -> Result<String, RegulateError> {
    fs::read_to_string(path).map_err(|source| of_file(path.to_owned(), "read", source))
}

/// Writes all of a file in one call, as the kernel's files ask for.
pub(crate) fn overwrite(path: &Path, content: &str) -> Result<(), RegulateError> {
    let of = |source| of_file(path.to_owned(), "write", source);
    let mut file = OpenOptions::new().write(true).open(path).map_err(of)?;
    file.write_all(content.as_bytes()).map_err(of)?;
    // A captured tree's files have a length; those of the kernel refuse to be given one.
    drop(file.set_len(content.len() as u64));
    Ok(())
}

/// Why a file could not be used.
pub(crate) fn of_file(path: PathBuf, right: &'static str, source: io::Error) -> RegulateError {
    match source.kind() {
        ErrorKind::NotFound => RegulateError::Vanished { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            RegulateError::Denied { path, right }
        }
        _ => RegulateError::File { path, source },
    }
}

/// Refuses what would lead out of the groups' folder.
pub(crate) fn check_group(name: &str) -> Result<(), RegulateError> {
    let path = Path::new(name);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !is_plain {
        let name = name.to_owned();
        return Err(RegulateError::Group { name });
    }
    Ok(())
}
