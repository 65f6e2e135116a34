//! Operators whose expressions may take long get their rows in slices.
//!
//! An operator evaluates its expressions on a batch without looking up, and a pattern that is looked for in
//! 8192 long strings keeps a thread for seconds. Here such an operator is given as many rows as it takes
//! a few milliseconds for, and the thread is free for others in between: that is also when a statement
//! that was given up ends.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::plan_rule::PlanRule;
use crate::scan::is_costly;
use crate::scan::{STEP, fitted_rows, rows_by_bytes};
use crate::transparent::transparent;

/// Gives operators with one input slices of it, if one of their expressions may take long.
pub const SLICED_INPUTS: PlanRule = PlanRule {
    name: "sliced_inputs",
    rewrite: |plan| {
        let sliced = plan.transform_up(|node| match only_input(node.as_ref()) {
            Some(input) if has_costly_expressions(node.as_ref()) => {
                Ok(Transformed::yes(sliced(node, input)?))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(sliced.data)
    },
};

/// The input of an operator that has one and makes each of its partitions from one of that.
fn only_input(node: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let [input] = node.children()[..] else {
        return None;
    };
    let partitions = |plan: &dyn ExecutionPlan| plan.output_partitioning().partition_count();
    (partitions(node) == partitions(input.as_ref())).then(|| Arc::clone(input))
}

/// Whether an expression of `node` may take long.
pub fn has_costly_expressions(node: &dyn ExecutionPlan) -> bool {
    let mut found = false;
    let visited = node.apply_expressions(&mut |expr| {
        found |= is_costly(expr);
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    found || visited.is_err()
}

fn sliced(
    node: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions = node.output_partitioning().partition_count();
    let paces: Arc<[Pace]> = (0..partitions).map(|_| Pace::default()).collect();
    let slices = Arc::new(StepExec {
        input,
        paces: Arc::clone(&paces),
        side: Side::Input,
    });
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let input = node.replace_children(vec![slices], same)?;
    Ok(Arc::new(StepExec {
        input,
        paces,
        side: Side::Output,
    }))
}

/// How many rows an operator is given, found from how long it took for those before.
#[derive(Debug, Default)]
struct Pace(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    rows: Option<usize>,
    /// The slice that the operator has, and since when.
    given: Option<(usize, Instant)>,
    /// Since when the operator runs without a break.
    running: Option<Instant>,
}

impl Pace {
    /// The operator runs from now on.
    fn resume(&self) {
        self.0.lock().running = Some(Instant::now());
    }

    /// The operator is done with what it was given, if it was given something since [`Self::resume`].
    fn done(&self) {
        let mut pace = self.0.lock();
        if let Some((rows, since)) = pace.given.take() {
            pace.rows = Some(fitted_rows(rows, since.elapsed()));
        }
    }

    /// Whether the operator has run for so long that others come first.
    fn is_over(&self) -> bool {
        let running = self.0.lock().running;
        running.is_some_and(|since| since.elapsed() >= STEP)
    }

    /// Rows that it gets now, of `rows` that have `row_bytes` each.
    fn give(&self, rows: usize, row_bytes: usize) -> usize {
        let mut pace = self.0.lock();
        let measured = pace.rows.unwrap_or(1);
        let rows = rows.min(measured).min(rows_by_bytes(row_bytes));
        pace.given = Some((rows, Instant::now()));
        rows
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Cuts what the operator is given.
    Input,
    /// Measures the operator.
    Output,
}

/// Stands on both sides of an operator.
#[derive(Debug)]
struct StepExec {
    input: Arc<dyn ExecutionPlan>,
    /// One of each partition.
    paces: Arc<[Pace]>,
    side: Side,
}

impl DisplayAs for StepExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Input => "input",
            Side::Output => "output",
        };
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "{side}"),
            _ => write!(f, "StepExec: {side}"),
        }
    }
}

impl ExecutionPlan for StepExec {
    fn name(&self) -> &str {
        "StepExec"
    }

    transparent!(|this: &Self, input| Self {
        input,
        paces: Arc::clone(&this.paces),
        side: this.side
    });

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let paces = Arc::clone(&self.paces);
        Ok(match self.side {
            Side::Input => Box::pin(Slices {
                input,
                paces,
                partition,
                batch: None,
            }),
            Side::Output => Box::pin(MeasuredStream {
                input,
                paces,
                partition,
            }),
        })
    }
}

/// The rows that an operator makes.
struct MeasuredStream {
    input: SendableRecordBatchStream,
    paces: Arc<[Pace]>,
    partition: usize,
}

impl Stream for MeasuredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.paces[self.partition].resume();
        let polled = self.input.poll_next_unpin(cx);
        // What the rows are used for is not the operator's time.
        self.paces[self.partition].done();
        polled
    }
}

impl RecordBatchStream for MeasuredStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// The rows that an operator is given.
struct Slices {
    input: SendableRecordBatchStream,
    paces: Arc<[Pace]>,
    partition: usize,
    /// Rows that are left, with the bytes of one of them.
    batch: Option<(RecordBatch, usize)>,
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let pace = &this.paces[this.partition];
        pace.done();
        if pace.is_over() {
            pace.resume();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (batch, row_bytes) = match this.batch.take() {
            Some(left) => left,
            None => match std::task::ready!(this.input.poll_next_unpin(cx)) {
                Some(Ok(batch)) if batch.num_rows() > 0 => {
                    let row_bytes = bytes(&batch) / batch.num_rows();
                    (batch, row_bytes)
                }
                other => return Poll::Ready(other),
            },
        };
        let rows = pace.give(batch.num_rows(), row_bytes);
        if rows == batch.num_rows() {
            return Poll::Ready(Some(Ok(batch)));
        }
        this.batch = Some((batch.slice(rows, batch.num_rows() - rows), row_bytes));
        Poll::Ready(Some(Ok(batch.slice(0, rows))))
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Bytes of the texts of a batch.
fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(text_bytes).sum()
}

fn text_bytes(values: &ArrayRef) -> usize {
    let views = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum();
    let span = |offsets: &[i32]| match offsets {
        [first, .., last] => (last - first) as usize,
        _ => 0,
    };
    match values.data_type() {
        DataType::Utf8 => span(values.as_string::<i32>().value_offsets()),
        DataType::Binary => span(values.as_binary::<i32>().value_offsets()),
        DataType::Utf8View => views(values.as_string_view().views()),
        DataType::BinaryView => views(values.as_binary_view().views()),
        data_type if data_type.is_primitive() => 0,
        _ => values.get_array_memory_size(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_few_bytes_whatever_was_measured() {
        let pace = Pace::default();
        assert_eq!(pace.give(8192, 10), 1);
        pace.done();
        pace.0.lock().rows = Some(8192);
        assert_eq!(pace.give(8192, 10), 8192);
        assert_eq!(pace.give(8192, 1 << 18), 5);
        assert_eq!(pace.give(8192, usize::MAX), 1);
    }
}
