//! Columns that are brought to memory before a query needs them.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::catalog::SharedCatalog;
use crate::error::EngineError;
use crate::scan::table_of;
use nearfar_table::table::{ColumnSlot, PreloadPriority, Segment, Table};

/// A column of a segment that was not in memory when it was looked for.
pub(super) struct UnloadedColumn {
    priority: PreloadPriority,
    table: String,
    column: String,
    segment: Arc<Segment>,
    index: usize,
}

impl UnloadedColumn {
    fn slot(&self) -> &ColumnSlot {
        &self.segment.columns()[self.index]
    }

    /// Brings it to memory; queries that need it meanwhile wait for that.
    ///
    /// # Errors
    /// Bytes that are gone or damaged; memory that is refused.
    pub fn load(&self) -> Result<(), EngineError> {
        Ok(self.slot().current().map(drop)?)
    }
}

impl fmt::Display for UnloadedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.column)
    }
}

/// What is not in memory of a table, columns of the highest priority first.
pub(super) fn unloaded_columns(table: &Table) -> Vec<UnloadedColumn> {
    let (preload, snapshot) = (table.preload(), table.snapshot());
    let mut unloaded = Vec::new();
    for (index, field) in table.schema().fields().iter().enumerate() {
        for part in snapshot.parts() {
            if part.segment.columns()[index].in_memory().is_none() {
                unloaded.push(UnloadedColumn {
                    priority: preload.of(field.name()),
                    table: table.name().to_owned(),
                    column: field.name().clone(),
                    segment: Arc::clone(&part.segment),
                    index,
                });
            }
        }
    }
    unloaded.sort_by_key(|column| Reverse(column.priority));
    unloaded
}

/// Brings columns to memory in the background.
#[derive(Debug, Default)]
pub(super) struct Preloader(Mutex<Option<Pass>>);

impl Preloader {
    /// Begins with the columns of all tables that have a priority and are not in memory, the highest
    /// first. What was under way before ends.
    pub fn start(&self, catalog: &SharedCatalog) {
        let mut wanted = Vec::new();
        for (_, schema) in catalog.all() {
            for (_, provider) in schema.all() {
                if let Some(table) = table_of(provider.as_ref()) {
                    wanted.extend(unloaded_columns(table));
                }
            }
        }
        wanted.retain(|column| column.priority > PreloadPriority::WHEN_NEEDED);
        wanted.sort_by_key(|column| Reverse(column.priority));
        let mut pass = self.0.lock();
        // The one before ends first: no two read concurrently.
        *pass = None;
        if !wanted.is_empty() {
            *pass = Pass::start(wanted);
        }
    }

    /// Ends, after the column that is under way.
    pub fn stop(&self) {
        *self.0.lock() = None;
    }
}

/// A thread that brings columns to memory, one after another, until it is dropped.
#[derive(Debug)]
struct Pass {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pass {
    fn start(wanted: Vec<UnloadedColumn>) -> Option<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopped);
        let thread = std::thread::Builder::new().name("nearfar-preload".to_owned());
        let thread = thread
            .spawn(move || preload(wanted, &stop))
            .inspect_err(|error| tracing::error!(%error, "no thread to preload tables"));
        Some(Self {
            is_stopped,
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that preloads tables has panicked");
        }
    }
}

fn preload(wanted: Vec<UnloadedColumn>, stop: &AtomicBool) {
    let (started, mut columns, mut bytes) = (Instant::now(), 0_u64, 0_u64);
    for column in wanted {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match column.load() {
            Ok(()) => {
                columns += 1;
                bytes += column.slot().bytes() as u64;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, %column, "not preloaded: a query that needs it tries again");
            }
        }
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    tracing::info!(columns, bytes, elapsed_s, "columns are preloaded");
}
