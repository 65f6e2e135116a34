//! Tables: an ordered list of immutable segments, each column of which is placed on its own.

mod builder;
mod counters;
mod facts;
mod segment;
mod sketch;
mod statistics;

pub use builder::{SEGMENT_ROWS, TableBuilder, stored_schema, stored_type};
pub use counters::{AccessCounters, AccessCounts, AccessPattern};
pub use facts::{ColumnFacts, Order};
pub use segment::{ColumnSlot, Segment};
pub use sketch::DistinctSketch;
pub use statistics::{ColumnSummary, TableSummary};

use arrow::datatypes::SchemaRef;
use nearfar_memory::TierBytes;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

use crate::error::StoreError;
use crate::placement::{ColumnPlacements, Storage};

/// What a reader sees of a table: its segments and their summary at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub segments: Arc<[Arc<Segment>]>,
    pub summary: Arc<TableSummary>,
}

/// A named table in memory.
#[derive(Debug)]
pub struct Table {
    name: String,
    schema: SchemaRef,
    snapshot: RwLock<Snapshot>,
    /// Read and written under the lock of `snapshot`, so that no segment is added elsewhere.
    placements: RwLock<ColumnPlacements>,
    /// Held by the one move that is under way.
    moving: Mutex<()>,
}

impl Table {
    /// A table of `segments`, whose columns were placed as `placements` says.
    pub fn new(
        name: impl Into<String>,
        schema: SchemaRef,
        segments: Vec<Arc<Segment>>,
        placements: ColumnPlacements,
    ) -> Self {
        let summary = Arc::new(TableSummary::of(&schema, &segments));
        Self {
            name: name.into(),
            schema,
            snapshot: RwLock::new(Snapshot {
                segments: segments.into(),
                summary,
            }),
            placements: RwLock::new(placements),
            moving: Mutex::new(()),
        }
    }

    /// The name it was made with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns' names and types, as queries see them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What a query that starts now reads.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.read().clone()
    }

    /// Where new segments of each column go.
    pub fn placements(&self) -> ColumnPlacements {
        self.placements.read().clone()
    }

    /// Adds segments, whose columns were placed as `placed` says, at the end. Where the table has
    /// been moved meanwhile, they are moved after it.
    ///
    /// # Errors
    /// A region that is refused where the table now is; nothing is added then.
    pub fn append(
        &self,
        segments: Vec<Arc<Segment>>,
        mut placed: ColumnPlacements,
        storage: &Storage,
    ) -> Result<(), StoreError> {
        loop {
            let wanted = {
                let mut snapshot = self.snapshot.write();
                let wanted = self.placements.read().clone();
                if wanted == placed {
                    let all: Vec<_> = snapshot.segments.iter().cloned().chain(segments).collect();
                    *snapshot = Snapshot {
                        summary: Arc::new(TableSummary::of(&self.schema, &all)),
                        segments: all.into(),
                    };
                    return Ok(());
                }
                wanted
            };
            self.move_segments(&segments, &wanted, storage, &|| true)?;
            placed = wanted;
        }
    }

    /// Moves every column whose placement differs to where `placements` says, while queries run:
    /// those that have begun go on reading the old regions, which are freed when the last is done.
    /// Moves of one table follow each other.
    ///
    /// # Errors
    /// The first region that is refused ends the move. Columns moved until then stay moved and the
    /// rest stay where they were; both are readable, and the call can be repeated. New rows go where
    /// they went before.
    pub fn migrate(
        &self,
        placements: &ColumnPlacements,
        storage: &Storage,
    ) -> Result<(), StoreError> {
        self.migrate_while(placements, storage, || true)
    }

    /// As [`Self::migrate`], for as long as `go_on` says so, which is asked before every column
    /// segment.
    ///
    /// # Errors
    /// As [`Self::migrate`], and [`StoreError::Cancelled`].
    pub fn migrate_while(
        &self,
        placements: &ColumnPlacements,
        storage: &Storage,
        go_on: impl Fn() -> bool,
    ) -> Result<(), StoreError> {
        let _alone = self.moving.lock();
        loop {
            let segments = self.snapshot().segments;
            self.move_segments(&segments, placements, storage, &go_on)?;
            let snapshot = self.snapshot.write();
            if Arc::ptr_eq(&segments, &snapshot.segments) {
                *self.placements.write() = placements.clone();
                return Ok(());
            }
        }
    }

    fn move_segments(
        &self,
        segments: &[Arc<Segment>],
        placements: &ColumnPlacements,
        storage: &Storage,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        for segment in segments {
            for (column, field) in segment.columns().iter().zip(self.schema.fields()) {
                let placement = placements.of(field.name());
                let current = column.current();
                if !go_on() {
                    return Err(StoreError::Cancelled {
                        what: format!("moving {}", self.name),
                    });
                }
                if current.placement() != *placement {
                    column.replace(current.copy_to(storage.target(placement))?);
                }
            }
        }
        Ok(())
    }

    /// Bytes per tier of all segments.
    pub fn tier_bytes(&self) -> TierBytes {
        let mut total = TierBytes::default();
        for segment in self.snapshot().segments.iter() {
            for column in segment.columns() {
                total += column.current().tier_bytes();
            }
        }
        total
    }
}
