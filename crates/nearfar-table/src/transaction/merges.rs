//! Merges in the background: when, and on which thread.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::database::Database;
use super::merge::MergeScope;
use crate::error::TableError;
use crate::table::{Snapshot, Table, TableId};

/// How much may be written to a table before it is merged, for all sessions of an engine.
#[derive(Debug, Clone)]
pub struct MergeLimits(Arc<Limits>);

#[derive(Debug)]
struct Limits {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl MergeLimits {
    /// Rows of the delta, where nothing else is set.
    pub const ROWS: u64 = 1 << 17;
    /// Bytes of the delta, where nothing else is set.
    pub const BYTES: u64 = 64 << 20;
    /// No limit.
    pub const NEVER: u64 = u64::MAX;

    /// Rows of the delta, and deleted rows of segments that are worth rewriting.
    pub fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// Bytes of the delta.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Sets the rows.
    pub fn set_rows(&self, rows: u64) {
        self.0.rows.store(rows, Ordering::Relaxed);
    }

    /// Sets the bytes.
    pub fn set_bytes(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    fn are_met(&self, snapshot: &Snapshot) -> bool {
        let delta = snapshot.delta().iter();
        let written: usize = delta.clone().map(|part| part.segment.rows()).sum();
        let worthwhile = |part: &&crate::table::Part| MergeScope::Worthwhile.takes(part);
        let main = snapshot.main().iter().filter(worthwhile);
        let deleted: usize = main.map(crate::table::Part::deleted_rows).sum();
        let bytes: u64 = delta.map(|part| part.segment.delta_bytes()).sum();
        (written + deleted) as u64 >= self.rows() || bytes >= self.bytes()
    }
}

impl Default for MergeLimits {
    fn default() -> Self {
        Self(Arc::new(Limits {
            rows: AtomicU64::new(Self::ROWS),
            bytes: AtomicU64::new(Self::BYTES),
        }))
    }
}

/// A table whose merge failed is left alone for so long.
const PAUSE: Duration = Duration::from_secs(10);

/// The merges of an engine's tables. They follow each other on a thread that lives as long as there
/// is something to do.
#[derive(Debug)]
pub struct Merges {
    limits: MergeLimits,
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Weak<Table>>,
    worker: Option<JoinHandle<()>>,
    is_working: bool,
    failed: HashMap<TableId, Instant>,
}

impl Merges {
    pub(super) fn new(limits: MergeLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// How much may be written before a merge.
    pub fn limits(&self) -> &MergeLimits {
        &self.limits
    }

    /// Merges `table` some time soon if enough was written to it.
    pub fn consider(&self, database: &Arc<Database>, table: &Arc<Table>) {
        if self.is_stopped.load(Ordering::Relaxed) || !self.limits.are_met(&table.snapshot()) {
            return;
        }
        let mut state = self.state.lock();
        let is_paused = |failed: &Instant| failed.elapsed() < PAUSE;
        let waits = |waiting: &Weak<Table>| std::ptr::eq(waiting.as_ptr(), Arc::as_ptr(table));
        if state.failed.get(&table.id()).is_some_and(is_paused) || state.waiting.iter().any(waits) {
            return;
        }
        state.waiting.push_back(Arc::downgrade(table));
        if !state.is_working {
            let database = Arc::clone(database);
            let thread = std::thread::Builder::new().name("nearfar-merge".to_owned());
            match thread.spawn(move || database.merges().work(&database)) {
                Ok(worker) => {
                    state.worker = Some(worker);
                    state.is_working = true;
                }
                Err(error) => tracing::warn!(%error, "no thread for merges"),
            }
        }
    }

    fn work(&self, database: &Arc<Database>) {
        loop {
            let table = {
                let mut state = self.state.lock();
                match state.waiting.pop_front() {
                    Some(table) if !self.is_stopped.load(Ordering::Relaxed) => table.upgrade(),
                    _ => {
                        state.is_working = false;
                        return;
                    }
                }
            };
            if let Some(table) = table {
                self.merge(database, &table);
            }
        }
    }

    fn merge(&self, database: &Arc<Database>, table: &Arc<Table>) {
        let go_on = || !self.is_stopped.load(Ordering::Relaxed);
        let storage = database.storage();
        match table.merge(database, storage, MergeScope::Worthwhile, &go_on) {
            Ok(rows) => {
                tracing::debug!(table = table.name(), rows, "merged");
                self.state.lock().failed.remove(&table.id());
                self.consider(database, table);
            }
            Err(TableError::Cancelled { .. }) => {}
            Err(error) => {
                tracing::warn!(table = table.name(), %error, "a merge failed, it is tried again later");
                self.state.lock().failed.insert(table.id(), Instant::now());
            }
        }
    }

    /// Ends the merge that is under way at its next zone, waits for that, and begins no other.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let worker = self.state.lock().worker.take();
        if let Some(worker) = worker
            && worker.join().is_err()
        {
            tracing::error!("the thread of merges has panicked");
        }
    }
}
