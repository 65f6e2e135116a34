//! The groups and totals of one partition of a scan.

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::buffer::NullBuffer;
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryReservation;
use nearfar_table::segment::{ColumnSegment, RowSet, integer_array};
use std::borrow::Cow;
use std::sync::Arc;

use super::groups::Groups;
use super::plan::{AggregatePlan, GROUPS_MAX, Output};
use super::totals::{CHUNK_ROWS, Fold, Total};
use crate::error::EngineError;
use crate::scan::{BoundSegment, PartitionCosts, RowConsumer};

/// Who counts rows adds up these.
const ONES: [i64; CHUNK_ROWS] = [1; CHUNK_ROWS];

/// What has been made of rows so far.
pub struct Aggregation {
    plan: Arc<AggregatePlan>,
    /// None where all rows are one group.
    groups: Option<Groups>,
    totals: Vec<Total>,
    counts: Vec<Total>,
    memory: MemoryReservation,
}

impl Aggregation {
    /// What `plan` makes of no rows.
    ///
    /// # Errors
    /// Keys of types that Arrow's rows do not have.
    pub fn new(plan: &Arc<AggregatePlan>, memory: MemoryReservation) -> Result<Self, EngineError> {
        let types = plan
            .keys
            .iter()
            .map(|key| plan.columns[*key].data_type.clone());
        let groups = (!plan.keys.is_empty()).then(|| Groups::new(types));
        let totals = plan.totals.iter();
        let counts = plan.counts.iter();
        Ok(Self {
            groups: groups.transpose()?,
            totals: totals
                .map(|total| Total::new(total.fold, total.rows_max))
                .collect(),
            counts: counts.map(|_| Total::new(Fold::Sum, usize::MAX)).collect(),
            plan: Arc::clone(plan),
            memory,
        })
    }

    /// Adds the values of a chunk of rows to their groups.
    fn add(
        &mut self,
        rows: RowSet<'_>,
        segments: &[Arc<ColumnSegment>],
    ) -> Result<(), EngineError> {
        let groups = match &mut self.groups {
            Some(groups) => Some(groups.of(rows)?),
            None => None,
        };
        let groups = groups.as_deref();
        self.resize();
        let plan = Arc::clone(&self.plan);
        let values = plan
            .program
            .run(|column| segments[column].read_integers(rows, &plan.columns[column].data_type))?;
        let valid = plan.counts.iter().map(|columns| {
            let nulls = columns
                .iter()
                .map(|column| segments[*column].nulls_of(rows));
            nulls.fold(None, |all, nulls| {
                NullBuffer::union(all.as_ref(), nulls.as_ref())
            })
        });
        let valid: Vec<Option<NullBuffer>> = valid.collect();
        for (count, valid) in self.counts.iter_mut().zip(&valid) {
            count.add(groups, &masked(&ONES[..rows.len()], valid.as_ref(), 0));
        }
        for (total, plan) in self.totals.iter_mut().zip(&plan.totals) {
            let valid = valid[plan.count].as_ref();
            let values = masked(&values[plan.step], valid, plan.fold.identity());
            total.add(groups, &values);
        }
        Ok(())
    }

    /// Has all totals have all groups.
    fn resize(&mut self) {
        let groups = self.groups.as_ref().map_or(1, Groups::len);
        for total in self.totals.iter_mut().chain(&mut self.counts) {
            total.resize(groups);
        }
    }

    fn bytes(&self) -> usize {
        let totals = self.totals.iter().chain(&self.counts);
        let groups = self.groups.as_ref().map_or(0, Groups::bytes);
        groups + totals.map(Total::bytes).sum::<usize>()
    }

    /// Gives all groups, and their memory back.
    fn hand_over(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        let given = self.take();
        self.memory.free();
        given
    }

    /// Gives all groups, of which there are none then.
    fn take(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        self.resize();
        let mut columns = match &mut self.groups {
            Some(groups) if groups.len() == 0 => return Ok(None),
            Some(groups) => groups.take()?,
            None => Vec::new(),
        };
        let counts: Vec<Vec<i128>> = self.counts.iter_mut().map(Total::take).collect();
        let totals: Vec<Vec<i128>> = self.totals.iter_mut().map(Total::take).collect();
        let schema = &self.plan.schema;
        for output in &self.plan.outputs {
            let data_type = schema.field(columns.len()).data_type();
            let given: Vec<Option<i128>> = match output {
                Output::Count(count) => counts[*count].iter().copied().map(Some).collect(),
                Output::Total(total) => {
                    let counts = counts[self.plan.totals[*total].count].iter();
                    let totals = totals[*total].iter().zip(counts);
                    totals
                        .map(|(total, count)| (*count > 0).then_some(*total))
                        .collect()
                }
            };
            columns.push(integer_array(given.into_iter(), data_type));
        }
        let rows = columns.first().map_or(1, |column| column.len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        Ok(Some(batch))
    }
}

impl RowConsumer for Aggregation {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn columns(&self) -> Vec<usize> {
        let columns = self.plan.columns.iter();
        let read = columns.filter(|read| read.has_values);
        read.map(|read| read.column).collect()
    }

    fn consume(
        &mut self,
        rows: RowSet<'_>,
        bound: &mut BoundSegment,
        costs: &mut PartitionCosts,
    ) -> Result<Option<RecordBatch>, EngineError> {
        let columns = self.plan.columns.iter();
        let segments = columns.map(|read| match read.has_values {
            true => bound.charged(read.column, rows, costs),
            false => bound.column(read.column),
        });
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        if let Some(groups) = &mut self.groups {
            let keys = self.plan.keys.iter();
            let keys: Vec<_> = keys.map(|key| Arc::clone(&segments[*key])).collect();
            groups.bind(&keys);
        }
        for chunk in rows.chunks(CHUNK_ROWS) {
            self.add(chunk, &segments)?;
        }
        let room = self.memory.try_resize(self.bytes());
        let groups = self.groups.as_ref().map_or(0, Groups::len);
        match room {
            Err(error) if !self.plan.is_partial => Err(error.into()),
            Ok(()) if !self.plan.is_partial || groups as u64 <= GROUPS_MAX => Ok(None),
            _ => self.hand_over(),
        }
    }

    fn finish(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        self.hand_over()
    }
}

/// `values`, of which those that are not valid change no total.
fn masked<'a>(values: &'a [i64], valid: Option<&NullBuffer>, identity: i64) -> Cow<'a, [i64]> {
    match valid.filter(|valid| valid.null_count() > 0) {
        None => values.into(),
        Some(valid) => {
            let pairs = values.iter().zip(valid);
            pairs
                .map(|(value, is_valid)| if is_valid { *value } else { identity })
                .collect()
        }
    }
}
