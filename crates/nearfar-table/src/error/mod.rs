//! What can go wrong with tables.

mod index;
mod table_name;
mod transaction;

pub use index::IndexError;
pub use table_name::TableName;
pub use transaction::TransactionError;

use arrow::error::ArrowError;
use nearfar_memory::RegionError;
use std::error::Error;

/// Errors of tables, their columns and their transactions. The layers above take every kind apart, so
/// that a new one is not passed over there.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Memory was refused or is not where it should be.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A transaction that can't go on.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// An index that can't be made, or does not take a row.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Temporary tables that would take more than their session may have.
    #[error(transparent)]
    TemporaryLimit(#[from] TemporaryLimit),
    /// Work that was given up before it was done.
    #[error("{what} was cancelled")]
    Cancelled {
        /// The work.
        what: String,
    },
    /// A part of the work ended without a result: a bug.
    #[error("internal error: {message}")]
    Internal {
        /// What the part said last.
        message: String,
    },
    /// Arrow's kernels.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// What a layer above has reported that keeps tables: its log, its files, its pool.
    #[error(transparent)]
    Kept(Box<dyn Error + Send + Sync>),
}

impl TableError {
    /// The same, where it is about a key, with the table that the key is of.
    #[must_use]
    pub fn of_table(self, table: TableName) -> Self {
        match self {
            Self::Index(IndexError::Duplicate { index, key, .. }) => {
                Self::Index(IndexError::Duplicate {
                    index,
                    key,
                    table: Some(Box::new(table)),
                })
            }
            other => other,
        }
    }
}

/// Temporary tables that would take more than their session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the session's temporary tables take {used_bytes} bytes and may take {limit_bytes}, so that \
     {requested_bytes} bytes more can't be had: drop some, or raise temp_limit"
)]
pub struct TemporaryLimit {
    /// The bytes asked for.
    pub requested_bytes: u64,
    /// What all temporary tables of the session take.
    pub used_bytes: u64,
    /// What they may take.
    pub limit_bytes: u64,
}
