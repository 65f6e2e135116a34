//! A run of rows, column by column.

use parking_lot::RwLock;
use std::sync::Arc;

use super::counters::{AccessCounters, AccessPattern};
use super::facts::ColumnFacts;
use super::temporary::{TemporaryBudget, TemporaryBytes};
use crate::segment::{ColumnSegment, RowSet};
use crate::sql::SqlError;

/// The rows of one segment. The values never change; where they lie can.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    columns: Vec<ColumnSlot>,
    /// What it takes of a session's budget.
    charged: Option<TemporaryBytes>,
}

impl Segment {
    pub(super) fn new(rows: usize, columns: Vec<ColumnSlot>) -> Self {
        Self {
            rows,
            columns,
            charged: None,
        }
    }

    /// The same segment, charged to a session's budget if one is given.
    ///
    /// # Errors
    /// [`SqlError::TemporaryLimit`].
    pub(super) fn charged_to(
        mut self,
        budget: Option<&Arc<TemporaryBudget>>,
    ) -> Result<Self, SqlError> {
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
        self.columns
            .iter()
            .map(|c| c.current().bytes() as u64)
            .sum()
    }

    /// Its columns, in the order of the table's schema.
    pub fn columns(&self) -> &[ColumnSlot] {
        &self.columns
    }
}

/// One column of a segment: its values wherever they are now, and what is known of them.
#[derive(Debug)]
pub struct ColumnSlot {
    current: RwLock<Arc<ColumnSegment>>,
    facts: ColumnFacts,
    counters: AccessCounters,
}

impl ColumnSlot {
    pub(super) fn new(segment: ColumnSegment, facts: ColumnFacts) -> Self {
        Self {
            current: RwLock::new(Arc::new(segment)),
            facts,
            counters: AccessCounters::default(),
        }
    }

    /// The values, where they lie at this moment.
    pub fn current(&self) -> Arc<ColumnSegment> {
        Arc::clone(&self.current.read())
    }

    pub(super) fn replace(&self, segment: ColumnSegment) {
        *self.current.write() = Arc::new(segment);
    }

    /// Smallest, largest, nulls, order.
    pub fn facts(&self) -> &ColumnFacts {
        &self.facts
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
