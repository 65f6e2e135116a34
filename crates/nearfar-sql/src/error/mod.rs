//! What can go wrong with tables and statements.

mod damage;
mod full;
mod refusal;
mod remote;
mod sql;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use nearfar_memory::{RegionError, SystemError, UnknownTier};
use nearfar_model::ParameterError;

use std::path::PathBuf;
use std::sync::Arc;

use nearfar_durable::error::{CheckpointError, DurabilityError, DurableError};
use nearfar_table::error::{IndexError, TableError, TransactionError};
use nearfar_table::placement::StrategyError;

pub use damage::{Damage, Panicked};
pub use full::is_disk_full;
pub use refusal::{LimitOf, Refusal};
pub use remote::RemoteTableError;
pub use sql::SqlError;

/// Errors of tables, their loading and their placement, and of statements.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Memory was refused or is not where it should be.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The memory system can't be as it was asked for.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A tier that there is not.
    #[error(transparent)]
    Tier(#[from] UnknownTier),
    /// A profile that can't be emulated.
    #[error(transparent)]
    Model(#[from] ParameterError),
    /// A placement strategy that can't be read or carried out.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A statement that can't be read or carried out as it is written.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A transaction that can't go on.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// An index that can't be made, or does not take a row.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The data directory can't be opened, or a change not be kept in it.
    #[error(transparent)]
    Durability(#[from] DurabilityError),
    /// A checkpoint that can't be written or read.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// An operator of a query was refused memory.
    #[error(transparent)]
    OutOfMemory(#[from] Refusal),
    /// A table in the memory of another host can't be put there or read.
    #[error(transparent)]
    Remote(Arc<RemoteTableError>),
    /// A table that a benchmark does not have at the scale factor asked for.
    #[error("{benchmark} has no table `{table}` at this scale factor")]
    UnknownBenchmarkTable {
        /// The benchmark's name.
        benchmark: &'static str,
        /// The name asked for.
        table: String,
    },
    /// A file that is not there or not what it should be.
    #[error("`{}` can't be read as a table: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<EngineError>,
    },
    /// What is wrong with a file that others have written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A file whose format can't be told.
    #[error("`{}` names no format by its ending; .parquet, .csv, .arrow and .ipc are read", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// Work that was given up before it was done.
    #[error("{what} was cancelled")]
    Cancelled {
        /// The work.
        what: String,
    },
    /// A cluster that can't run a statement, or one of its workers.
    #[error("{message}")]
    Cluster {
        /// What is wrong, with the worker's name, and what to do.
        message: String,
    },
    /// A part of a query ended without a result: a bug.
    #[error("internal error: {message}")]
    Internal {
        /// What the part said last.
        message: String,
    },
    /// Arrow's kernels and readers.
    #[error(transparent)]
    Arrow(ArrowError),
    /// DataFusion's planner and operators.
    #[error(transparent)]
    DataFusion(DataFusionError),
}

impl From<CheckpointError> for EngineError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

/// Every kind of the tables' errors is one of these too.
impl From<TableError> for EngineError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Region(error) => Self::Region(error),
            TableError::Transaction(error) => Self::Transaction(error),
            TableError::Index(error) => Self::Index(error),
            TableError::TemporaryLimit(error) => Self::Sql(SqlError::TemporaryLimit(error)),
            TableError::Cancelled { what } => Self::Cancelled { what },
            TableError::Internal { message } => Self::Internal { message },
            TableError::Arrow(error) => error.into(),
            TableError::Kept(error) => match error.downcast::<DurableError>() {
                Ok(error) => (*error).into(),
                Err(error) => Self::DataFusion(DataFusionError::External(error)),
            },
        }
    }
}

/// The same of the errors of what outlives the process.
impl From<DurableError> for EngineError {
    fn from(error: DurableError) -> Self {
        match error {
            DurableError::Durability(error) => Self::Durability(error),
            DurableError::Checkpoint(error) => Self::Checkpoint(error),
            DurableError::Tier(error) => Self::Tier(error),
            DurableError::Table(error) => error.into(),
        }
    }
}

impl EngineError {
    /// Whether a query names a table that there is not.
    pub fn is_of_missing_table(&self) -> bool {
        let Self::DataFusion(error) = self else {
            return false;
        };
        matches!(error.find_root(), DataFusionError::Plan(message) if is_of_missing_table(message))
    }

    /// The same error again, where it can be copied: several partitions may report one error.
    fn copy(&self) -> Option<Self> {
        match self {
            Self::Region(error) => Some(Self::Region(error.clone())),
            Self::Sql(error) => Some(Self::Sql(error.clone())),
            Self::Transaction(error) => Some(Self::Transaction(error.clone())),
            Self::Durability(error) => Some(Self::Durability(error.clone())),
            Self::Checkpoint(error) => Some(Self::Checkpoint(error.clone())),
            Self::OutOfMemory(refusal) => Some(Self::OutOfMemory(refusal.clone())),
            Self::Remote(error) => Some(Self::Remote(Arc::clone(error))),
            _ => None,
        }
    }
}

/// Whether a message of the planner is about a table that there is not, which it tells by nothing but its words.
pub fn is_of_missing_table(message: &str) -> bool {
    message.starts_with("table '") && message.contains("not found")
}

impl From<EngineError> for DataFusionError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::DataFusion(inner) => inner,
            EngineError::Arrow(inner) => inner.into(),
            other => Self::External(Box::new(other)),
        }
    }
}

impl From<ArrowError> for EngineError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(inner) => match inner.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Arrow(ArrowError::ExternalError(other)),
            },
            other => Self::Arrow(other),
        }
    }
}

/// An error of ours that has passed through DataFusion comes out as it went in.
impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => match inner.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => match other.downcast::<DataFusionError>() {
                    Ok(inner) => (*inner).into(),
                    Err(other) => match other.downcast_ref::<regex::Error>() {
                        Some(error) => SqlError::pattern(error).into(),
                        None => Self::DataFusion(DataFusionError::External(other)),
                    },
                },
            },
            DataFusionError::ArrowError(inner, trace) => match Self::from(*inner) {
                Self::Arrow(inner) => {
                    Self::DataFusion(DataFusionError::ArrowError(Box::new(inner), trace))
                }
                own => own,
            },
            DataFusionError::Context(context, inner) => match Self::from(*inner) {
                Self::DataFusion(inner) => {
                    Self::DataFusion(DataFusionError::Context(context, Box::new(inner)))
                }
                own => own,
            },
            DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
                Ok(inner) => inner.into(),
                Err(shared) => match shared.find_root() {
                    DataFusionError::External(inner) => inner
                        .downcast_ref::<Self>()
                        .and_then(Self::copy)
                        .unwrap_or(Self::DataFusion(DataFusionError::Shared(shared))),
                    _ => Self::DataFusion(DataFusionError::Shared(shared)),
                },
            },
            other => Self::DataFusion(other),
        }
    }
}
