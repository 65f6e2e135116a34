//! Operators that repeat the rows of their inputs are charged for what that makes.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

use super::sizes::{VALUE_BYTES, array_bytes, elements, is_copied, lengths};
use crate::transparent::transparent;

/// What every operator may make without being charged for it.
const FREE_BYTES: u64 = 1 << 20;

/// How an operator repeats the rows of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// A join: any row may be in all rows of a batch.
    Rows,
    /// A row is in as many rows as its lists have elements, all in one batch.
    Lists,
}

impl Repeats {
    /// What is made of `batch` at most, where an operator makes batches of `rows` rows.
    fn bytes(self, batch: &RecordBatch, rows: usize) -> u64 {
        let columns = batch.columns().iter();
        match self {
            Self::Rows => {
                let copied = columns.filter(|column| is_copied(column.data_type()));
                let width: u64 = copied.map(widest).sum();
                width.saturating_mul(rows as u64)
            }
            Self::Lists => {
                let count = columns.clone().map(element_count).max().unwrap_or(0);
                let width: u64 = columns.map(beside_elements).sum();
                width.saturating_mul(count)
            }
        }
    }
}

/// The bytes of the longest value.
fn widest(column: &ArrayRef) -> u64 {
    match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            let value = ColumnarValue::Array(Arc::clone(column));
            let bytes = lengths(&value);
            (0..column.len())
                .map(|row| bytes.at(row))
                .max()
                .unwrap_or(0)
        }
        DataType::List(_) | DataType::LargeList(_) => {
            let value = ColumnarValue::Array(Arc::clone(column));
            let counts = elements(&value);
            let (mut longest, mut all) = (0, 0);
            for row in 0..column.len() {
                let count = counts.at(row);
                longest = longest.max(count);
                all += count;
            }
            longest.saturating_mul(array_bytes(column) / all.max(1))
        }
        _ => array_bytes(column) / (column.len() as u64).max(1),
    }
}

fn element_count(column: &ArrayRef) -> u64 {
    let value = ColumnarValue::Array(Arc::clone(column));
    let counts = elements(&value);
    (0..column.len()).map(|row| counts.at(row)).sum()
}

/// What a row takes for a column beside the elements of a list.
fn beside_elements(column: &ArrayRef) -> u64 {
    match column.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => VALUE_BYTES,
        other if is_copied(other) => widest(column),
        other => other
            .primitive_width()
            .map_or(VALUE_BYTES, |width| width as u64),
    }
}

/// Hands on its input's batches, and has the operator above it charged for what it makes of them.
#[derive(Debug)]
pub struct WidthExec {
    input: Arc<dyn ExecutionPlan>,
    kind: Repeats,
    /// Who is charged.
    operator: String,
}

impl WidthExec {
    /// An input of `operator`.
    pub fn new(input: Arc<dyn ExecutionPlan>, kind: Repeats, operator: &str) -> Self {
        let operator = operator.to_owned();
        Self {
            input,
            kind,
            operator,
        }
    }
}

impl DisplayAs for WidthExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("WidthExec"),
        }
    }
}

impl ExecutionPlan for WidthExec {
    fn name(&self) -> &str {
        "WidthExec"
    }

    transparent!(|this: &Self, input| Self::new(input, this.kind, &this.operator));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let charged = MemoryConsumer::new(&self.operator).register(context.memory_pool());
        let rows = context.session_config().batch_size();
        let (schema, kind) = (input.schema(), self.kind);
        let batches = input.map(move |batch| {
            let batch = batch?;
            let bytes = kind.bytes(&batch, rows);
            if bytes > FREE_BYTES {
                let bytes = usize::try_from(bytes)
                    .unwrap_or(usize::MAX >> 4)
                    .min(usize::MAX >> 4);
                charged.try_resize(bytes.max(charged.size()))?;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
