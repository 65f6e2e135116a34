//! What statements give back.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::execute::shown_schema;
use super::fault::{is_of_hash_join, query_error};
use crate::error::{EngineError, Panicked};
use crate::memory::{CancelOnDrop, QueryMemory};
use nearfar_durable::checkpoint::pooled::TablePool;
use nearfar_durable::error::DurabilityError;
use nearfar_table::segment::{OneValue, RowValues};
use nearfar_table::table::PackedRows;
use nearfar_table::transaction::Transaction;

/// What a poll of a query gives.
type Polled = Poll<Option<Result<RecordBatch, DataFusionError>>>;

/// The result of one statement.
#[derive(Debug)]
pub enum StatementResult {
    /// A query: its rows, as they come.
    Rows(RowStream),
    /// A command, which is done.
    Command(CommandTag),
}

/// What a command did, in the manner of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTag {
    /// The command, such as `CREATE TABLE`.
    pub command: &'static str,
    /// The rows that it added or wrote, where it did that.
    pub rows: Option<u64>,
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            Some(rows) => write!(f, "{} {rows}", self.command),
            None => f.write_str(self.command),
        }
    }
}

/// What runs a query in another way.
pub(super) type Retry = BoxFuture<'static, Result<SendableRecordBatchStream, DataFusionError>>;

/// Batches that may wait for whoever reads the rows.
const BUFFERED_BATCHES: usize = 2;

/// The rows of a query. The query runs in tasks of its own, at most a few batches ahead of its
/// reader; dropping the stream ends them at their next batch.
pub struct RowStream {
    schema: SchemaRef,
    batches: Batches,
    /// None for rows that are there.
    memory: Option<CancelOnDrop>,
    plan: Arc<dyn ExecutionPlan>,
    /// Fails with the query.
    transaction: Reading,
    /// What main storage is read from, which must have been this process's until then.
    pool: Option<Arc<TablePool>>,
    /// What gives the rows.
    command: &'static str,
}

/// Where rows come from.
enum Batches {
    Stream(SendableRecordBatchStream),
    /// They are there, and few.
    Ready(Option<ReadyRows>),
}

/// Few rows, which are there.
#[derive(Debug, Clone)]
pub enum ReadyRows {
    /// As arrays.
    Batch(RecordBatch),
    /// Value by value.
    Packed(PackedRows),
}

impl ReadyRows {
    /// The columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Self::Batch(batch) => batch.schema_ref(),
            Self::Packed(rows) => rows.schema(),
        }
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.num_rows(),
            Self::Packed(rows) => rows.rows(),
        }
    }

    /// A value of theirs.
    ///
    /// # Panics
    /// For types that no [tail](nearfar_table::segment::Tail::takes) takes.
    pub fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        match self {
            Self::Batch(batch) => OneValue::in_array(batch.column(column), row),
            Self::Packed(rows) => rows.value(column, row),
        }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.get_array_memory_size(),
            Self::Packed(rows) => rows.bytes() as usize,
        }
    }

    /// The same as arrays.
    ///
    /// # Errors
    /// Values that are not of their columns.
    pub fn into_batch(self) -> Result<RecordBatch, EngineError> {
        match self {
            Self::Batch(batch) => Ok(batch),
            Self::Packed(rows) => Ok(rows.batch()?),
        }
    }
}

impl From<RecordBatch> for ReadyRows {
    fn from(batch: RecordBatch) -> Self {
        Self::Batch(batch)
    }
}

impl From<PackedRows> for ReadyRows {
    fn from(rows: PackedRows) -> Self {
        Self::Packed(rows)
    }
}

/// The transaction of a query. What it has read counts, whether or not all rows are asked for.
struct Reading(Arc<Transaction>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Err(error) = self.0.end_reading() {
            tracing::debug!(%error, "rows were read that no order of transactions explains, and not asked for to the end");
        }
    }
}

impl RowStream {
    /// Starts to run `batches` of `plan` in a task, and in the other way that is given where a hash join
    /// is refused memory before the first of them. Needs a Tokio runtime.
    pub(super) fn start(
        plan: Arc<dyn ExecutionPlan>,
        (mut batches, mut retry): (SendableRecordBatchStream, Option<Retry>),
        memory: Arc<QueryMemory>,
        transaction: Arc<Transaction>,
        pool: Option<Arc<TablePool>>,
    ) -> Self {
        let schema = shown_schema(&batches.schema());
        let mut receiver = RecordBatchReceiverStream::builder(batches.schema(), BUFFERED_BATCHES);
        let sender = receiver.tx();
        receiver.spawn(async move {
            while let Some(mut batch) = batches.next().await {
                match (&batch, retry.take()) {
                    (Err(error), Some(retry)) if is_of_hash_join(error) => {
                        // What it holds is given back first.
                        batches = Box::pin(EmptyRecordBatchStream::new(batches.schema()));
                        match retry.await {
                            Ok(again) => {
                                batches = again;
                                continue;
                            }
                            Err(error) => batch = Err(error),
                        }
                    }
                    _ => {}
                }
                let failed = batch.is_err();
                if sender.send(batch).await.is_err() || failed {
                    break;
                }
            }
            Ok(())
        });
        Self {
            schema,
            batches: Batches::Stream(receiver.build()),
            memory: Some(CancelOnDrop(memory)),
            plan,
            transaction: Reading(transaction),
            pool,
            command: "SELECT",
        }
    }

    /// Few rows that are there already, of `plan`, which has their columns.
    pub(super) fn of_ready(
        plan: Arc<dyn ExecutionPlan>,
        rows: ReadyRows,
        transaction: Arc<Transaction>,
        pool: Option<Arc<TablePool>>,
    ) -> Self {
        Self {
            schema: Arc::clone(rows.schema()),
            batches: Batches::Ready(Some(rows)),
            memory: None,
            plan,
            transaction: Reading(transaction),
            pool,
            command: "SELECT",
        }
    }

    /// All rows, where they are few and need not be waited for. Nothing comes after them.
    ///
    /// # Errors
    /// As those of the stream.
    pub fn take_ready(&mut self) -> Result<Option<ReadyRows>, EngineError> {
        let Batches::Ready(rows) = &mut self.batches else {
            return Ok(None);
        };
        let Some(rows) = rows.take() else {
            return Ok(None);
        };
        self.transaction.0.end_reading()?;
        self.checked(Ok(rows)).map(Some)
    }

    /// Rows that are fetched of a cursor, as they come; `plan` has their columns. What main storage they are of is
    /// checked where they are read.
    pub(super) fn of_cursor(
        plan: Arc<dyn ExecutionPlan>,
        rows: SendableRecordBatchStream,
        memory: Arc<QueryMemory>,
        transaction: Arc<Transaction>,
    ) -> Self {
        Self {
            schema: rows.schema(),
            batches: Batches::Stream(rows),
            memory: Some(CancelOnDrop(memory)),
            plan,
            transaction: Reading(transaction),
            pool: None,
            command: "FETCH",
        }
    }

    /// The next rows. An operator that panics ends its query, and nothing else.
    fn poll_batches(&mut self, cx: &mut Context<'_>) -> Polled {
        let batches = match &mut self.batches {
            Batches::Stream(batches) => batches,
            Batches::Ready(rows) => {
                let rows = rows.take().filter(|rows| rows.count() > 0);
                let batch = rows.map(|rows| rows.into_batch().map_err(Into::into));
                return Poll::Ready(batch);
            }
        };
        // Nothing of the stream is used after a panic.
        let polled = catch_unwind(AssertUnwindSafe(|| batches.poll_next_unpin(cx)));
        polled.unwrap_or_else(|panic| {
            let message = format!("an operator has panicked: {}", Panicked::of(panic.as_ref()));
            Poll::Ready(Some(Err(EngineError::Internal { message }.into())))
        })
    }

    /// Rows that were read while the pool was this process's: a later owner uses its memory for
    /// something else.
    fn checked<T>(&self, rows: Result<T, DataFusionError>) -> Result<T, EngineError> {
        let owner = self.pool.as_ref().map_or(Ok(()), |pool| pool.check_owner());
        let checked = match (owner, rows) {
            (Ok(()), Ok(rows)) => return Ok(rows),
            // Whatever became of it: values that nobody has encoded are no reason to blame the query.
            (Err(by), _) => DurabilityError::fenced(&by).into(),
            (Ok(()), Err(error)) => match &self.memory {
                Some(memory) => query_error(error.into(), &memory.0, self.plan.as_ref()),
                None => error.into(),
            },
        };
        self.transaction.0.fail();
        Err(checked)
    }

    /// A batch with the names of columns that are shown.
    fn shown(&self, batch: RecordBatch) -> Result<RecordBatch, EngineError> {
        let has_names = |(own, other): (&Arc<Field>, &Arc<Field>)| own.name() == other.name();
        let fields = self.schema.fields().iter();
        if fields.zip(batch.schema_ref().fields()).all(has_names) {
            return Ok(batch);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = shown_schema(batch.schema_ref());
        let columns = batch.columns().to_vec();
        let batch = RecordBatch::try_new_with_options(schema, columns, &rows);
        Ok(batch?)
    }

    /// The same rows, which are those that another command than a query gives back.
    pub(super) fn of_command(self, command: &'static str) -> Self {
        Self { command, ..self }
    }

    /// The command that gives the rows: `SELECT` for every query, `INSERT`, `UPDATE` and `DELETE` with
    /// `RETURNING`.
    pub fn command(&self) -> &'static str {
        self.command
    }

    /// How the query is carried out.
    pub(super) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// The columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The same rows, all of which are there.
    ///
    /// # Errors
    /// What ended the query early.
    pub(super) async fn buffered(mut self) -> Result<Self, EngineError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        let schema = Arc::clone(&self.schema);
        let batches = MemoryStream::try_new(batches, schema, None)?;
        self.batches = Batches::Stream(Box::pin(batches));
        // They are no rows of the pool's.
        self.pool = None;
        Ok(self)
    }

    /// All rows that are left.
    ///
    /// # Errors
    /// What ended the query early.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>, EngineError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll_batches(cx);
        if matches!(next, Poll::Ready(None))
            && let Err(error) = self.transaction.0.end_reading()
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        let shown = |batch| self.checked(batch).and_then(|batch| self.shown(batch));
        next.map(|next| next.map(shown))
    }
}
