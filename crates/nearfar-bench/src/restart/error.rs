//! What can go wrong with the benchmark of restarts.

use std::io;

use crate::bench::BenchError;
use crate::tpch::TpchError;

/// Errors of the benchmark of restarts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestartBenchError {
    /// A scale factor that TPC-H does not have, or no runs.
    #[error(transparent)]
    Tpch(#[from] TpchError),
    /// Parquet files that can't be written.
    #[error(transparent)]
    Files(#[from] BenchError),
    /// A process that can't be started or spoken to.
    #[error("the process that starts with {way} can't be run")]
    Process {
        /// What it starts with.
        way: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A process that failed.
    #[error("the process that starts with {way} failed: {reason}")]
    Failed {
        /// What it starts with.
        way: &'static str,
        /// What it said.
        reason: String,
    },
    /// Two processes gave different answers.
    #[error("the first query gave {found} with {way}, and {expected} before")]
    Mismatch {
        /// What the process starts with.
        way: &'static str,
        /// Its answer.
        found: String,
        /// The answer of the others.
        expected: String,
    },
}
