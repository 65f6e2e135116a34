//! A run of rows, column by column.

use arrow::array::ArrayRef;
use nearfar_memory::pool::ExtentHandle;
use nearfar_memory::{Placement, TierBytes};
use parking_lot::{Mutex, RwLock};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::counters::{AccessCounters, AccessPattern};
use super::facts::ColumnFacts;
use super::packed_rows::PackedRows;
use super::sketches::{ColumnSketches, SegmentSketches, StoredSketches};
use crate::error::{TableError, TemporaryLimit};
use crate::placement::{TemporaryBudget, TemporaryBytes};
use crate::segment::{
    ColumnForm, ColumnSegment, EncodingKind, FewRows, NewValues, OneValue, RowSet, RowValues,
    TailRows,
};

/// Rows as they were written.
#[derive(Debug, Clone)]
pub enum WrittenRows {
    /// One after the other, behind those of other statements.
    Tail(TailRows),
    /// By one statement.
    Few(FewRows),
    /// By one statement, value by value.
    Packed(PackedRows),
}

impl WrittenRows {
    fn bytes(&self) -> u64 {
        match self {
            Self::Tail(rows) => rows.bytes(),
            Self::Few(rows) => rows.bytes(),
            Self::Packed(rows) => rows.bytes(),
        }
    }

    fn columns(&self) -> Vec<ColumnSegment> {
        match self {
            Self::Tail(rows) => rows.columns().collect(),
            Self::Few(rows) => rows.segments().collect(),
            Self::Packed(rows) => rows.segments().collect(),
        }
    }

    /// The values of a column for some of them.
    ///
    /// # Errors
    /// Rows that there are not.
    pub fn read(&self, column: usize, rows: RowSet<'_>) -> Result<ArrayRef, TableError> {
        match self {
            Self::Tail(written) => Ok(written.read(column, rows)),
            Self::Few(written) => Ok(written.read(column, rows)?),
            Self::Packed(written) => Ok(written.read(column, rows)),
        }
    }

    /// The value of a column in one of them.
    pub fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        match self {
            Self::Tail(written) => written.value(column, row),
            Self::Few(written) => written.value(column, row),
            Self::Packed(written) => written.value(column, row),
        }
    }

    /// All of them, to be written elsewhere.
    pub fn values(&self) -> NewValues<'_> {
        match self {
            Self::Tail(rows) => NewValues::Tail(rows),
            Self::Few(rows) => NewValues::Arrays(rows.arrays()),
            Self::Packed(rows) => NewValues::Each(rows),
        }
    }
}

/// The rows of one segment. The values never change; where they lie can.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    /// Made when somebody first asks, of rows that are as they were written.
    columns: OnceLock<Vec<ColumnSlot>>,
    /// The rows, where they are as they were written.
    written: Option<WrittenRows>,
    sketches: SegmentSketches,
    /// Of parts of the delta, whose columns never move.
    delta_bytes: OnceLock<u64>,
    /// What it takes of a session's budget.
    charged: Option<TemporaryBytes>,
    /// Where the layers above keep it, one value of each type.
    copies: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl Segment {
    /// A segment of so many `rows`, with a slot for each column.
    pub fn new(rows: usize, columns: Vec<ColumnSlot>, sketches: SegmentSketches) -> Self {
        Self {
            rows,
            columns: OnceLock::from(columns),
            written: None,
            sketches,
            delta_bytes: OnceLock::new(),
            charged: None,
            copies: Mutex::default(),
        }
    }

    /// A segment of `rows` rows as they were written.
    pub(super) fn of_written(rows: usize, written: WrittenRows) -> Self {
        Self {
            rows,
            columns: OnceLock::new(),
            sketches: SegmentSketches::stored(Arc::new(WrittenSketches(written.clone()))),
            delta_bytes: OnceLock::from(written.bytes()),
            written: Some(written),
            charged: None,
            copies: Mutex::default(),
        }
    }

    /// The same of a tail's.
    pub(super) fn of_tail(rows: TailRows) -> Self {
        Self::of_written(rows.rows(), WrittenRows::Tail(rows))
    }

    /// Its rows, where they are as they were written.
    pub fn written(&self) -> Option<&WrittenRows> {
        self.written.as_ref()
    }

    /// The same where they are a tail's.
    pub fn tail(&self) -> Option<&TailRows> {
        match self.written.as_ref()? {
            WrittenRows::Tail(rows) => Some(rows),
            WrittenRows::Few(_) | WrittenRows::Packed(_) => None,
        }
    }

    /// The same where they are packed.
    pub fn packed(&self) -> Option<&PackedRows> {
        match self.written.as_ref()? {
            WrittenRows::Packed(rows) => Some(rows),
            WrittenRows::Few(_) | WrittenRows::Tail(_) => None,
        }
    }

    /// The same segment, charged to a session's budget if one is given.
    ///
    /// # Errors
    /// [`TemporaryLimit`].
    pub(super) fn charged_to(
        mut self,
        budget: Option<&Arc<TemporaryBudget>>,
    ) -> Result<Self, TemporaryLimit> {
        self.charged = budget
            .map(|budget| budget.try_take(self.bytes()))
            .transpose()?;
        Ok(self)
    }

    /// The same, whatever the limit: for a segment that replaces others of the table.
    pub(super) fn charged_anyway(mut self, budget: Option<&Arc<TemporaryBudget>>) -> Self {
        self.charged = budget.map(|budget| budget.take(self.bytes()));
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that its columns take.
    pub fn bytes(&self) -> u64 {
        match &self.written {
            Some(rows) => rows.bytes(),
            None => self.columns().iter().map(|c| c.bytes() as u64).sum(),
        }
    }

    /// The same by tier.
    pub fn tier_bytes(&self) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        for column in self.columns() {
            bytes += column.tier_bytes();
        }
        bytes
    }

    /// Bytes of its columns that lie in a pool of another process.
    pub(crate) fn borrowed_bytes(&self) -> u64 {
        self.extents(|extent| extent.is_borrowed())
    }

    /// Whether all columns lie where another process publishes them.
    pub(crate) fn is_borrowed(&self) -> bool {
        !self.known_columns().is_empty()
            && self.extents(|it| it.is_borrowed() && it.is_current()) == self.bytes()
    }

    /// Whether a column lies in a pool of another process, which does not publish it any more.
    pub(crate) fn is_outdated(&self) -> bool {
        self.extents(|extent| !extent.is_current()) > 0
    }

    /// Bytes of its columns that lie in extents of pools that `is_one` takes.
    fn extents(&self, is_one: impl Fn(&ExtentHandle) -> bool) -> u64 {
        let columns = self.known_columns().iter();
        let columns = columns.filter_map(ColumnSlot::in_memory);
        let columns = columns.filter(|column| {
            let extent = column.memory().extent();
            extent.is_some_and(|extent| is_one(extent))
        });
        columns.map(|column| column.bytes() as u64).sum()
    }

    /// The same of a part of the delta, which is not counted again.
    pub(crate) fn delta_bytes(&self) -> u64 {
        *self.delta_bytes.get_or_init(|| self.bytes())
    }

    /// Its columns, in the order of the table's schema.
    pub fn columns(&self) -> &[ColumnSlot] {
        self.columns.get_or_init(|| {
            let columns = self.written.iter().flat_map(WrittenRows::columns);
            columns.map(ColumnSlot::unread).collect()
        })
    }

    /// The value of a column of fixed width in a row, in the low bytes. None where it is null.
    ///
    /// # Errors
    /// A column that can't be brought to memory.
    pub(super) fn fixed_value(
        &self,
        column: usize,
        row: usize,
    ) -> Result<Option<u128>, TableError> {
        let bits = |value: OneValue<'_>| match value {
            OneValue::Fixed(bits) => Ok(Some(bits)),
            OneValue::Null => Ok(None),
            OneValue::Bytes(_) => Err(TableError::Internal {
                message: "a text was taken for a value of fixed width".to_owned(),
            }),
        };
        match &self.written {
            Some(written) => bits(written.value(column, row)),
            None => bits(self.columns()[column].current()?.value(row)),
        }
    }

    /// Its columns, if somebody has asked for them.
    pub(super) fn known_columns(&self) -> &[ColumnSlot] {
        self.columns.get().map_or(&[], Vec::as_slice)
    }

    /// What numbers of distinct values come from, column by column.
    pub fn sketches(&self) -> &SegmentSketches {
        &self.sketches
    }

    /// Where a layer above keeps a copy of its bytes, as it was last told with [`Self::set_copy`].
    pub fn copy<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let copies = self.copies.lock();
        let mut found = copies.iter().cloned().map(Arc::downcast);
        found.find_map(Result::ok)
    }

    /// Says where a layer above keeps a copy of its bytes, in place of what it said before with a value
    /// of this type.
    pub fn set_copy<T: Any + Send + Sync>(&self, copy: Arc<T>) {
        let mut copies = self.copies.lock();
        copies.retain(|known| !known.as_ref().is::<T>());
        copies.push(copy);
    }
}

/// Sketches of rows as they were written, looked at when somebody first asks.
#[derive(Debug)]
struct WrittenSketches(WrittenRows);

impl StoredSketches for WrittenSketches {
    fn load(&self) -> Result<ColumnSketches, TableError> {
        let columns = self.0.columns();
        let sketches = columns.iter().map(|column| ColumnFacts::of(column).1);
        Ok(sketches.collect())
    }
}

/// A column segment that is kept where queries can't use it, until it is first needed.
pub trait StoredColumn: fmt::Debug + Send + Sync {
    /// How its bytes are to be read.
    fn form(&self) -> &ColumnForm;

    /// Brings it to memory, where `placement` says.
    ///
    /// # Errors
    /// Bytes that are gone or damaged; memory that is refused.
    fn load(&self, placement: &Placement) -> Result<ColumnSegment, TableError>;

    /// Checks its bytes where they are, if that brings nothing to memory.
    ///
    /// # Errors
    /// Damaged bytes.
    fn verify(&self) -> Result<(), TableError> {
        Ok(())
    }
}

/// One column of a segment: its values wherever they are now, and what is known of them.
#[derive(Debug)]
pub struct ColumnSlot {
    state: RwLock<State>,
    /// Held by the one who brings the column to memory, so that the others wait for that.
    loading: Mutex<()>,
    facts: OnceLock<ColumnFacts>,
    counters: AccessCounters,
}

#[derive(Debug)]
enum State {
    InMemory(Arc<ColumnSegment>),
    Stored {
        column: Arc<dyn StoredColumn>,
        placement: Placement,
    },
}

impl ColumnSlot {
    /// A slot whose column is in memory.
    pub fn new(segment: ColumnSegment, facts: ColumnFacts) -> Self {
        Self::in_state(State::InMemory(Arc::new(segment)), OnceLock::from(facts))
    }

    /// The same, with facts that are found when somebody first asks.
    pub fn unread(segment: ColumnSegment) -> Self {
        Self::in_state(State::InMemory(Arc::new(segment)), OnceLock::new())
    }

    /// A column that is brought to `placement` when it is first needed.
    pub fn stored(column: Arc<dyn StoredColumn>, placement: Placement, facts: ColumnFacts) -> Self {
        let state = State::Stored { column, placement };
        Self::in_state(state, OnceLock::from(facts))
    }

    fn in_state(state: State, facts: OnceLock<ColumnFacts>) -> Self {
        Self {
            state: RwLock::new(state),
            loading: Mutex::default(),
            facts,
            counters: AccessCounters::default(),
        }
    }

    /// The same values in a slot of its own, from where they can be moved apart.
    pub(super) fn shared(&self) -> Self {
        let _none_is_loading = self.loading.lock();
        let state = match &*self.state.read() {
            State::InMemory(segment) => State::InMemory(Arc::clone(segment)),
            State::Stored { column, placement } => State::Stored {
                column: Arc::clone(column),
                placement: placement.clone(),
            },
        };
        Self::in_state(state, self.facts.clone())
    }

    /// The values, where they lie at this moment. Brings them to memory first, where they are not;
    /// others who need them meanwhile wait for that.
    ///
    /// # Errors
    /// Bytes that are gone or damaged; memory that is refused. It is tried again by whoever needs
    /// them next.
    pub fn current(&self) -> Result<Arc<ColumnSegment>, TableError> {
        if let Some(segment) = self.in_memory() {
            return Ok(segment);
        }
        let _alone = self.loading.lock();
        let (column, placement) = match &*self.state.read() {
            State::InMemory(segment) => return Ok(Arc::clone(segment)),
            State::Stored { column, placement } => (Arc::clone(column), placement.clone()),
        };
        let segment = Arc::new(column.load(&placement)?);
        *self.state.write() = State::InMemory(Arc::clone(&segment));
        Ok(segment)
    }

    /// Checks values that have not been read yet.
    ///
    /// # Errors
    /// Damaged ones.
    pub fn verify(&self) -> Result<(), TableError> {
        let stored = match &*self.state.read() {
            State::InMemory(_) => return Ok(()),
            State::Stored { column, .. } => Arc::clone(column),
        };
        stored.verify()
    }

    /// Puts the same values elsewhere, unless they have been moved from `before` meanwhile.
    pub fn settle(&self, before: &Arc<ColumnSegment>, after: ColumnSegment) {
        let mut state = self.state.write();
        if matches!(&*state, State::InMemory(now) if Arc::ptr_eq(now, before)) {
            *state = State::InMemory(Arc::new(after));
        }
    }

    /// The values, if they are in memory.
    pub fn in_memory(&self) -> Option<Arc<ColumnSegment>> {
        match &*self.state.read() {
            State::InMemory(segment) => Some(Arc::clone(segment)),
            State::Stored { .. } => None,
        }
    }

    /// Bytes of the values, in memory or not.
    pub fn bytes(&self) -> usize {
        match &*self.state.read() {
            State::InMemory(segment) => segment.bytes(),
            State::Stored { column, .. } => column.form().bytes(),
        }
    }

    /// Bytes of the values on each tier; none where they are not in memory.
    pub fn tier_bytes(&self) -> TierBytes {
        match &*self.state.read() {
            State::InMemory(segment) => segment.tier_bytes(),
            State::Stored { .. } => TierBytes::ZERO,
        }
    }

    /// How the values are stored.
    pub fn encoding_kind(&self) -> EncodingKind {
        match &*self.state.read() {
            State::InMemory(segment) => segment.encoding_kind(),
            State::Stored { column, .. } => column.form().kind(),
        }
    }

    /// Where the values are, or go to when they are needed.
    pub fn placement(&self) -> Placement {
        match &*self.state.read() {
            State::InMemory(segment) => segment.placement(),
            State::Stored { placement, .. } => placement.clone(),
        }
    }

    /// Has values that are not in memory go to `placement` when they are needed; whether they were
    /// not in memory.
    pub(super) fn redirect(&self, placement: &Placement) -> bool {
        let _none_is_loading = self.loading.lock();
        match &mut *self.state.write() {
            State::InMemory(_) => false,
            State::Stored { placement: old, .. } => {
                *old = placement.clone();
                true
            }
        }
    }

    pub(super) fn replace(&self, segment: ColumnSegment) {
        *self.state.write() = State::InMemory(Arc::new(segment));
    }

    /// Smallest, largest, nulls, order.
    pub fn facts(&self) -> &ColumnFacts {
        self.facts.get_or_init(|| {
            let segment = self.in_memory();
            segment.map_or_else(ColumnFacts::default, |segment| {
                ColumnFacts::without_distinct(&segment)
            })
        })
    }

    /// How often it has been read.
    pub fn counters(&self) -> &AccessCounters {
        &self.counters
    }

    /// Counts a read of `rows`.
    pub fn record(&self, rows: RowSet<'_>) {
        let pattern = match rows {
            RowSet::Run { .. } => AccessPattern::Sequential,
            RowSet::Positions([_]) => AccessPattern::Point,
            RowSet::Positions(_) => AccessPattern::Monotonic,
        };
        self.counters.record(pattern, rows.len());
    }
}
