//! What can go wrong with operators over two tiers of this machine.

use nearfar_kernels::copy::CopyError;
use nearfar_kernels::{JoinError, NotWords};
use nearfar_memory::RegionError;
use nearfar_memory::sys::SysError;

/// Why sums or joins over two tiers were not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TierRunError {
    /// A column gets no memory.
    #[error("no memory for columns")]
    Region(#[from] RegionError),
    /// Its bytes are no column.
    #[error(transparent)]
    Words(#[from] NotWords),
    /// Buffers do not fit.
    #[error(
        "{options}: they need {needed_bytes} bytes of tier {tier}, which has {available_bytes} bytes left: give less"
    )]
    Room {
        /// The options that say how much is needed.
        options: &'static str,
        /// The tier.
        tier: String,
        /// Bytes that are needed.
        needed_bytes: u64,
        /// Bytes that there are.
        available_bytes: u64,
    },
    /// The system gives no further thread; those that were started have ended.
    #[error("only {started} of {threads} threads are to be had ({reason}): ask for fewer")]
    Thread {
        /// Threads that were started.
        started: usize,
        /// Threads that were wanted.
        threads: usize,
        /// What the system says.
        reason: String,
    },
    /// A thread cannot be pinned to its processor.
    #[error("a thread cannot be pinned")]
    Pin(#[from] SysError),
    /// A join was refused.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Columns were not copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A thread has another result than it must have.
    #[error("{what}: {found} instead of {expected}")]
    Wrong {
        /// Of what.
        what: &'static str,
        /// What it found.
        found: i128,
        /// What there is.
        expected: i128,
    },
}
