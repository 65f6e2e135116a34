//! Why a checkpoint can't be written or read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfar_memory::pool::PoolError;

use crate::manifest::ManifestError;
use nearfar_table::segment::FormError;

/// Why a checkpoint can't be written or read. Names the file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file can't be read, written or deleted.
    #[error("`{}` can't be {doing}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was to be done, as a participle.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The file system is full.
    #[error(
        "`{}` can't be written: the file system is full; make room, and the checkpoint is written \
         again (the one before is whole)",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A file is not what was written.
    #[error("`{}` can't be used: {source}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ManifestError,
    },
    /// The values of a column are not what was written.
    #[error(
        "column `{column}` of segment {segment} of table `{table}` in `{}` can't be used: {source}",
        path.display()
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The segment's place among the parts of its table, from 0.
        segment: usize,
        /// The column.
        column: String,
        /// What is wrong with it.
        #[source]
        source: Box<ColumnError>,
    },
    /// A pool can't be used, or has no room.
    #[error("the pool `{}` can't be used: {source}{}", path.display(), remedy(source))]
    Pool {
        /// The file or device.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<PoolError>,
    },
    /// A pool has the tables of another database.
    #[error(
        "the pool `{}` has tables of another data directory, or of none: open it with that one, or \
         name another pool, or remove it",
        path.display()
    )]
    OtherDatabase {
        /// The file or device.
        path: PathBuf,
    },
    /// A pool is behind the log of a data directory.
    #[error(
        "the pool `{}` belongs to a data directory, whose log has the newest changes: name it too",
        path.display()
    )]
    NeedsDataDirectory {
        /// The file or device.
        path: PathBuf,
    },
    /// A table can't be part of a checkpoint.
    #[error("table `{table}` can't be kept: {source}")]
    Table {
        /// The table.
        table: String,
        /// Why.
        #[source]
        source: ManifestError,
    },
}

/// What is wrong with the bytes of a column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// They are damaged.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// They are not those that were published.
    #[error(transparent)]
    Pool(PoolError),
    /// They are no values of the column's type.
    #[error(transparent)]
    Form(#[from] FormError),
}

fn remedy(error: &PoolError) -> &'static str {
    match error {
        PoolError::Full { .. } => {
            "; drop or truncate tables, or move columns to another tablespace, or make a larger pool"
        }
        PoolError::System { source, .. } if source.is_full() => {
            ": No space left on device; make room on its file system, or name another place"
        }
        _ => "",
    }
}

impl CheckpointError {
    /// An error of the system, told apart where a full disk is the reason.
    pub(crate) fn of_io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::File {
                path,
                doing,
                source: Arc::new(source),
            },
        }
    }
}
