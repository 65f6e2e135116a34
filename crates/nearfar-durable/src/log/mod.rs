//! What survives the process: a data directory with a log of what was committed.
//!
//! A transaction appends what it has changed to the [`Log`] under the lock for commits, so that the
//! order of the log is that of commits, and as one record, or several of which only the last makes
//! the others count, so that all of it is there after a crash or nothing. Then it waits for the
//! disk outside of the lock, along with all others that wait, and is seen by others only then.
//! `recovery` carries out what the log has behind the newest checkpoint ([`crate::checkpoint`]), and
//! `checkpoints` writes the next one when the log has grown.
//!
//! The log's framing, checksums and shared writes to disk are those of the crate `wal-db`; what its
//! records say is in `record`.

mod checkpoints;
mod damage;
mod directory;
mod durability;
mod faults;
mod lost;
mod open_log;
mod options;
mod reached;
mod record;
mod recovery;
mod replay;
mod restore;
mod rows;
mod sequences;
mod store;
mod sync;
mod term;
mod waiters;
mod writer;
mod zeros;

#[cfg(fuzzing)]
mod fuzzing;
#[cfg(test)]
mod tests;

pub use checkpoints::TakeManifest;
pub(crate) use directory::DataDirectory;
pub use durability::Durability;
pub use faults::LogFaults;
#[cfg(fuzzing)]
pub use fuzzing::read_record;
pub use open_log::{Log, LogStatus};
pub use options::{DataOptions, Origin, RecoveryObserver, RecoveryProgress};
pub use record::QualifiedName;
pub use replay::Definitions;
pub use sync::{LogSync, LogSyncError};
pub use writer::LogTransaction;
