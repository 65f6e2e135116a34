//! What can go wrong with RDMA.

use std::time::Duration;

use crate::region::RegionError;
use crate::sys::SysError;

/// Errors of RDMA.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// This machine has no RDMA.
    #[error("RDMA is unavailable: {reason}")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// A verb failed.
    #[error(transparent)]
    Verb(#[from] SysError),
    /// Memory could not be registered.
    #[error(
        "{bytes} bytes cannot be registered: {source}; the limit of locked memory may be too small (ulimit -l)"
    )]
    Register {
        /// The bytes of the region.
        bytes: usize,
        /// What the library said.
        #[source]
        source: SysError,
    },
    /// The device ended a transfer with an error, after which the connection is of no use.
    #[error("the device reports: {status}")]
    Transfer {
        /// The text of its status.
        status: String,
    },
    /// No transfer was completed for so long.
    #[error("no transfer was completed within {} ms", timeout.as_millis())]
    TimedOut {
        /// How long was waited.
        timeout: Duration,
    },
    /// The connection was given up.
    #[error("the connection has ended: {reason}")]
    Ended {
        /// Why.
        reason: String,
    },
    /// A connection whose buffer would hold nothing.
    #[error("a connection needs a near buffer that is not empty")]
    EmptyStaging,
    /// A tier that is not of another host.
    #[error("tier {tier:?} is memory of this host")]
    NotRemote {
        /// The tier's name.
        tier: String,
    },
    /// The budget of a tier of another host does not suffice ([`RegionError::OverBudget`]).
    #[error(transparent)]
    Budget(RegionError),
}
