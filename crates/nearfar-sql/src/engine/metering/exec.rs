//! The plan nodes around operators that evaluate expressions whose results can be large.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::scope;
use crate::transparent::transparent;
use nearfar_table::table::batch_bytes;

/// An operator over whole partitions keeps its batches, and puts them together.
const KEPT_COPIES: usize = 2;

/// What a node is to the operator whose expressions are metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It runs the operator, in a scope.
    Operator {
        /// Whether the operator keeps what it makes until it ends.
        keeps_all: bool,
    },
    /// It runs an input of the operator, out of the scope.
    Input {
        /// Whether the operator keeps the rows without accounting for them.
        keeps_rows: bool,
    },
}

/// Charges what the expressions of an operator make to the query.
#[derive(Debug)]
pub struct MeteredExec {
    input: Arc<dyn ExecutionPlan>,
    role: Role,
}

impl MeteredExec {
    /// A node over `input` in `role`.
    pub fn new(input: Arc<dyn ExecutionPlan>, role: Role) -> Self {
        Self { input, role }
    }
}

impl DisplayAs for MeteredExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (format, self.role) {
            (DisplayFormatType::TreeRender, _) => Ok(()),
            (_, Role::Operator { .. }) => f.write_str("MeteredExec"),
            (_, Role::Input { .. }) => f.write_str("MeteredExec: input"),
        }
    }
}

impl ExecutionPlan for MeteredExec {
    fn name(&self) -> &str {
        "MeteredExec"
    }

    transparent!(|this: &Self, input| Self::new(input, this.role));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new(self.input.name());
        let scope = match self.role {
            Role::Operator { .. } => Some(Arc::new(consumer.register(context.memory_pool()))),
            Role::Input { .. } => None,
        };
        let input = {
            let _entered = scope::enter(scope.clone());
            self.input.execute(partition, context)?
        };
        Ok(Box::pin(MeteredStream {
            input,
            scope,
            role: self.role,
            has_yielded: false,
        }))
    }
}

struct MeteredStream {
    input: SendableRecordBatchStream,
    /// None for an input.
    scope: Option<Arc<MemoryReservation>>,
    role: Role,
    has_yielded: bool,
}

impl Stream for MeteredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let above = scope::current();
        if let (Some(scope), Role::Operator { keeps_all: false }, true) =
            (&self.scope, self.role, self.has_yielded)
        {
            scope.free();
        }
        self.has_yielded = false;
        let next = {
            let _entered = scope::enter(self.scope.clone());
            self.input.poll_next_unpin(context)
        };
        if let Poll::Ready(Some(Ok(batch))) = &next {
            self.has_yielded = true;
            if let (Role::Input { keeps_rows: true }, Some(above)) = (self.role, above)
                && let Err(error) = above.try_grow(batch_bytes(batch) as usize * KEPT_COPIES)
            {
                return Poll::Ready(Some(Err(error)));
            }
        }
        next
    }
}

impl RecordBatchStream for MeteredStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Hands on its input's batches in slices of a few rows.
#[derive(Debug)]
pub struct SliceExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl SliceExec {
    /// Slices of at most `rows` rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, rows: usize) -> Self {
        Self {
            input,
            rows: rows.max(1),
        }
    }

    /// The most rows of a slice.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl DisplayAs for SliceExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "SliceExec: rows={}", self.rows),
        }
    }
}

impl ExecutionPlan for SliceExec {
    fn name(&self) -> &str {
        "SliceExec"
    }

    transparent!(|this: &Self, input| Self::new(input, this.rows));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (schema, rows) = (input.schema(), self.rows);
        let slices = input.flat_map(move |batch| futures::stream::iter(slices(batch, rows)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices)))
    }
}

fn slices(batch: Result<RecordBatch>, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let count = batch
        .as_ref()
        .map_or(1, |batch| batch.num_rows().div_ceil(rows).max(1));
    let mut failed = None;
    let batch = match batch {
        Ok(batch) => Some(batch),
        Err(error) => {
            failed = Some(error);
            None
        }
    };
    (0..count).filter_map(move |at| match &batch {
        Some(batch) => {
            let start = at * rows;
            Some(Ok(batch.slice(start, rows.min(batch.num_rows() - start))))
        }
        None => failed.take().map(Err),
    })
}
