//! What a run tells of its progress.

use nearfar_sql::load::Progress;
use nearfar_table::placement::Strategy;
use std::sync::Arc;
use std::time::Duration;

/// A step of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A table is being generated and loaded; `progress` counts on meanwhile.
    Loading {
        /// The table.
        table: &'static str,
        /// Rows to come, to within a few per cent.
        expected_rows: u64,
        /// Counts on meanwhile.
        progress: &'a Arc<Progress>,
    },
    /// A table is in memory.
    Loaded {
        /// The table.
        table: &'static str,
        /// Its rows.
        rows: u64,
        /// Bytes before encoding.
        arrow_bytes: u64,
        /// Bytes that it takes in its regions.
        stored_bytes: u64,
        /// The time it took.
        elapsed: Duration,
    },
    /// A query's answer is being compared with DataFusion's over its own tables.
    Checking {
        /// The query.
        query: u8,
    },
    /// A query runs so that accesses are counted; its time is not.
    Counting {
        /// The query.
        query: u8,
    },
    /// Columns move to where a placement has them, which every placement does in every run;
    /// positions count from 0.
    Placing {
        /// The placement.
        placement: &'a Strategy,
        /// How many came before.
        position: usize,
        /// How many there are in all.
        of: usize,
    },
    /// A query ran.
    Ran {
        /// The placement.
        placement: &'a Strategy,
        /// The run, from 1.
        run: u32,
        /// The query.
        query: u8,
        /// The time it took.
        elapsed: Duration,
    },
}

/// Whoever follows a run. Called from the run's own thread: what takes long delays it, though never
/// while a query is timed.
pub trait Observer: Send + Sync {
    /// Takes note of a step.
    fn on(&self, event: &Event<'_>);
}

/// Follows nothing.
impl Observer for () {
    fn on(&self, _: &Event<'_>) {}
}
