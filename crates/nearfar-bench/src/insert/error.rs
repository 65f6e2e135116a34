//! What can go wrong with the benchmark of inserts.

use std::io;
use std::path::PathBuf;

use nearfar_sql::error::EngineError;

/// Errors of the benchmark of inserts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertBenchError {
    /// Options that mean nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A data directory that can't be made.
    #[error("cannot make a data directory below {}", path.display())]
    Directory {
        /// The folder that it was to be in.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An engine that can't be made, or a statement that failed.
    #[error("{what} failed with {contestant}")]
    Engine {
        /// What was done.
        what: &'static str,
        /// Who did it.
        contestant: String,
        /// Why.
        #[source]
        source: Box<EngineError>,
    },
    /// A table that has not the rows that were inserted.
    #[error("{contestant} inserted {inserted} rows, and the table has {found}")]
    Mismatch {
        /// Who inserted.
        contestant: String,
        /// The rows whose inserts were acknowledged.
        inserted: u64,
        /// The rows that were found.
        found: u64,
    },
}
