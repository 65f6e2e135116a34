//! Scans of such tables: parts are fetched by copiers while operators work on the part before.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::TryStreamExt;
use futures::stream::{iter, try_unfold};
use nearfar_kernels::copy::{Copiers, CopyCancel};
use tokio::task::{JoinHandle, spawn_blocking};

use super::table::{RemoteTable, RemoteTableError};
use crate::slices::{SLICE_ROWS, slices};

/// A remote table as a source of queries.
#[derive(Debug)]
pub struct RemoteScan {
    table: Arc<RemoteTable>,
    threads: usize,
}

impl RemoteScan {
    /// Scans of `table` by so many threads at most.
    pub fn new(table: Arc<RemoteTable>, threads: usize) -> Self {
        Self { table, threads }
    }
}

#[async_trait]
impl TableProvider for RemoteScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.table.schema().fields().len()).collect();
        let projection: Arc<[usize]> = projection.cloned().unwrap_or_else(all).into();
        let schema = Arc::new(self.table.schema().project(&projection)?);
        let parts = self.table.parts();
        let each = parts.div_ceil(self.threads.max(1)).max(1);
        let starts = (0..parts.max(1)).step_by(each);
        let copiers = copiers_of(starts.len());
        let partitions = starts.map(|start| {
            Arc::new(RemoteParts {
                table: Arc::clone(&self.table),
                schema: Arc::clone(&schema),
                projection: Arc::clone(&projection),
                parts: start..parts.min(start + each),
                copiers,
            }) as Arc<dyn PartitionStream>
        });
        let partitions = partitions.collect();
        let plan = StreamingTableExec::try_new(schema, partitions, None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// Copiers for each of so many threads: those that a copy has by default are for all of them together, at least one
/// each.
fn copiers_of(threads: usize) -> Copiers {
    let all = Copiers::default().threads();
    let each = NonZeroUsize::new(all.div_ceil(threads.max(1)));
    each.map_or_else(Copiers::default, Copiers::Fixed)
}

/// Parts that one thread reads.
#[derive(Debug)]
struct RemoteParts {
    table: Arc<RemoteTable>,
    schema: SchemaRef,
    projection: Arc<[usize]>,
    parts: Range<usize>,
    copiers: Copiers,
}

/// A part that is being fetched, which ends soon when nobody waits for it any more.
struct Fetching {
    rows: JoinHandle<Result<RecordBatch, RemoteTableError>>,
    bytes: usize,
    cancel: CopyCancel,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Fetching {
    async fn rows(&mut self) -> Result<RecordBatch> {
        let fetched = (&mut self.rows).await;
        let fetched = fetched.map_err(|error| DataFusionError::External(Box::new(error)))?;
        fetched.map_err(|error| match error {
            RemoteTableError::Host(lost) => DataFusionError::External(Box::new(lost)),
            other => DataFusionError::External(Box::new(other)),
        })
    }
}

/// How far a stream is.
struct Progress {
    parts: RemoteParts,
    next: Option<Fetching>,
    memory: MemoryReservation,
}

impl RemoteParts {
    /// Begins to fetch a part.
    fn begin(&self, part: usize) -> Fetching {
        let bytes = self.table.part_bytes(part, &self.projection);
        let cancel = CopyCancel::default();
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        let (projection, cancelled) = (Arc::clone(&self.projection), cancel.clone());
        let copiers = self.copiers;
        let rows =
            spawn_blocking(move || table.fetch(part, &projection, &schema, copiers, &cancelled));
        Fetching {
            rows,
            bytes,
            cancel,
        }
    }

    /// Near bytes that a part takes: those that are fetched, and what is made of them.
    fn needed_bytes(&self, part: usize) -> usize {
        2 * self.table.part_bytes(part, &self.projection)
    }
}

impl Progress {
    /// The rows of the next part, while the one behind it is fetched if there is memory for it. Both are charged to the
    /// query before they are fetched.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        let mut current = match self.next.take() {
            Some(fetching) => {
                self.memory.try_resize(2 * fetching.bytes)?;
                fetching
            }
            None => {
                let Some(part) = self.parts.parts.next() else {
                    return Ok(None);
                };
                self.memory.try_resize(self.parts.needed_bytes(part))?;
                self.parts.begin(part)
            }
        };
        if let Some(part) = self.parts.parts.clone().next()
            && self.memory.try_grow(self.parts.needed_bytes(part)).is_ok()
        {
            self.parts.parts.next();
            self.next = Some(self.parts.begin(part));
        }
        let rows = current.rows().await?;
        Ok(Some((rows, self)))
    }
}

impl PartitionStream for RemoteParts {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let progress = Progress {
            parts: Self {
                table: Arc::clone(&self.table),
                schema: Arc::clone(&self.schema),
                projection: Arc::clone(&self.projection),
                parts: self.parts.clone(),
                copiers: self.copiers,
            },
            next: None,
            memory: MemoryConsumer::new("RemoteScan").register(context.memory_pool()),
        };
        let parts = try_unfold(progress, Progress::next);
        let parts = parts.map_ok(|rows| iter(slices(&rows, SLICE_ROWS).map(Ok)));
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, parts.try_flatten()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_scan_share_its_copiers() {
        let of = |threads| copiers_of(threads).threads();
        assert_eq!([0, 1, 2, 4, 5, 64].map(of), [5, 5, 3, 2, 1, 1]);
    }
}
