//! What a statement gives back of the one row, or the few, that it changes.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, Projection};
use std::sync::Arc;

use super::expressions::{RowValues, is_plain, with_types};
use crate::engine::execute::change::ChangedRows;
use crate::error::EngineError;

/// The values that are given back of rows.
#[derive(Debug)]
pub struct Returning {
    values: RowValues,
    schema: SchemaRef,
}

/// A statement, in what changes rows and what is given back.
pub fn split(plan: &LogicalPlan) -> Option<(&Projection, &ChangedRows)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            Some((projection, ChangedRows::of(&projection.input)?))
        }
        _ => None,
    }
}

impl Returning {
    /// What `plan` gives back, under the names of `shown`. None where that has to be planned each time.
    pub fn of(
        state: &SessionState,
        plan: &LogicalPlan,
        parameters: &[ScalarValue],
        shown: &SchemaRef,
    ) -> Option<Self> {
        let (raw, _) = split(plan)?;
        if !raw.expr.iter().all(is_plain) {
            return None;
        }
        let typed = with_types(state, plan, parameters)?;
        let (typed, rows) = split(&typed)?;
        let values = RowValues::of(state, &typed.expr, rows.columns())?;
        let schema = values.schema_of(shown)?;
        Some(Self { values, schema })
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of the table that are taken, by their places.
    pub fn columns(&self) -> &[usize] {
        self.values.columns()
    }

    /// Whether the values of parameters have the types that it is made for.
    pub fn takes(&self, parameters: &[ScalarValue]) -> bool {
        self.values.take(parameters)
    }

    /// What is given back of as many `rows` with these values of the columns that are taken.
    pub fn of_columns(
        &self,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, EngineError> {
        let values = self.values.evaluate((columns, rows), parameters)?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), values)?)
    }

    /// The same of rows of the table.
    pub fn of_rows(
        &self,
        stored: &[RecordBatch],
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, EngineError> {
        let Some(rows) = stored.first() else {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        };
        let columns = self.columns().iter().map(|at| Arc::clone(rows.column(*at)));
        let columns: Vec<ArrayRef> = columns.collect();
        self.of_columns((&columns, rows.num_rows()), parameters)
    }
}
