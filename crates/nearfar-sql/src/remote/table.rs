//! A table on another host.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use nearfar_kernels::copy::{CopyCancel, CopyError};
use nearfar_memory::MemorySystem;
use nearfar_rdma::RemoteError;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::columns::Columns;
use super::encode::{EncodedColumn, PART_ROWS, Parts};
use super::host::ColumnHost;
use super::source::{Kept, RowSource, SourceRows};
use crate::error::RemoteTableError;

/// Where the table's columns are.
#[derive(Debug)]
enum State {
    Whole(Arc<Columns>),
    /// The host is gone with them.
    Lost {
        region: Option<u64>,
        reason: String,
    },
}

/// A table whose columns lie in the memory of another host. Its rows do not change. Dropping it gives the memory back.
///
/// Where its rows are kept elsewhere too ([`Self::put_from`]), it is rebuilt from there when the host was lost: on that
/// host if it can be reached again, else near.
pub struct RemoteTable {
    schema: SchemaRef,
    rows: usize,
    host: Arc<dyn ColumnHost>,
    kept: Option<Kept>,
    state: Mutex<State>,
    /// Held by who rebuilds it.
    rebuilding: tokio::sync::Mutex<()>,
}

impl fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTable")
            .field("host", &self.host())
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

/// Where the columns of a table are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TablePlace {
    /// All on its host, or near.
    Whole { is_near: bool, bytes: u64 },
    /// Nowhere: its host was lost.
    Lost { reason: String },
}

/// What was moved to rebuild a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rebuilt {
    pub(super) host_bytes: u64,
    pub(super) near_bytes: u64,
}

impl RemoteTable {
    /// Writes the columns of these batches to the host, one after another; each is encoded near before. Nobody else has
    /// them: when the host is lost, they are.
    ///
    /// # Errors
    /// [`RemoteTableError`]; what was written is given back.
    pub fn put(
        host: Arc<dyn ColumnHost>,
        schema: SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<Self, RemoteTableError> {
        let names = |schema: &Schema| -> Vec<String> {
            let fields = schema.fields().iter();
            fields.map(|field| field.name().clone()).collect()
        };
        let has_columns = |batch: &RecordBatch| names(&batch.schema()) == names(&schema);
        if !batches.iter().all(has_columns) {
            let message = "a batch has other columns than the table".to_owned();
            return Err(ArrowError::SchemaError(message).into());
        }
        let mut gathered = Parts::default();
        let full: Vec<_> = batches
            .iter()
            .flat_map(|batch| gathered.push(batch))
            .collect();
        let parts: Vec<_> = full.into_iter().chain(gathered.finish()).collect();
        let columns = schema.fields().iter().enumerate().map(|(at, field)| {
            let mut column = EncodedColumn::default();
            parts
                .iter()
                .try_for_each(|part| column.push(field, part, at))?;
            Ok::<_, RemoteTableError>(column)
        });
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = Columns::put(host.as_ref(), rows, columns)?;
        Ok(Self::new((schema, rows), host, None, columns))
    }

    /// Writes all rows of `source` to the host, with types as tables store them; all are encoded near before. The source
    /// is read again when the host was lost.
    ///
    /// # Errors
    /// [`RemoteTableError`]; what was written is given back.
    pub async fn put_from(
        host: Arc<dyn ColumnHost>,
        source: Arc<dyn RowSource>,
    ) -> Result<Self, RemoteTableError> {
        let read = SourceRows::read(source.as_ref(), None).await?;
        Self::put_read(host, read, Some(source)).await
    }

    /// Writes these rows to the host, as [`Self::put_from`] does with those of `source`, which has to give the same ones.
    /// What they take while they are encoded is charged to `memory`.
    ///
    /// # Errors
    /// As [`Self::put_from`], and those of the rows.
    pub(crate) async fn put_rows(
        host: Arc<dyn ColumnHost>,
        rows: SendableRecordBatchStream,
        source: Option<Arc<dyn RowSource>>,
        memory: &MemoryReservation,
    ) -> Result<Self, RemoteTableError> {
        let read = SourceRows::read_rows(rows, RemoteTableError::Query, Some(memory)).await?;
        Self::put_read(host, read, source).await
    }

    async fn put_read(
        host: Arc<dyn ColumnHost>,
        read: SourceRows,
        source: Option<Arc<dyn RowSource>>,
    ) -> Result<Self, RemoteTableError> {
        let (schema, rows, digest) = (Arc::clone(&read.schema), read.rows(), read.digest);
        let to = Arc::clone(&host);
        let columns = on_thread(move |cancel| {
            to.reconnect()?;
            Ok(Columns::put_all(
                to.as_ref(),
                (rows, &read.columns),
                cancel,
            )?)
        });
        let kept = source.map(|source| Kept { source, digest });
        Ok(Self::new((schema, rows), host, kept, columns.await?))
    }

    fn new(
        (schema, rows): (SchemaRef, usize),
        host: Arc<dyn ColumnHost>,
        kept: Option<Kept>,
        columns: Arc<Columns>,
    ) -> Self {
        Self {
            schema,
            rows,
            host,
            kept,
            state: Mutex::new(State::Whole(columns)),
            rebuilding: tokio::sync::Mutex::default(),
        }
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The name of the host that it was put on.
    pub fn host(&self) -> &str {
        self.host.name()
    }

    /// Where its columns are.
    pub(crate) fn place(&self) -> TablePlace {
        match &*self.state.lock() {
            State::Whole(columns) => TablePlace::Whole {
                is_near: columns.are_near(),
                bytes: columns.bytes(),
            },
            State::Lost { reason, .. } => TablePlace::Lost {
                reason: reason.clone(),
            },
        }
    }

    /// Where its rows are kept elsewhere, if they are.
    pub(crate) fn kept_in(&self) -> Option<String> {
        self.kept.as_ref().map(|kept| kept.source.name())
    }

    /// That host.
    pub(crate) fn column_host(&self) -> &dyn ColumnHost {
        self.host.as_ref()
    }

    /// Parts that are fetched one by one.
    pub(super) fn parts(&self) -> usize {
        self.rows.div_ceil(PART_ROWS)
    }

    fn whole(&self) -> Option<Arc<Columns>> {
        match &*self.state.lock() {
            State::Whole(columns) => Some(Arc::clone(columns)),
            State::Lost { .. } => None,
        }
    }

    /// Its columns, which are rebuilt if they were lost: one of those who need them does that, and charges `memory` for
    /// it.
    ///
    /// # Errors
    /// That of a table that is lost and cannot be rebuilt, with the host's name.
    pub(super) async fn columns(
        &self,
        system: &Arc<MemorySystem>,
        memory: &MemoryReservation,
    ) -> Result<(Arc<Columns>, Rebuilt), RemoteTableError> {
        if let Some(columns) = self.whole() {
            return Ok((columns, Rebuilt::default()));
        }
        let _turn = self.rebuilding.lock().await;
        if let Some(columns) = self.whole() {
            return Ok((columns, Rebuilt::default()));
        }
        let rebuilt = self.rebuild(system, memory).await;
        memory.free();
        let (columns, rebuilt) = rebuilt?;
        *self.state.lock() = State::Whole(Arc::clone(&columns));
        Ok((columns, rebuilt))
    }

    async fn rebuild(
        &self,
        system: &Arc<MemorySystem>,
        memory: &MemoryReservation,
    ) -> Result<(Arc<Columns>, Rebuilt), RemoteTableError> {
        let Some(Kept { source, digest }) = &self.kept else {
            return Err(RemoteTableError::NoCopy { lost: self.lost() });
        };
        let read = SourceRows::read(source.as_ref(), Some(memory)).await;
        let read = read.map_err(|error| match error {
            RemoteTableError::Source { from, error } => RemoteTableError::Unread {
                lost: self.lost(),
                from,
                error,
            },
            other => other,
        })?;
        if read.digest != *digest || read.schema != self.schema {
            return Err(RemoteTableError::Changed {
                lost: self.lost(),
                from: source.name(),
                before_rows: digest.rows,
                now_rows: read.digest.rows,
            });
        }
        let (host, system, lost) = (Arc::clone(&self.host), Arc::clone(system), self.lost());
        on_thread(move |cancel| put_again((host.as_ref(), &system), &read, lost, cancel)).await
    }

    /// What is told of a host that is gone.
    fn lost(&self) -> Box<RemoteError> {
        let (region, reason) = match &*self.state.lock() {
            State::Lost { region, reason } => (*region, reason.clone()),
            State::Whole(_) => (None, String::new()),
        };
        Box::new(RemoteError::Lost {
            host: self.host().to_owned(),
            region,
            reason,
        })
    }

    /// What is told of an error that came when `columns` were fetched. Where it says that the host is lost, so is the
    /// table, until it is rebuilt.
    pub(super) fn failed(
        &self,
        columns: &Arc<Columns>,
        error: RemoteTableError,
    ) -> RemoteTableError {
        let RemoteTableError::Host(lost) = error else {
            return error;
        };
        let RemoteError::Lost { region, reason, .. } = &lost else {
            return lost.into();
        };
        let mut state = self.state.lock();
        if matches!(&*state, State::Whole(whole) if Arc::ptr_eq(whole, columns)) {
            *state = State::Lost {
                region: *region,
                reason: reason.clone(),
            };
        }
        drop(state);
        let lost = Box::new(lost);
        match &self.kept {
            None => RemoteTableError::NoCopy { lost },
            Some(Kept { source, .. }) => RemoteTableError::Lost {
                lost,
                from: source.name(),
            },
        }
    }
}

/// Puts rows on the host again, or near where it does not take them.
fn put_again(
    (host, system): (&dyn ColumnHost, &Arc<MemorySystem>),
    read: &SourceRows,
    lost: Box<RemoteError>,
    cancel: &CopyCancel,
) -> Result<(Arc<Columns>, Rebuilt), RemoteTableError> {
    let bytes: usize = read.columns.iter().map(|column| column.bytes.len()).sum();
    let rows = read.rows();
    let again = host
        .reconnect()
        .and_then(|()| Columns::put_all(host, (rows, &read.columns), cancel));
    let again = match again {
        Ok(columns) => {
            tracing::info!(
                host = host.name(),
                rows,
                "a table was put on its host again"
            );
            let rebuilt = Rebuilt {
                host_bytes: bytes as u64,
                ..Rebuilt::default()
            };
            return Ok((columns, rebuilt));
        }
        Err(error) => error,
    };
    if cancel.is_cancelled() {
        return Err(again.into());
    }
    match Columns::near(system, rows, &read.columns) {
        Ok(columns) => {
            tracing::info!(host = host.name(), error = %again, rows, "a table was rebuilt near");
            let rebuilt = Rebuilt {
                near_bytes: bytes as u64,
                ..Rebuilt::default()
            };
            Ok((columns, rebuilt))
        }
        Err(near) => Err(RemoteTableError::NoRoom {
            lost,
            again: Box::new(again),
            near: Box::new(near),
        }),
    }
}

/// Runs what waits for a host, apart from the threads that run queries, and cancels it when nobody waits for it any
/// more.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce(&CopyCancel) -> Result<T, RemoteTableError> + Send + 'static,
) -> Result<T, RemoteTableError> {
    let cancel = CopyCancel::default();
    let _given_up = Cancels(cancel.clone());
    match spawn_blocking(move || work(&cancel)).await {
        Ok(done) => done,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(CopyError::Cancelled.into()),
    }
}

/// Cancels when it is dropped.
struct Cancels(CopyCancel);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
