//! What can go wrong with tables that outlive the process.

mod checkpoint;
mod durability;

pub use checkpoint::{CheckpointError, ColumnError};
pub use durability::DurabilityError;

use arrow::error::ArrowError;
use nearfar_memory::UnknownTier;

use nearfar_table::error::TableError;

/// Errors of the log, of checkpoints and of pools. The layer above takes every kind apart, so that a new
/// one is not passed over there.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The data directory can't be opened, or a change not be kept in it.
    #[error(transparent)]
    Durability(#[from] DurabilityError),
    /// A checkpoint that can't be written or read.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// A tier that there is not.
    #[error(transparent)]
    Tier(#[from] UnknownTier),
    /// What the tables have reported.
    #[error(transparent)]
    Table(TableError),
}

impl From<CheckpointError> for DurableError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

/// An error of this layer that has passed through the tables comes out as it went in.
impl From<TableError> for DurableError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Kept(kept) => match kept.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Table(TableError::Kept(other)),
            },
            other => Self::Table(other),
        }
    }
}

impl From<ArrowError> for DurableError {
    fn from(error: ArrowError) -> Self {
        Self::Table(error.into())
    }
}

impl From<DurableError> for TableError {
    fn from(error: DurableError) -> Self {
        match error {
            DurableError::Table(own) => own,
            other => Self::Kept(Box::new(other)),
        }
    }
}

impl From<CheckpointError> for TableError {
    fn from(error: CheckpointError) -> Self {
        DurableError::from(error).into()
    }
}

impl From<DurabilityError> for TableError {
    fn from(error: DurabilityError) -> Self {
        DurableError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_out_of_tables_as_they_went_in() {
        let passed = DurableError::from(TableError::from(DurabilityError::InMemory));
        assert!(matches!(
            passed,
            DurableError::Durability(DurabilityError::InMemory)
        ));
        let what = "a merge".to_owned();
        let passed = TableError::from(DurableError::from(TableError::Cancelled { what }));
        assert!(matches!(passed, TableError::Cancelled { .. }));
    }
}
