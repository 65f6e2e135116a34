//! How a data directory is opened.

use nearfar_memory::FileAccess;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::faults::LogFaults;
use super::sync::LogSync;

/// The data directory of an engine, and what is promised of it.
#[derive(Debug, Clone)]
pub struct DataOptions {
    /// The directory; it is made where there is none.
    pub directory: PathBuf,
    /// When commits are written to disk, until the setting `log_sync` says otherwise.
    pub sync: LogSync,
    /// A checkpoint is written once the log has so many bytes more than the last one.
    pub checkpoint_bytes: u64,
    /// A checkpoint is written once the last one is so old, if anything was changed.
    pub checkpoint_interval: Option<Duration>,
    /// Whether a checkpoint is written when the engine ends, if anything was changed: opening the
    /// directory reads no log then.
    pub checkpoint_at_end: bool,
    /// Whether a log that is damaged is read up to the damage, instead of refused.
    pub recover_until_damage: bool,
    /// Told how far reading the log is.
    pub progress: Option<RecoveryObserver>,
    /// Who may read the directory, where it is made.
    pub access: FileAccess,
    /// Failures of the log's files, for tests.
    pub faults: Arc<LogFaults>,
}

impl DataOptions {
    /// A checkpoint is written after so many bytes of the log, where nothing else is said.
    pub const CHECKPOINT_BYTES: u64 = 256 << 20;

    /// The defaults: commits are on disk when they are acknowledged, a checkpoint every 256 MiB of
    /// log and every 15 minutes, damage refused.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            sync: LogSync::On,
            checkpoint_bytes: Self::CHECKPOINT_BYTES,
            checkpoint_interval: Some(Duration::from_secs(15 * 60)),
            checkpoint_at_end: true,
            recover_until_damage: false,
            progress: None,
            access: FileAccess::Owner,
            faults: Arc::default(),
        }
    }
}

/// Whom to tell how far recovery is.
#[derive(Clone)]
pub struct RecoveryObserver(Arc<dyn Fn(RecoveryProgress) + Send + Sync>);

impl RecoveryObserver {
    /// Calls `observe` now and then, and when recovery is done.
    pub fn new(observe: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    pub(super) fn tell(&self, progress: RecoveryProgress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for RecoveryObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryObserver")
    }
}

/// How far recovery is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Bytes of the log that were carried out.
    pub bytes: u64,
    /// Bytes of the log that there are behind the checkpoint.
    pub total_bytes: u64,
    /// Transactions and definitions that were carried out.
    pub transactions: u64,
    /// Bytes that were cut from the end of the log, where it was torn.
    pub cut_bytes: u64,
}

/// Where the tables were that an engine began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it began without any.
    Nothing,
    /// In the data directory: its newest checkpoint and the log, or the log alone.
    Directory,
    /// In the pool, where they are used in place, and in the log behind that if there is one.
    Pool,
}
