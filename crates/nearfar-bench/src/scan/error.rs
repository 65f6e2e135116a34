//! What can go wrong with the scan benchmark.

use nearfar_kernels::{NotWords, ScanError};
use nearfar_measure::scan::ModelledColumnsError;
use nearfar_memory::{PlaceError, RegionError, SystemError};

/// Errors of the scan benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanBenchError {
    /// Options that mean nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The machine gives no memory system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A placement names what the machine has not.
    #[error("columns or positions cannot be placed")]
    Place(#[from] PlaceError),
    /// Columns that cannot be modelled.
    #[error(transparent)]
    Model(#[from] ModelledColumnsError),
    /// A column or its positions get no memory.
    #[error("no memory for columns and positions")]
    Region(#[from] RegionError),
    /// A region that is no column.
    #[error(transparent)]
    Words(#[from] NotWords),
    /// A scan that was refused.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// An Arrow kernel that failed.
    #[error("Arrow's kernels failed")]
    Arrow(#[from] arrow::error::ArrowError),
    /// Two contestants found different positions.
    #[error("{contestant} found {found} positions of thread {thread}, the scan {expected}")]
    Mismatch {
        /// Which contestant.
        contestant: String,
        /// The thread whose column it was.
        thread: usize,
        /// Positions that it found.
        found: usize,
        /// Positions that the scan found.
        expected: usize,
    },
}
