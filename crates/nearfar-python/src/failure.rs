//! What can go wrong, for both faces of the module.

use arrow::error::ArrowError;
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The engine's reason.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Rows of the caller's that can't be read, or rows that can't be given.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// An argument that makes no sense.
    #[error("{0}")]
    Argument(String),
    /// Something that was closed before.
    #[error("the {0} is closed: make a new one")]
    Closed(&'static str),
    /// A process that was forked: threads and locks are those of its parent.
    #[error(
        "the database was opened in process {opened_in}, and this one was forked from it: connect again here, \
         or start processes by `spawn`"
    )]
    Forked {
        /// The process that has it.
        opened_in: u32,
    },
    /// The caller has given it up.
    #[error("interrupted")]
    Interrupted,
    /// Another thread of the caller's has given it up.
    #[error("the statement was given up by interrupt()")]
    GivenUp,
    /// Work that ended without a result: a bug.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A statement that is wrong, or what it does.
    Statement,
    /// A name that there is not.
    Missing,
    /// A name that is taken.
    Exists,
    /// A key or constraint that refuses a row.
    Integrity,
    /// A transaction that can't go on: run it again.
    Transaction,
    /// A budget or limit.
    Memory,
    /// A value that does not fit.
    Data,
    /// Files and disks.
    Files,
    /// Something that is not supported.
    Unsupported,
    /// What the caller did wrong.
    Usage,
    /// Given up by Ctrl-C.
    Interrupted,
    /// Given up by a call.
    GivenUp,
    /// A bug.
    Internal,
}

impl Failure {
    /// What it is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Engine(error) => of_engine(error),
            Self::Arrow(ArrowError::ExternalError(inner)) => inner
                .downcast_ref::<EngineError>()
                .map_or(FailureKind::Data, of_engine),
            Self::Arrow(_) => FailureKind::Data,
            Self::Argument(_) | Self::Closed(_) | Self::Forked { .. } => FailureKind::Usage,
            Self::Interrupted => FailureKind::Interrupted,
            Self::GivenUp => FailureKind::GivenUp,
            Self::Internal(_) => FailureKind::Internal,
        }
    }
}

fn of_engine(error: &EngineError) -> FailureKind {
    match error {
        EngineError::Region(_) | EngineError::OutOfMemory(_) | EngineError::System(_) => {
            FailureKind::Memory
        }
        EngineError::Tier(_) | EngineError::Model(_) | EngineError::Strategy(_) => {
            FailureKind::Missing
        }
        EngineError::Sql(error) => of_sql(error),
        EngineError::Transaction(_) => FailureKind::Transaction,
        EngineError::Index(_) => FailureKind::Integrity,
        EngineError::Durability(_)
        | EngineError::Checkpoint(_)
        | EngineError::Unreadable { .. }
        | EngineError::Damaged(_)
        | EngineError::UnknownFormat { .. } => FailureKind::Files,
        EngineError::Cancelled { .. } => FailureKind::Interrupted,
        EngineError::Internal { .. } => FailureKind::Internal,
        EngineError::Arrow(_) => FailureKind::Data,
        error if error.is_of_missing_table() => FailureKind::Missing,
        _ => FailureKind::Statement,
    }
}

fn of_sql(error: &SqlError) -> FailureKind {
    match error {
        SqlError::UnknownTable { .. } | SqlError::UnknownColumn { .. } => FailureKind::Missing,
        SqlError::TableExists { .. } | SqlError::IndexExists { .. } => FailureKind::Exists,
        SqlError::Unsupported { .. } => FailureKind::Unsupported,
        _ => FailureKind::Statement,
    }
}
