//! Merges: from delta and segments with deleted rows to new segments.
//!
//! A merge goes step by step. A step rewrites segments of the main storage that lie side by side, or
//! the delta with the last segments where they are small, and never more than the rows of one segment
//! at a time but for what comes in one piece. It reads a snapshot without a lock, and takes the lock
//! for commits only to put its result in: rows that others have deleted meanwhile are deleted in it.

use arrow::array::{RecordBatch, RecordBatchOptions};
use nearfar_memory::TierBytes;
use std::sync::Arc;

use super::database::Database;
use crate::error::TableError;
use crate::placement::Storage;
use crate::segment::{RowSet, ZONE_ROWS};
use crate::table::{
    ColumnSlot, DeleteVector, Part, RowIds, RowIdsBuilder, SEGMENT_ROWS, Segment, Snapshot, Table,
    TableBuilder,
};
use crate::traffic::{StepTurns, Task};

/// What a merge is to rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeScope {
    /// The delta, and segments of which an eighth of the rows or more are deleted.
    Worthwhile,
    /// The delta, and every segment with deleted rows.
    All,
    /// The delta, and every segment in a pool of another process that does not publish it any more.
    Outdated,
}

/// A segment is worth rewriting when one in so many of its rows is deleted.
const DELETED_SHARE: usize = 8;

/// A segment with fewer rows is rewritten along with one beside it.
const SMALL_ROWS: usize = SEGMENT_ROWS / 4;

impl MergeScope {
    /// Whether a segment of the main storage is to be rewritten.
    pub fn takes(self, part: &Part) -> bool {
        let deleted = part.deleted_rows();
        match self {
            Self::Worthwhile => deleted > 0 && deleted * DELETED_SHARE >= part.segment.rows(),
            Self::All => deleted > 0,
            Self::Outdated => part.segment.is_outdated(),
        }
    }
}

/// The segments that a merge still has to rewrite.
struct Work {
    main: Vec<Arc<Segment>>,
    delta: Vec<Arc<Segment>>,
}

impl Work {
    fn of(snapshot: &Snapshot, scope: MergeScope) -> Self {
        let segment = |part: &Part| Arc::clone(&part.segment);
        let main = snapshot.main().iter().filter(|part| scope.takes(part));
        Self {
            main: main.map(segment).collect(),
            delta: snapshot.delta().iter().map(segment).collect(),
        }
    }

    fn is_done(&self) -> bool {
        self.main.is_empty() && self.delta.is_empty()
    }

    /// The next step: parts of the delta and perhaps the last of the main storage, or parts of the
    /// main storage that lie side by side. Of what is gone meanwhile there is nothing to do.
    fn step(&mut self, snapshot: &Snapshot) -> Option<Vec<Part>> {
        if let Some(step) = self.delta_step(snapshot) {
            return Some(step);
        }
        while let Some(segment) = self.main.pop() {
            if let Some(last) = position(snapshot.main(), &segment) {
                return Some(self.neighbours(snapshot, last));
            }
        }
        None
    }

    /// As much of the delta as fits into a segment, behind the last parts of the main storage where
    /// they are small.
    fn delta_step(&mut self, snapshot: &Snapshot) -> Option<Vec<Part>> {
        let tail = small_tail(snapshot.main());
        let mut rows: usize = tail.iter().map(Part::rows).sum();
        let mut step = tail.to_vec();
        let mut taken = 0;
        for segment in &self.delta {
            if let Some(at) = position(snapshot.delta(), segment) {
                let part = &snapshot.delta()[at];
                if step.len() > tail.len() && rows + part.rows() > SEGMENT_ROWS {
                    break;
                }
                rows += part.rows();
                step.push(part.clone());
            }
            taken += 1;
        }
        self.delta.drain(..taken);
        (step.len() > tail.len()).then_some(step)
    }

    /// The part of the main storage at `last` with those before it that are to be rewritten too, or
    /// are small, as long as all fit into one segment.
    fn neighbours(&mut self, snapshot: &Snapshot, last: usize) -> Vec<Part> {
        let parts = snapshot.main();
        let mut rows = parts[last].rows();
        let mut first = last;
        while let Some(before) = first.checked_sub(1).map(|index| &parts[index]) {
            let is_next = |segment: &Arc<Segment>| Arc::ptr_eq(segment, &before.segment);
            let is_wanted = self.main.last().is_some_and(is_next);
            rows += before.rows();
            if rows > SEGMENT_ROWS || !(is_wanted || before.rows() < SMALL_ROWS) {
                break;
            }
            if is_wanted {
                self.main.pop();
            }
            first -= 1;
        }
        parts[first..=last].to_vec()
    }
}

fn position(parts: &[Part], segment: &Arc<Segment>) -> Option<usize> {
    parts
        .iter()
        .position(|part| Arc::ptr_eq(&part.segment, segment))
}

/// The last parts that together have no more rows than half a segment.
fn small_tail(parts: &[Part]) -> &[Part] {
    let mut rows = 0;
    let is_small = |part: &&Part| {
        rows += part.rows();
        rows <= SEGMENT_ROWS / 2
    };
    let small = parts.iter().rev().take_while(is_small).count();
    &parts[parts.len() - small..]
}

impl Table {
    /// Turns the delta and segments with deleted rows into new segments, where the table's columns
    /// are placed, while queries and transactions go on: those that have begun keep the old regions
    /// until they end. Moves and merges of one table follow each other. `go_on` is asked before every
    /// zone. Returns how many rows it wrote.
    ///
    /// # Errors
    /// A region that is refused: new segments need room beside the old ones they replace. What was
    /// merged until then stays so, and the call can be repeated. [`TableError::Cancelled`].
    pub fn merge(
        &self,
        database: &Database,
        storage: &Storage,
        scope: MergeScope,
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, TableError> {
        let _alone = self.moving();
        let mut work = {
            let commits = database.lock();
            let snapshot = self.snapshot();
            let work = Work::of(&snapshot, scope);
            if work.is_done() {
                return Ok(0);
            }
            commits.install(self, snapshot.merging(snapshot.delta().len()));
            work
        };
        let mut rows = 0;
        let mut result = Ok(());
        let mut turns = StepTurns::new(&storage.traffic, Task::Merge, Some(go_on));
        while let Some(step) = work.step(&self.snapshot()) {
            match self.rewrite(database, storage, &step, (go_on, &mut turns)) {
                Ok(written) => rows += written,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        database.lock().install(self, self.snapshot().merging(0));
        // What rows came in one by one may be gone with them.
        storage.shelf.release();
        if rows > 0 {
            self.count_merge();
            database.main_changed();
        }
        result.map(|()| rows)
    }

    /// Rewrites the rows of `sources` that are left.
    fn rewrite(
        &self,
        database: &Database,
        storage: &Storage,
        sources: &[Part],
        (go_on, turns): (&dyn Fn() -> bool, &mut StepTurns<'_>),
    ) -> Result<u64, TableError> {
        let schema = Arc::clone(self.schema());
        let mut builder =
            TableBuilder::new(schema, self.placements(), self.storage(storage)).replacing();
        let mut ids = RowIdsBuilder::default();
        for part in sources {
            self.delay_for_reading(part, storage, go_on)?;
            self.read_part(part, &mut builder, &mut ids, turns)?;
        }
        let segments = builder.finish()?;
        let mut written = TierBytes::ZERO;
        for segment in &segments {
            written += segment.tier_bytes();
        }
        turns.moved(TierBytes::ZERO, written);
        let parts = segments.into_iter().map(|segment| {
            let ids = ids.take(segment.rows());
            Part::whole(segment, ids)
        });
        let parts: Vec<Part> = parts.collect();
        let rows = parts.iter().map(|part| part.segment.rows() as u64).sum();
        let commits = database.lock();
        let now = self.snapshot();
        let deleted = deleted_since(sources, &now);
        let parts = delete(parts, &deleted);
        commits.install_merged(self, |is_alone| {
            // Indexes lead to identities.
            let parts = match is_alone && now.indexes().is_empty() {
                true => parts
                    .into_iter()
                    .map(|part| self.renumbered(&part))
                    .collect(),
                false => parts,
            };
            now.merged(sources, parts)
        });
        drop(commits);
        // Found out here and not while the next query is planned.
        self.snapshot().main_summary();
        Ok(rows)
    }

    /// Takes as long as emulated tiers do to read all of a segment.
    fn delay_for_reading(
        &self,
        part: &Part,
        storage: &Storage,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), TableError> {
        if storage.models.is_empty() {
            return Ok(());
        }
        for slot in part.segment.columns() {
            if !go_on() {
                return Err(self.merge_cancelled());
            }
            let read = slot.current()?.tier_bytes();
            storage.models.transfer(read, TierBytes::ZERO);
        }
        Ok(())
    }

    fn merge_cancelled(&self) -> TableError {
        TableError::Cancelled {
            what: format!("merging {}", self.name()),
        }
    }

    /// Adds the rows of `part` that are left to `builder`, and their identities to `ids`.
    fn read_part(
        &self,
        part: &Part,
        builder: &mut TableBuilder,
        ids: &mut RowIdsBuilder,
        turns: &mut StepTurns<'_>,
    ) -> Result<(), TableError> {
        let columns = part.segment.columns().iter().map(ColumnSlot::current);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut bytes = TierBytes::ZERO;
        for column in &columns {
            bytes += column.tier_bytes();
        }
        let zones = part.segment.rows().div_ceil(ZONE_ROWS);
        for zone in 0..zones {
            if !turns.next() {
                return Err(self.merge_cancelled());
            }
            turns.moved(share(&bytes, zone, zones), TierBytes::ZERO);
            let start = zone * ZONE_ROWS;
            let end = (start + ZONE_ROWS).min(part.segment.rows());
            let left: Vec<u32>;
            let rows = match &part.delete_vector {
                Some(delete_vector) if delete_vector.touches(zone) => {
                    let is_left = |row: &u32| !delete_vector.contains(*row as usize);
                    left = (start as u32..end as u32).filter(is_left).collect();
                    RowSet::Positions(&left)
                }
                _ => RowSet::Run {
                    start,
                    len: end - start,
                },
            };
            if rows.is_empty() {
                continue;
            }
            let arrays = columns.iter().zip(self.schema().fields());
            let arrays = arrays.map(|(column, field)| column.read(rows, field.data_type()));
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(
                Arc::clone(self.schema()),
                arrays.collect::<Result<_, _>>()?,
                &options,
            )?;
            builder.push(&batch)?;
            ids.extend(&part.ids, rows);
        }
        Ok(())
    }

    fn renumbered(&self, part: &Part) -> Part {
        let rows = part.segment.rows();
        let ids = RowIds::consecutive(self.take_row_ids(rows), rows);
        Part::new(
            Arc::clone(&part.segment),
            Arc::new(ids),
            part.delete_vector.clone(),
        )
    }
}

/// The part of `bytes` that is one zone's.
fn share(bytes: &TierBytes, zone: usize, zones: usize) -> TierBytes {
    let before =
        |bytes: u64, zone: usize| (u128::from(bytes) * zone as u128 / zones as u128) as u64;
    let mut share = TierBytes::ZERO;
    for (tier, bytes) in bytes.iter() {
        share[tier] = before(bytes, zone + 1) - before(bytes, zone);
    }
    share
}

/// Which of the rows that `sources` have left, counted over all, are deleted in `now`.
fn deleted_since(sources: &[Part], now: &Snapshot) -> Vec<usize> {
    let mut deleted = Vec::new();
    let mut before = 0;
    for part in sources {
        let mut parts = now.parts().iter();
        let current = parts.find(|current| Arc::ptr_eq(&current.segment, &part.segment));
        match current {
            Some(current) => {
                let delete_vector = current
                    .delete_vector
                    .as_deref()
                    .cloned()
                    .unwrap_or_default();
                let earlier = part.delete_vector.as_deref();
                let rank = |row: usize| {
                    row - earlier.map_or(0, |delete_vector: &DeleteVector| delete_vector.rank(row))
                };
                let beyond = delete_vector.rows_beyond(earlier);
                deleted.extend(beyond.map(|row| before + rank(row as usize)));
            }
            // All of it was deleted, or the table truncated.
            None => deleted.extend(before..before + part.rows()),
        }
        before += part.rows();
    }
    deleted
}

/// `parts` with these rows, ascending and counted over all, deleted; those of which nothing is left
/// are left out.
fn delete(parts: Vec<Part>, deleted: &[usize]) -> Vec<Part> {
    let mut before = 0;
    let left = parts.into_iter().map(|part| {
        let end = before + part.segment.rows();
        let from = deleted.partition_point(|row| *row < before);
        let to = deleted.partition_point(|row| *row < end);
        let rows = deleted[from..to].iter().map(|row| (row - before) as u32);
        let part = part.without(rows);
        before = end;
        part
    });
    left.filter(|part| part.rows() > 0).collect()
}
