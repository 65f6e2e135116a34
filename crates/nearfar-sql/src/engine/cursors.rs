//! The cursors of a session: queries whose rows are fetched in portions.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::RecordBatchStream;
use futures::{Stream, StreamExt, ready};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::stream::RowStream;
use crate::error::EngineError;
use crate::memory::Charge;
use crate::sql::{FetchedRows, SqlError};

/// The cursors of one session.
#[derive(Default)]
pub(super) struct Cursors(Mutex<State>);

#[derive(Default)]
struct State {
    cursors: BTreeMap<String, Cursor>,
    /// The savepoints of the open transaction, each with the number of the last cursor before it.
    savepoints: Vec<(String, u64)>,
    /// The number of the last cursor.
    last: u64,
}

struct Cursor {
    number: u64,
    /// Whether it outlives its transaction.
    is_held: bool,
    /// Whether its transaction has committed.
    is_kept: bool,
    rows: Arc<Mutex<CursorRows>>,
    schema: SchemaRef,
    /// What it takes while it is kept.
    charges: Vec<Charge>,
}

/// What is left of a cursor's rows.
struct CursorRows {
    source: Source,
    /// What was read and not fetched.
    rest: VecDeque<RecordBatch>,
    /// How many rows were fetched or passed over.
    position: u64,
    is_over: bool,
}

enum Source {
    /// The query, which runs.
    Query(Box<RowStream>),
    /// Nothing but what was read.
    Read,
}

impl CursorRows {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch, EngineError>>> {
        if let Some(batch) = self.rest.pop_front() {
            return Poll::Ready(Some(Ok(batch)));
        }
        match &mut self.source {
            Source::Query(rows) => rows.poll_next_unpin(cx),
            Source::Read => Poll::Ready(None),
        }
    }

    /// The next rows, `count` at most; none at the end.
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        count: u64,
    ) -> Poll<Option<Result<RecordBatch, EngineError>>> {
        loop {
            let batch = match ready!(self.poll_batch(cx)) {
                Some(Ok(batch)) if batch.num_rows() == 0 => continue,
                Some(Ok(batch)) => batch,
                end => {
                    self.is_over = true;
                    return Poll::Ready(end);
                }
            };
            let wanted = usize::try_from(count).unwrap_or(usize::MAX);
            let taken = wanted.min(batch.num_rows());
            if taken < batch.num_rows() {
                let rest = batch.slice(taken, batch.num_rows() - taken);
                self.rest.push_front(rest);
            }
            self.position += taken as u64;
            return Poll::Ready(Some(Ok(batch.slice(0, taken))));
        }
    }
}

/// Rows of a cursor on their way to whoever fetches them.
pub(super) struct Portion {
    rows: Arc<Mutex<CursorRows>>,
    schema: SchemaRef,
    /// How many are passed over first.
    skip: u64,
    /// How many are given.
    left: u64,
}

impl Stream for Portion {
    type Item = Result<RecordBatch, DataFusionError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let rows = Arc::clone(&self.rows);
        let mut rows = rows.lock();
        while self.skip > 0 {
            match ready!(rows.poll_rows(cx, self.skip)) {
                Some(Ok(batch)) => self.skip -= batch.num_rows() as u64,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let next = ready!(rows.poll_rows(cx, self.left));
        Poll::Ready(next.map(|batch| {
            let batch = batch?;
            self.left -= batch.num_rows() as u64;
            Ok(batch)
        }))
    }
}

impl RecordBatchStream for Portion {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Cursors {
    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.lock().cursors.contains_key(name)
    }

    /// Enters a cursor that gives the rows of a query.
    pub fn add(&self, name: &str, rows: RowStream, is_held: bool, charge: Charge) {
        let mut state = self.0.lock();
        state.last += 1;
        let cursor = Cursor {
            number: state.last,
            is_held,
            is_kept: false,
            schema: Arc::clone(rows.schema()),
            rows: Arc::new(Mutex::new(CursorRows {
                source: Source::Query(Box::new(rows)),
                rest: VecDeque::new(),
                position: 0,
                is_over: false,
            })),
            charges: vec![charge],
        };
        state.cursors.insert(name.to_owned(), cursor);
    }

    /// The columns of a cursor.
    pub fn schema(&self, name: &str) -> Option<SchemaRef> {
        let state = self.0.lock();
        let cursor = state.cursors.get(name)?;
        Some(Arc::clone(&cursor.schema))
    }

    /// The rows that a statement fetches.
    ///
    /// # Errors
    /// A cursor that there is not; rows before those that were fetched.
    pub fn portion(&self, name: &str, wanted: FetchedRows) -> Result<Portion, SqlError> {
        let state = self.0.lock();
        let cursor = state.cursors.get(name).ok_or_else(|| unknown(name))?;
        let rows = cursor.rows.lock();
        let position = rows.position;
        let (skip, left) = match wanted {
            FetchedRows::All => (0, u64::MAX),
            // The row at which it is, which has gone.
            FetchedRows::Next(0) if position > 0 && !rows.is_over => {
                return Err(SqlError::CursorBackward);
            }
            FetchedRows::Next(count) => (0, count),
            FetchedRows::Relative(count) => (count - 1, 1),
            FetchedRows::Absolute(place) if place > position => (place - position - 1, 1),
            FetchedRows::Absolute(0) if position == 0 => (0, 0),
            FetchedRows::Absolute(_) | FetchedRows::Backward => {
                return Err(SqlError::CursorBackward);
            }
        };
        Ok(Portion {
            rows: Arc::clone(&cursor.rows),
            schema: Arc::clone(&cursor.schema),
            skip,
            left,
        })
    }

    /// Ends a cursor.
    ///
    /// # Errors
    /// One that there is not.
    pub fn close(&self, name: &str) -> Result<(), SqlError> {
        let closed = self.0.lock().cursors.remove(name);
        closed.map(drop).ok_or_else(|| unknown(name))
    }

    /// Ends all of them.
    pub fn close_all(&self) {
        let closed = std::mem::take(&mut self.0.lock().cursors);
        drop(closed);
    }

    /// A savepoint begins.
    pub fn set_savepoint(&self, name: &str) {
        let mut state = self.0.lock();
        let last = state.last;
        state.savepoints.push((name.to_owned(), last));
    }

    /// A savepoint is released.
    pub fn release(&self, savepoint: &str) {
        let mut state = self.0.lock();
        let mut savepoints = state.savepoints.iter();
        if let Some(at) = savepoints.rposition(|(known, _)| known == savepoint) {
            state.savepoints.truncate(at);
        }
    }

    /// What came behind a savepoint is undone.
    pub fn roll_back_to(&self, savepoint: &str) {
        let mut state = self.0.lock();
        let mut savepoints = state.savepoints.iter();
        let Some(at) = savepoints.rposition(|(known, _)| known == savepoint) else {
            return;
        };
        let last = state.savepoints[at].1;
        state.savepoints.truncate(at + 1);
        state
            .cursors
            .retain(|_, cursor| cursor.is_kept || cursor.number <= last);
    }

    /// A transaction ends: cursors end with it, but for those that outlive a commit.
    pub fn end(&self, is_committed: bool) {
        let mut state = self.0.lock();
        state.savepoints.clear();
        state.cursors.retain(|_, cursor| {
            cursor.is_kept |= cursor.is_held && is_committed;
            cursor.is_kept
        });
    }

    /// Whether a commit has to read the rows of some first.
    pub fn has_to_hold(&self) -> bool {
        let state = self.0.lock();
        let mut cursors = state.cursors.values();
        cursors.any(|cursor| cursor.is_held && !cursor.is_kept)
    }

    /// Reads the rows of those that outlive the transaction, and has `charge` take the memory for them.
    ///
    /// # Errors
    /// What ends a query; no memory.
    pub async fn hold(
        &self,
        charge: impl Fn(u64) -> Result<Charge, EngineError>,
    ) -> Result<(), EngineError> {
        let held: Vec<(String, Arc<Mutex<CursorRows>>)> = {
            let state = self.0.lock();
            let all = state.cursors.iter();
            let held = all.filter(|(_, cursor)| cursor.is_held && !cursor.is_kept);
            held.map(|(name, cursor)| (name.clone(), Arc::clone(&cursor.rows)))
                .collect()
        };
        for (name, rows) in held {
            let source = std::mem::replace(&mut rows.lock().source, Source::Read);
            let Source::Query(mut query) = source else {
                continue;
            };
            let mut charges = Vec::new();
            while let Some(batch) = query.next().await {
                let batch = batch?;
                charges.push(charge(batch.get_array_memory_size() as u64)?);
                rows.lock().rest.push_back(batch);
            }
            if let Some(cursor) = self.0.lock().cursors.get_mut(&name) {
                cursor.charges.extend(charges);
            }
        }
        Ok(())
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::UnknownCursor {
        name: name.to_owned(),
    }
}
