//! When tables are published in their pool, and when what lies there is verified.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nearfar_memory::sys::yield_to_others;

use super::pooled::TablePool;
use crate::error::DurableError;
use crate::manifest::DatabaseManifest;
use nearfar_table::table::{ColumnSlot, Snapshot};

/// What is committed, all of which is in the log on disk if there is one.
pub type TakeCommitted = Box<dyn Fn() -> Result<DatabaseManifest, DurableError> + Send + Sync>;

/// Publishes what is committed in a pool: after every merge, after every commit of segments of the
/// main storage, after every definition, and at the end.
pub struct Publisher {
    pool: Arc<TablePool>,
    take: TakeCommitted,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    /// Publishes in `pool` what `take` says.
    pub fn new(pool: Arc<TablePool>, take: TakeCommitted) -> Arc<Self> {
        Arc::new(Self { pool, take })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<TablePool> {
        &self.pool
    }

    /// Publishes what is committed now.
    ///
    /// # Errors
    /// As [`TablePool::publish`]; a log that can't be written. What was published before still is.
    pub fn publish(&self) -> Result<(), DurableError> {
        self.pool.publish_with(&self.take)
    }

    /// The same where nobody waits for it: an error is logged, and it is tried again with the next
    /// change.
    pub fn publish_or_warn(&self) {
        if let Err(error) = self.publish() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the last changes are not published: a restart would not find them in the pool"
            );
        }
    }
}

/// Verifies in the background what was attached.
#[derive(Debug)]
pub struct Verifier {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Verifier {
    /// Checks every column segment of `tables` that has not been read yet, in the time that queries
    /// leave. A damaged one is logged, and an error for every query that reads it.
    pub(crate) fn start(tables: Vec<Snapshot>) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopped);
        let work = move || {
            if let Err(error) = yield_to_others() {
                tracing::debug!(%error, "the pool is verified at the priority of queries");
            }
            for part in tables.iter().flat_map(|table| table.parts()) {
                let columns = part.segment.columns().iter().map(ColumnSlot::verify);
                let sketches = std::iter::once_with(|| part.segment.sketches().verify());
                for verified in columns.chain(sketches) {
                    if let Err(error) = verified {
                        let error: &dyn std::error::Error = &error;
                        tracing::error!(error, "damage was found");
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
            tracing::info!("everything in the pool is verified");
        };
        let thread = std::thread::Builder::new().name("nearfar-verify".to_owned());
        let thread = thread
            .spawn(work)
            .inspect_err(|error| tracing::error!(%error, "no thread to verify the pool"));
        Self {
            is_stopped,
            thread: thread.ok(),
        }
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that verifies the pool has panicked");
        }
    }
}
