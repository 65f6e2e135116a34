//! Tables: main storage of immutable segments, each column of which is placed on its own, and a delta
//! of what was written since the last merge.
//!
//! Nothing of a table is changed in place but where its columns lie. Every change makes a new
//! [`Snapshot`], which shares what stays; readers keep the one that they began with:
//!
//! * rows that are written come as parts of the **delta**: plain, near, with all columns in one region
//!   ([`delta_segment`]). Small parts are put together as they come ([`join_small`]): single rows go behind those
//!   before them, into memory that was set aside for them ([`Tail`](crate::segment::Tail));
//! * which rows are deleted is in a **delete vector** ([`DeleteVector`]): one bitmap for each zone with such rows;
//! * a **merge** (`transaction/merge.rs`) makes segments of the delta, and of segments with deleted rows.
//!
//! A row has an identity ([`RowId`]) by which a transaction knows it: a merge keeps it while
//! transactions are open. **Indexes** ([`TableIndex`]) lead from keys to identities, so that merges of
//! tables that have some keep them always.

mod batch;
mod builder;
mod counters;
mod delete_vector;
mod delta;
mod facts;
mod gate;
mod index;
mod owner;
mod packed_rows;
mod preload;
mod redefine;
mod row_check;
mod row_ids;
mod rules;
mod segment;
mod sketch;
mod sketches;
mod snapshot;
mod statistics;
mod zeros;

pub use batch::batch_bytes;
pub use builder::{SEGMENT_ROWS, TableBuilder, stored_schema, stored_type};
pub use counters::{AccessCounters, AccessCounts, AccessPattern};
pub use delete_vector::{DeleteVector, WORDS as DELETE_VECTOR_WORDS};
pub use delta::{delta_segment, join_small};
pub(crate) use delta::{join_own, packed_segment};
pub use facts::{ColumnFacts, Order};
pub use gate::{CloseOnDrop, CommitGate};
pub use index::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexPolicy, IndexRole,
    IndexStatistics, IndexTier, KEY_BYTES_MAX, KeyBound, KeyEncoder, KeyRange, Keys, TableIndex,
};
pub(crate) use owner::{CommitsHeld, TableOwner};
pub use packed_rows::PackedRows;
pub use preload::{Preload, PreloadPriority};
pub use redefine::ColumnSource;
pub use row_check::RowCheck;
pub use row_ids::{RowId, RowIds, RowIdsBuilder};
pub use rules::{CheckRule, IdentityKind, Reference, ReferenceAction, ReferenceCheck, TableRules};
pub use segment::{ColumnSlot, Segment, StoredColumn};
pub use sketch::DistinctSketch;
pub use sketches::{ColumnSketches, SegmentSketches, StoredSketches};
pub use snapshot::{Part, PartContents, RowIsGone, Snapshot};
pub use statistics::{ColumnSummary, DistinctCount, TableSummary};
pub(crate) use zeros::batch_with_one_zero;
pub use zeros::with_one_zero;

use arrow::datatypes::SchemaRef;
use nearfar_memory::TierBytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::error::{TableError, TableName};
use crate::placement::{ColumnAccess, ColumnPlacements, Storage, TemporaryBudget};
use crate::traffic::{StepTurns, Task};

/// The identity of a table within its database, whatever its name. One that is kept in a data
/// directory keeps it.
pub type TableId = u64;

/// The identity of the next table of this process.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// A named table in memory.
#[derive(Debug)]
pub struct Table {
    id: TableId,
    name: String,
    schema: SchemaRef,
    /// Replaced by who holds the database's lock for commits.
    snapshot: RwLock<Snapshot>,
    /// Written by who holds the database's lock for commits, so that no segment is added elsewhere.
    placements: RwLock<ColumnPlacements>,
    preload: RwLock<Preload>,
    rules: RwLock<Arc<TableRules>>,
    /// What looks at rows that are added, if they have to be something.
    row_check: RwLock<Option<Arc<dyn RowCheck>>>,
    /// Whether rows of other tables refer to its rows.
    is_referenced: AtomicBool,
    /// Held by the one move or merge that is under way.
    moving: Mutex<()>,
    /// The identity of the next row.
    next_row: AtomicU64,
    /// Per column, the reads of segments that are no longer there.
    past_reads: Vec<AccessCounters>,
    merges: AtomicU64,
    /// Whether its rows are to outlive the process, if a data directory is there.
    is_kept: AtomicBool,
    /// Who commits its changes.
    owner: OnceLock<Weak<dyn TableOwner>>,
    /// What its segments are charged to, where it is temporary.
    temporary: Option<Arc<TemporaryBudget>>,
    /// Set when it is entered in a schema, or before.
    schema_name: OnceLock<String>,
}

impl Table {
    /// A table of `segments`, whose columns were placed as `placements` says.
    pub fn new(
        name: impl Into<String>,
        schema: SchemaRef,
        segments: Vec<Arc<Segment>>,
        placements: ColumnPlacements,
    ) -> Self {
        let mut next_row = 0;
        let part = |segment: Arc<Segment>| {
            let ids = RowIds::consecutive(next_row, segment.rows());
            next_row += segment.rows() as u64;
            Part::whole(segment, ids)
        };
        let parts = segments.into_iter().map(part).collect();
        let snapshot = Snapshot::of_main(schema, parts);
        let id = TABLES.fetch_add(1, Ordering::Relaxed);
        Self::with_id(id, name, snapshot, next_row, placements)
    }

    /// A table as it was in an earlier process: what it was known by, its rows, and the identity
    /// that no row has had.
    pub fn with_id(
        id: TableId,
        name: impl Into<String>,
        snapshot: Snapshot,
        next_row: RowId,
        placements: ColumnPlacements,
    ) -> Self {
        let schema = Arc::clone(snapshot.schema());
        let columns = schema.fields().iter();
        TABLES.fetch_max(id + 1, Ordering::Relaxed);
        Self {
            id,
            name: name.into(),
            past_reads: columns.map(|_| AccessCounters::default()).collect(),
            snapshot: RwLock::new(snapshot),
            schema,
            placements: RwLock::new(placements),
            preload: RwLock::default(),
            rules: RwLock::default(),
            row_check: RwLock::default(),
            is_referenced: AtomicBool::new(false),
            moving: Mutex::new(()),
            next_row: AtomicU64::new(next_row),
            merges: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
            owner: OnceLock::new(),
            temporary: None,
            schema_name: OnceLock::new(),
        }
    }

    /// The same table as a temporary one of the session whose budget this is; a permanent one
    /// without.
    #[must_use]
    pub fn charged_to(mut self, temporary: Option<Arc<TemporaryBudget>>) -> Self {
        self.temporary = temporary;
        self
    }

    /// The budget of the session that it is a temporary table of.
    pub fn temporary(&self) -> Option<&Arc<TemporaryBudget>> {
        self.temporary.as_ref()
    }

    /// `storage`, with what the table's segments are charged to.
    pub(crate) fn storage(&self, storage: &Storage) -> Storage {
        Storage {
            temporary: self.temporary.clone(),
            ..storage.clone()
        }
    }

    /// The identity that the next row gets.
    pub fn next_row(&self) -> RowId {
        self.next_row.load(Ordering::Relaxed)
    }

    /// Which table it is.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The name it was made with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same with its schema.
    pub fn full_name(&self) -> TableName {
        TableName {
            schema: self.schema_name.get().cloned(),
            name: self.name.clone(),
        }
    }

    /// Says which schema it is in, unless that is known already.
    pub fn set_schema_name(&self, schema: &str) {
        self.schema_name.get_or_init(|| schema.to_owned());
    }

    /// The columns' names and types, as queries see them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was committed last.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.read().clone()
    }

    /// Where new segments of each column go.
    pub fn placements(&self) -> ColumnPlacements {
        self.placements.read().clone()
    }

    /// Which columns are brought to memory before a query needs them.
    pub fn preload(&self) -> Preload {
        self.preload.read().clone()
    }

    /// Says which columns are brought to memory before a query needs them, from the next start on.
    pub fn set_preload(&self, preload: Preload) {
        *self.preload.write() = preload;
    }

    /// What was declared of its rows.
    pub fn rules(&self) -> Arc<TableRules> {
        Arc::clone(&self.rules.read())
    }

    /// Declares something else of its rows, from the next statement on.
    pub fn set_rules(&self, rules: TableRules) {
        *self.rules.write() = Arc::new(rules);
    }

    /// What looks at rows before they are added.
    pub fn row_check(&self) -> Option<Arc<dyn RowCheck>> {
        self.row_check.read().clone()
    }

    /// Has `check` look at rows before they are added, from the next statement on.
    pub fn set_row_check(&self, check: Option<Arc<dyn RowCheck>>) {
        *self.row_check.write() = check;
    }

    /// Whether rows of other tables refer to its rows.
    pub fn is_referenced(&self) -> bool {
        self.is_referenced.load(Ordering::Relaxed)
    }

    /// Says whether rows of other tables refer to its rows, from the next statement on.
    pub fn set_referenced(&self, is_referenced: bool) {
        self.is_referenced.store(is_referenced, Ordering::Relaxed);
    }

    /// Whether changes of its rows have to be held against foreign keys.
    pub fn has_references(&self) -> bool {
        self.is_referenced() || !self.rules.read().references.is_empty()
    }

    /// Merges so far.
    pub fn merges(&self) -> u64 {
        self.merges.load(Ordering::Relaxed)
    }

    /// How often the values of a column were read, those included that are gone.
    pub fn access_counts(&self, column: usize) -> AccessCounts {
        let mut counts = self.past_reads[column].read();
        for part in self.snapshot().parts() {
            counts += part.segment.columns()[column].counters().read();
        }
        counts
    }

    /// Sizes and access counts of all columns, in the order of the schema.
    pub fn column_accesses(&self) -> Vec<ColumnAccess> {
        let snapshot = self.snapshot();
        let fields = self.schema.fields().iter().enumerate();
        let access = fields.map(|(index, field)| {
            let parts = snapshot.parts().iter();
            let slots = parts.map(|part| &part.segment.columns()[index]);
            ColumnAccess {
                table: self.name.clone(),
                column: field.name().clone(),
                bytes: slots.map(|column| column.tier_bytes().total()).sum(),
                accesses: self.access_counts(index).total(),
            }
        });
        access.collect()
    }

    /// Starts counting the accesses of all columns from nothing.
    pub fn reset_access_counts(&self) {
        self.past_reads.iter().for_each(AccessCounters::reset);
        for part in self.snapshot().parts() {
            let slots = part.segment.columns().iter();
            slots.for_each(|slot| slot.counters().reset());
        }
    }

    /// Whether it is known to nobody but the transaction that defines it.
    pub fn is_draft(&self) -> bool {
        self.owner.get().is_none()
    }

    /// Whether its rows are to outlive the process, if a data directory is there.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Has its rows outlive the process.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Gives no identity below `next` to another row.
    pub fn skip_row_ids(&self, next: RowId) {
        self.next_row.fetch_max(next, Ordering::Relaxed);
    }

    /// The first of `rows` identities that no other row has.
    pub(crate) fn take_row_ids(&self, rows: usize) -> RowId {
        self.next_row.fetch_add(rows as u64, Ordering::Relaxed)
    }

    /// Who commits its changes.
    pub(crate) fn owner(&self) -> Option<Arc<dyn TableOwner>> {
        self.owner.get()?.upgrade()
    }

    /// Makes `owner` the one who commits its changes, once and for all.
    pub(crate) fn enter(&self, owner: Weak<dyn TableOwner>) {
        self.owner.get_or_init(|| owner);
    }

    /// Takes it out of the database that it is part of: transactions that have changed it can't
    /// commit.
    pub fn leave(&self) {
        if let Some(owner) = self.owner() {
            owner.forget(self);
        }
    }

    /// Held by the one move or merge that is under way.
    pub(crate) fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock()
    }

    /// The same, unless somebody else is at it.
    pub(crate) fn try_moving(&self) -> Option<MutexGuard<'_, ()>> {
        self.moving.try_lock()
    }

    /// Counts a merge.
    pub(crate) fn count_merge(&self) {
        self.merges.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes `snapshot` what readers see from now on, and returns the one before. Only for who holds
    /// the database's lock for commits.
    #[must_use]
    pub(crate) fn install(&self, snapshot: Snapshot) -> Snapshot {
        let before = std::mem::replace(&mut *self.snapshot.write(), snapshot.clone());
        for segment in gone(before.parts(), snapshot.parts()) {
            for (past, slot) in self.past_reads.iter().zip(segment.known_columns()) {
                past.add(slot.counters().read());
            }
        }
        before
    }

    /// Moves segments that no reader knows yet to where `placements` says.
    ///
    /// # Errors
    /// A region that is refused there.
    pub(crate) fn place(
        &self,
        parts: &[Part],
        placements: &ColumnPlacements,
        storage: &Storage,
    ) -> Result<(), TableError> {
        self.move_segments(parts, placements, storage, None)
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
    ) -> Result<(), TableError> {
        self.migrate_while(placements, storage, || true, &CommitGate::default())
    }

    /// As [`Self::migrate`], for as long as `go_on` says so, which is asked before every column
    /// segment. The table's placements change when `gate` is passed; what was moved before stays
    /// where it is.
    ///
    /// # Errors
    /// As [`Self::migrate`], and [`TableError::Cancelled`].
    pub fn migrate_while(
        &self,
        placements: &ColumnPlacements,
        storage: &Storage,
        go_on: impl Fn() -> bool,
        gate: &CommitGate,
    ) -> Result<(), TableError> {
        let _alone = self.moving.lock();
        loop {
            let moved = self.snapshot();
            self.move_segments(moved.main(), placements, storage, Some(&go_on))?;
            let owner = self.owner();
            let _no_commits = owner.as_ref().map(|owner| owner.hold_commits());
            let now = self.snapshot();
            let is_moved = |part: &Part| {
                let mut known = moved.main().iter();
                known.any(|moved| Arc::ptr_eq(&moved.segment, &part.segment))
            };
            if now.main().iter().all(is_moved) {
                gate.pass()?;
                *self.placements.write() = placements.clone();
                return Ok(());
            }
        }
    }

    /// With `go_on`, it waits for its turn before every column segment, and ends when that says so.
    fn move_segments(
        &self,
        parts: &[Part],
        placements: &ColumnPlacements,
        storage: &Storage,
        go_on: Option<&dyn Fn() -> bool>,
    ) -> Result<(), TableError> {
        let mut turns = StepTurns::new(&storage.traffic, Task::Move, go_on);
        for part in parts {
            for (column, field) in part.segment.columns().iter().zip(self.schema.fields()) {
                let placement = placements.of(field.name());
                if !turns.next() {
                    return Err(TableError::Cancelled {
                        what: format!("moving {}", self.name),
                    });
                }
                if column.placement() == *placement || column.redirect(placement) {
                    continue;
                }
                let before = column.current()?;
                let moved = before.copy_to(storage.target(placement))?;
                turns.moved(before.tier_bytes(), moved.tier_bytes());
                column.replace(moved);
            }
        }
        Ok(())
    }

    /// Bytes per tier of main storage and delta.
    pub fn tier_bytes(&self) -> TierBytes {
        let mut total = TierBytes::default();
        for part in self.snapshot().parts() {
            total += part.segment.tier_bytes();
        }
        total
    }
}

/// Among so many parts a segment is searched for one by one: putting them into a set takes longer.
const SEARCHED_PARTS_MAX: usize = 16;

/// The segments of `before` that are not in `after`. Most changes leave the first parts as they are.
fn gone<'a>(before: &'a [Part], after: &[Part]) -> impl Iterator<Item = &'a Segment> {
    let is_same = |(one, other): &(&Part, &Part)| Arc::ptr_eq(&one.segment, &other.segment);
    let same = before.iter().zip(after).take_while(is_same).count();
    let kept = after[same..].iter().map(|part| Arc::as_ptr(&part.segment));
    let kept: Vec<*const Segment> = kept.collect();
    let are_many = kept.len() > SEARCHED_PARTS_MAX;
    let set: Option<HashSet<*const Segment>> = are_many.then(|| kept.iter().copied().collect());
    let rest = before[same..].iter().map(|part| part.segment.as_ref());
    rest.filter(move |segment| {
        let segment = std::ptr::from_ref(*segment);
        let is_kept = match &set {
            Some(set) => set.contains(&segment),
            None => kept.contains(&segment),
        };
        !is_kept
    })
}

impl Drop for Table {
    fn drop(&mut self) {
        self.leave();
    }
}
