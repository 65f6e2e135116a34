//! What can go wrong with a data directory.

use std::io;
use std::path::PathBuf;

use nearfar_memory::pool::OwnerRecord;

use crate::manifest::ManifestError;

/// Why a data directory can't be opened, or a change not be kept in it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// A file or folder of the data directory.
    #[error("{action} `{}`: {message}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the kernel says.
        message: String,
        /// Its kind.
        kind: io::ErrorKind,
    },
    /// Another process, or another engine of this one, has the directory open.
    #[error(
        "data directory `{}` is open in {}: end that first, or use another directory",
        path.display(), owner_text(*owner)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it open, if it says who it is.
        owner: Option<u32>,
    },
    /// A folder that has files, but is none of ours.
    #[error(
        "`{}` is not a data directory of Nearfar, and not empty: name another folder, which is made \
         if it is not there", path.display()
    )]
    NotADataDirectory {
        /// The folder.
        path: PathBuf,
    },
    /// A directory that others may read or change.
    #[error(
        "data directory `{}` can be read or changed by others (its mode is {mode:04o}): chmod it to \
         700, or to 750 if its group may read it", path.display()
    )]
    TooOpen {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A directory of another version.
    #[error(
        "data directory `{}` has version {found}, but this program reads version {expected}: open it \
         with the version of Nearfar that wrote it", path.display()
    )]
    Version {
        /// The directory.
        path: PathBuf,
        /// Its version, as it is written there.
        found: String,
        /// The version that is read.
        expected: u32,
    },
    /// The log is damaged, and what follows was committed.
    #[error(
        "the log is damaged in `{}` at byte {file_offset} (position {position}): {what}. {lost}. \
         Restore the directory from a backup, or open it with --recover-until-damage to go on with \
         what was committed before the damage; the rest of the log is kept beside it",
        path.display()
    )]
    DamagedLog {
        /// The file of the log.
        path: PathBuf,
        /// The byte of the file.
        file_offset: u64,
        /// The byte of the whole log.
        position: u64,
        /// What is wrong there.
        what: String,
        /// What is lost without it.
        lost: String,
    },
    /// A term of the log has lost the file that says where it begins.
    #[error(
        "`{}` is missing, which says where this part of the log begins: what was committed from there \
         on can't be read without it. Nothing was changed. Put the file back, restore the directory \
         from a backup, or open it with --recover-until-damage to go on with what was committed \
         before; what is left of the rest is kept beside it", path.display()
    )]
    LostTerm {
        /// The file.
        path: PathBuf,
    },
    /// A record that is whole but can't be carried out.
    #[error("the record at position {position} of the log can't be carried out: {what}")]
    Replay {
        /// The byte of the log.
        position: u64,
        /// Why not.
        what: String,
    },
    /// Writing failed, and nothing of the change was kept.
    #[error("the change could not be written to the log, and nothing was changed: {message}")]
    NotLogged {
        /// What the kernel says.
        message: String,
        /// The kind of that, where it was the kernel.
        kind: Option<io::ErrorKind>,
    },
    /// It is not known whether a change is on disk.
    #[error(
        "the log could not be written to disk: {message}. Whether this change is kept is known when \
         the data directory is opened again; until then nothing can be changed, and queries go on"
    )]
    NotSynced {
        /// What the kernel says.
        message: String,
    },
    /// Refused because another process owns the tables now.
    #[error(
        "nothing was changed: {by} has taken over, and this server may write no more. Connect to \
         that one"
    )]
    Fenced {
        /// Who.
        by: String,
    },
    /// Another process came while a change was written.
    #[error(
        "{by} has taken over while this change was written: whether it is kept is known there. \
         Connect to that server, and look before you do it again"
    )]
    InDoubt {
        /// Who.
        by: String,
    },
    /// Refused because writing failed earlier.
    #[error(
        "nothing can be changed since the log could not be written: {message}. Queries go on; end \
         the program, see to the disk, and open the data directory again"
    )]
    Stopped {
        /// What the kernel said then.
        message: String,
    },
    /// A row that fits into no record.
    #[error(
        "rows of table `{table}` are too large for the log: {bytes} bytes in one record, of which \
         {max} are allowed; nothing was changed"
    )]
    RowsTooLarge {
        /// The table.
        table: String,
        /// Bytes of the record.
        bytes: usize,
        /// The most there may be.
        max: usize,
    },
    /// A column that the log has no form for.
    #[error("column type {data_type} can't be kept in a data directory: use a temporary table")]
    UnsupportedType {
        /// The type.
        data_type: String,
    },
    /// A checkpoint could not be written or read.
    #[error("checkpoint: {message}")]
    Checkpoint {
        /// Why not.
        message: String,
    },
    /// A statement that is for data directories only.
    #[error(
        "there is no data directory: everything is in memory only, and gone when the program ends. \
         Start it with --data DIR"
    )]
    InMemory,
}

impl DurabilityError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Io {
            action,
            path: path.into(),
            message: error.to_string(),
            kind: error.kind(),
        }
    }

    /// The one for who writes although `by` has taken over.
    pub fn fenced(by: &OwnerRecord) -> Self {
        Self::Fenced { by: by.to_string() }
    }

    pub(crate) fn replay(position: u64, error: impl std::fmt::Display) -> Self {
        Self::Replay {
            position,
            what: error.to_string(),
        }
    }

    pub(crate) fn undecodable(position: u64) -> impl Fn(ManifestError) -> Self {
        move |error| Self::replay(position, error)
    }
}

fn owner_text(owner: Option<u32>) -> String {
    match owner {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
