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
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::TryStreamExt;
use futures::stream::{iter, try_unfold};
use nearfar_kernels::copy::{Copiers, CopyCancel};
use nearfar_memory::{TierBytes, TierId};
use nearfar_table::traffic::{Task, TrafficAccount};
use tokio::task::{JoinHandle, spawn_blocking};

use super::cache::NearCache;
use super::columns::{Columns, Fetched};
use super::table::{Rebuilt, RemoteTable};
use crate::error::{EngineError, RemoteTableError};
use crate::settings::Settings;
use crate::slices::{SLICE_ROWS, slices};
use crate::sql::SqlError;

/// A remote table as a source of queries.
#[derive(Debug)]
pub struct RemoteScan {
    table: Arc<RemoteTable>,
    threads: usize,
    cache: Arc<NearCache>,
    is_shared: bool,
}

impl RemoteScan {
    /// Scans of `table` by so many threads at most. What they fetch is kept in `cache`, and a table whose host is lost
    /// is rebuilt in the near memory that the cache is in.
    pub fn new(table: Arc<RemoteTable>, threads: usize, cache: Arc<NearCache>) -> Self {
        Self {
            table,
            threads,
            cache,
            is_shared: false,
        }
    }

    /// The same, which is listed as a table of all sessions.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<RemoteTable> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for RemoteScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        match self.is_shared {
            true => TableType::Base,
            false => TableType::Temporary,
        }
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
                cache: Arc::clone(&self.cache),
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

    async fn insert_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let what = "INSERT into a table in the memory of another host, whose rows do not change,";
        let refused = SqlError::unsupported(what, "use CREATE OR REPLACE TABLE … AS SELECT");
        Err(EngineError::from(refused).into())
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
#[derive(Debug, Clone)]
struct RemoteParts {
    table: Arc<RemoteTable>,
    cache: Arc<NearCache>,
    schema: SchemaRef,
    projection: Arc<[usize]>,
    parts: Range<usize>,
    copiers: Copiers,
}

/// A part that is being fetched, which ends soon when nobody waits for it any more.
struct Fetching {
    fetched: JoinHandle<Result<Fetched, RemoteTableError>>,
    bytes: usize,
    cancel: CopyCancel,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Where a scan counts what it moves.
struct Counted {
    /// None for who has no session.
    account: Option<Arc<TrafficAccount>>,
    /// The host's tier, where it is one of the engine's.
    host: Option<TierId>,
}

impl Counted {
    fn new(context: &TaskContext, parts: &RemoteParts) -> Self {
        let extensions = &context.session_config().options().extensions;
        let settings = extensions.get::<Settings>();
        let host = parts.table.column_host();
        Self {
            account: settings.map(|settings| Arc::clone(settings.traffic())),
            host: host.tier(parts.cache.system()),
        }
    }

    fn bytes(&self, host_bytes: u64, near_bytes: u64) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        bytes[TierId::NEAR] = near_bytes;
        if let Some(host) = self.host {
            bytes[host] = host_bytes;
        }
        bytes
    }

    /// Counts what was read, and waits for its turn.
    async fn read(&self, fetched: &Fetched) {
        let Some(account) = &self.account else {
            return;
        };
        let bytes = self.bytes(fetched.host_bytes, fetched.near_bytes);
        account.read(Task::Scan, &bytes);
        if let Some(turn) = account.turn(Task::Scan, &bytes) {
            turn.wait().await;
        }
    }

    /// The same of a table that was rebuilt.
    async fn rebuilt(&self, rebuilt: Rebuilt) {
        let Some(account) = &self.account else {
            return;
        };
        let bytes = self.bytes(rebuilt.host_bytes, rebuilt.near_bytes);
        account.wrote(Task::Load, &bytes);
        if let Some(turn) = account.turn(Task::Load, &bytes) {
            turn.wait().await;
        }
    }
}

/// How far a stream is.
struct Progress {
    parts: RemoteParts,
    /// Those that the whole stream reads, once it has begun.
    columns: Option<Arc<Columns>>,
    next: Option<Fetching>,
    counted: Counted,
    memory: MemoryReservation,
    /// For a table that is rebuilt.
    rebuilding: MemoryReservation,
}

impl RemoteParts {
    /// Begins to fetch a part.
    fn begin(&self, columns: &Arc<Columns>, part: usize) -> Fetching {
        let bytes = columns.part_bytes(part, &self.projection);
        let cancel = CopyCancel::default();
        let (parts, columns, cancelled) = (self.clone(), Arc::clone(columns), cancel.clone());
        let fetched = spawn_blocking(move || {
            let how = (parts.copiers, &cancelled);
            let what = (part, parts.projection.as_ref());
            columns.fetch(what, &parts.schema, &parts.cache, how)
        });
        Fetching {
            fetched,
            bytes,
            cancel,
        }
    }
}

impl Progress {
    /// The table's columns, which are those of the first part for all others too: what is lost while the stream reads
    /// is not rebuilt for it.
    async fn columns(&mut self) -> Result<Arc<Columns>> {
        if let Some(columns) = &self.columns {
            return Ok(Arc::clone(columns));
        }
        let RemoteParts { table, cache, .. } = &self.parts;
        let (columns, rebuilt) = table.columns(cache.system(), &self.rebuilding).await?;
        self.counted.rebuilt(rebuilt).await;
        self.columns = Some(Arc::clone(&columns));
        Ok(columns)
    }

    /// The rows of the next part, while the one behind it is fetched if there is memory for it. Both are charged to the
    /// query before they are fetched: the bytes, and what is made of them.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        let columns = self.columns().await?;
        let needed_bytes = |part| 2 * columns.part_bytes(part, &self.parts.projection);
        let mut current = match self.next.take() {
            Some(fetching) => {
                self.memory.try_resize(2 * fetching.bytes)?;
                fetching
            }
            None => {
                let Some(part) = self.parts.parts.next() else {
                    return Ok(None);
                };
                self.memory.try_resize(needed_bytes(part))?;
                self.parts.begin(&columns, part)
            }
        };
        if let Some(part) = self.parts.parts.clone().next()
            && self.memory.try_grow(needed_bytes(part)).is_ok()
        {
            self.parts.parts.next();
            self.next = Some(self.parts.begin(&columns, part));
        }
        let fetched = (&mut current.fetched).await;
        let fetched = fetched.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let fetched = fetched.map_err(|error| self.parts.table.failed(&columns, error))?;
        self.counted.read(&fetched).await;
        Ok(Some((fetched.rows, self)))
    }
}

impl PartitionStream for RemoteParts {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let consumer = |name| MemoryConsumer::new(name).register(context.memory_pool());
        let progress = Progress {
            parts: self.clone(),
            columns: None,
            next: None,
            counted: Counted::new(&context, self),
            memory: consumer("RemoteScan"),
            rebuilding: consumer("RemoteTable"),
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
