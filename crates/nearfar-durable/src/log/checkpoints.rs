//! Checkpoints: when they are written, and what of the log is kept.

use parking_lot::{Condvar, Mutex};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::open_log::Log;
use super::options::DataOptions;
use crate::checkpoint::directory;
use crate::checkpoint::pooled::TablePool;
use crate::error::{DurabilityError, DurableError};
use crate::manifest::DatabaseManifest;
use nearfar_table::transaction::Database;

/// How often it is looked whether a checkpoint is due.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// After a checkpoint that has failed, none is tried for so long.
const PAUSE: Duration = Duration::from_secs(10);

/// What is committed at this moment, up to a position of the log, and no more than that.
pub type TakeManifest = Box<dyn Fn() -> DatabaseManifest + Send + Sync>;

/// Writes checkpoints when they are due, on a thread of its own.
#[derive(Debug)]
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    folder: PathBuf,
    term: u64,
    log: Arc<Log>,
    database: Arc<Database>,
    /// The pool that is to be no older than the checkpoints.
    pool: Option<Arc<TablePool>>,
    take: TakeManifest,
    bytes: u64,
    interval: Option<Duration>,
    /// When the last one was written. Held while one is written.
    last: Mutex<Instant>,
    is_closing: Mutex<bool>,
    closing: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Checkpoints {
    pub fn start(
        (folder, term): (PathBuf, u64),
        options: &DataOptions,
        log: Arc<Log>,
        (database, pool): (Arc<Database>, Option<Arc<TablePool>>),
        take: TakeManifest,
    ) -> Self {
        let shared = Arc::new(Shared {
            folder,
            term,
            log,
            database,
            pool,
            take,
            bytes: options.checkpoint_bytes.max(1),
            interval: options.checkpoint_interval,
            last: Mutex::new(Instant::now()),
            is_closing: Mutex::new(false),
            closing: Condvar::new(),
        });
        let thread = std::thread::Builder::new().name("nearfar-checkpoint".to_owned());
        let looking = Arc::clone(&shared);
        let thread = thread
            .spawn(move || looking.look())
            .inspect_err(|error| tracing::error!(%error, "no thread for checkpoints"));
        Self {
            shared,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// Writes one now.
    ///
    /// # Errors
    /// A log or a disk that can't be written; the last checkpoint stays what it is.
    pub fn write(&self) -> Result<(), DurableError> {
        self.shared.write()
    }

    /// Whether anything was changed since the last one.
    pub fn is_behind(&self) -> bool {
        self.shared.log.bytes_since_checkpoint() > 0
    }

    /// Writes no other, once the one that is under way is done.
    pub fn stop(&self) {
        *self.shared.is_closing.lock() = true;
        self.shared.closing.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of checkpoints has panicked");
        }
    }
}

impl Shared {
    fn look(&self) {
        let mut failed: Option<Instant> = None;
        loop {
            let mut is_closing = self.is_closing.lock();
            if !*is_closing {
                self.closing.wait_for(&mut is_closing, LOOK_EVERY);
            }
            if *is_closing {
                return;
            }
            drop(is_closing);
            if failed.is_some_and(|failed| failed.elapsed() < PAUSE) || !self.is_due() {
                continue;
            }
            failed = match self.write() {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "a checkpoint failed, it is tried again later");
                    Some(Instant::now())
                }
            };
        }
    }

    fn is_due(&self) -> bool {
        let bytes = self.log.bytes_since_checkpoint();
        let is_old = |interval| bytes > 0 && self.last.lock().elapsed() >= interval;
        self.log.check().is_ok() && (bytes >= self.bytes || self.interval.is_some_and(is_old))
    }

    /// Has the pool at least as new as the checkpoint, behind which the log begins. Where that fails,
    /// the next start takes the checkpoint.
    fn publish(&self, manifest: &DatabaseManifest) {
        let Some(pool) = &self.pool else {
            return;
        };
        if let Err(error) = pool.publish(manifest) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the pool has fallen behind the data directory");
        }
    }

    fn check_owner(&self) -> Result<(), DurabilityError> {
        let checked = self.log.check_owner();
        checked.map_err(|by| DurabilityError::Fenced { by })
    }

    fn write(&self) -> Result<(), DurableError> {
        let mut last = self.last.lock();
        let started = Instant::now();
        let manifest = (self.take)();
        let position = manifest.log_position;
        // The log must not end before its checkpoint, whatever happens.
        self.log.sync_to(position)?;
        let storage = self.database.storage();
        let (folder, term) = (&self.folder, self.term);
        let written =
            directory::write_in_term(folder, &manifest, storage, term, || Ok(self.check_owner()?))?;
        self.publish(&manifest);
        // Another owner needs what is removed, unless it finds this checkpoint.
        self.check_owner()?;
        self.log.begin_at(position);
        drop(manifest);
        if let Err(error) = directory::delete_old(&self.folder, &written) {
            tracing::warn!(%error, "old checkpoints can't be removed, it is tried again later");
        }
        *last = Instant::now();
        tracing::info!(
            position,
            bytes = written.bytes,
            new_bytes = written.new_bytes,
            milliseconds = started.elapsed().as_millis() as u64,
            "checkpoint written"
        );
        Ok(())
    }
}
