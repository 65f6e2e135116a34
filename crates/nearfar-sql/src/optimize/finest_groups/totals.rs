//! The total over all rows, of the states of groups.
//!
//! An aggregate of grouping sets gives a total even for no rows, but not if it is made of states. So totals are
//! added up here, while the states of another set's groups come by.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use crate::transparent::transparent;

/// Adds a row to each partition of its input, groups of several sets: the total of one of these sets.
#[derive(Debug)]
pub struct TotalsExec {
    pub input: Arc<dyn ExecutionPlan>,
    /// What is known of groups that have their totals with them.
    pub properties: Arc<PlanProperties>,
    pub functions: Vec<Arc<AggregateFunctionExpr>>,
    /// How many columns groups have, before the number of their set.
    pub keys: usize,
    /// The number of the set whose groups are added up.
    pub set: u64,
}

impl TotalsExec {
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            properties: Arc::clone(&self.properties),
            functions: self.functions.clone(),
            ..*self
        }
    }
}

impl DisplayAs for TotalsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "TotalsExec: of_set={}", self.set),
        }
    }
}

impl ExecutionPlan for TotalsExec {
    fn name(&self) -> &str {
        "TotalsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    transparent!(but properties, Self::over);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = self.schema();
        let totals = Arc::new(Mutex::new(Totals::of(self, Arc::clone(&schema))?));
        let (added, shown) = (Arc::clone(&totals), Arc::clone(&schema));
        let groups = input.map(move |batch| {
            let batch = batch?;
            added.lock().add(&batch)?;
            let columns = batch.columns().to_vec();
            Ok(RecordBatch::try_new(Arc::clone(&shown), columns)?)
        });
        let total = stream::once(async move { totals.lock().row() });
        let rows = groups.chain(total);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

struct Totals {
    schema: SchemaRef,
    keys: usize,
    set: u64,
    /// With the number of columns that each has for its state.
    states: Vec<(Box<dyn Accumulator>, usize)>,
}

impl Totals {
    fn of(node: &TotalsExec, schema: SchemaRef) -> Result<Self> {
        let states = node.functions.iter().map(|function| {
            let columns = function.state_fields()?.len();
            Ok((function.create_accumulator()?, columns))
        });
        Ok(Self {
            schema,
            keys: node.keys,
            set: node.set,
            states: states.collect::<Result<_>>()?,
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let sets = cast(batch.column(self.keys), &DataType::UInt64)?;
        let sets = sets.as_primitive::<UInt64Type>();
        let is_added = BooleanArray::from_unary(sets, |set| set == self.set);
        if is_added.true_count() == 0 {
            return Ok(());
        }
        let batch = filter_record_batch(batch, &is_added)?;
        let mut columns = &batch.columns()[self.keys + 1..];
        for (state, count) in &mut self.states {
            let (own, others) = columns.split_at(*count);
            state.merge_batch(own)?;
            columns = others;
        }
        Ok(())
    }

    /// The group of all rows: it has no columns, which all bits of its number say.
    fn row(&mut self) -> Result<RecordBatch> {
        let fields = self.schema.fields();
        let keys = fields[..self.keys].iter();
        let keys = keys.map(|field| new_null_array(field.data_type(), 1));
        let mut columns: Vec<ArrayRef> = keys.collect();
        let set = ScalarValue::UInt64(Some(all_missing(self.keys)));
        columns.push(cast(&set.to_array()?, fields[self.keys].data_type())?);
        for (state, _) in &mut self.states {
            for value in state.state()? {
                let value = value.to_array()?;
                let data_type = fields[columns.len()].data_type();
                columns.push(match value.data_type() == data_type {
                    true => value,
                    false => cast(&value, data_type)?,
                });
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// The number of the set that has none of so many columns.
fn all_missing(keys: usize) -> u64 {
    u64::MAX
        .checked_shr(u64::BITS - keys as u32)
        .unwrap_or_default()
}
