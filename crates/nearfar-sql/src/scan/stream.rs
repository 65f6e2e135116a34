//! One partition of a scan, batch by batch.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::RecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use nearfar_memory::TierBytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::ahead::{Arrived, CopyEngine, Next, ReadAhead};
use super::by_index::{NamedValues, found_rows};
use super::charge::PartitionCosts;
use super::cooperative::{CooperativeReader, CooperativeScans, Density, NearColumns, Opening};
use super::filter::Filter;
use super::partitions::{Piece, pieces_at};
use super::rows::{ActiveFilter, BoundSegment, Selected};
use super::steps::Steps;
use crate::error::EngineError;
use nearfar_table::segment::{RowSet, ZONE_ROWS};
use nearfar_table::table::{Snapshot, Table};
use nearfar_table::traffic::Turn;
use nearfar_table::transaction::Transaction;

/// Steps in one poll when none yields rows, so that a query can be cancelled.
const STEPS_PER_POLL: usize = 64;

/// After so long a scan lets other tasks of its thread run first, and before it begins. A task that this one wakes, such as
/// that of another partition when both waited for the same side of a join, is kept for this thread, and no idle one takes
/// it: without that, partitions of a query run one after the other.
const PAUSE_EVERY: Duration = Duration::from_millis(2);

/// Shorter runs of rows are put together with others.
const RUN_ROWS_MIN: usize = 64;

/// A filter that changes while the query runs, and the filters it last stood for.
pub struct DynamicFilter {
    expr: Arc<dyn PhysicalExpr>,
    seen: Option<Arc<dyn PhysicalExpr>>,
}

impl DynamicFilter {
    pub fn new(expr: Arc<dyn PhysicalExpr>) -> Self {
        Self { expr, seen: None }
    }

    /// What the filter stands for now, if that has changed.
    fn changed(&mut self) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(dynamic) = self.expr.downcast_ref::<DynamicFilterPhysicalExpr>() else {
            return Ok(None);
        };
        let current = dynamic.current()?;
        let same = self
            .seen
            .as_ref()
            .is_some_and(|seen| Arc::ptr_eq(seen, &current));
        if same {
            return Ok(None);
        }
        self.seen = Some(Arc::clone(&current));
        Ok(Some(current))
    }
}

/// How a scan of all rows can look up those that a dynamic filter asks for.
pub struct Lookup {
    pub transaction: Arc<Transaction>,
    pub table: Arc<Table>,
    /// Rows that were looked up.
    pub rows: Count,
}

/// What is made of the rows of a partition where they lie, in the place of batches of them.
pub trait RowConsumer: Send {
    /// The columns of what it gives.
    fn schema(&self) -> SchemaRef;

    /// Columns of the table whose values it reads.
    fn columns(&self) -> Vec<usize>;

    /// Takes rows. Gives what it has made of rows so far, if it does not wait for more.
    ///
    /// # Errors
    /// Rows that can't be read, and what is made of them.
    fn consume(
        &mut self,
        rows: RowSet<'_>,
        bound: &mut BoundSegment,
        costs: &mut PartitionCosts,
    ) -> Result<Option<RecordBatch>, EngineError>;

    /// Gives the rest, when there are no more rows.
    ///
    /// # Errors
    /// What is made of them.
    fn finish(&mut self) -> Result<Option<RecordBatch>, EngineError>;
}

/// What one partition reads and how.
pub struct PartitionScan {
    /// None where there is no index, or no filter that is not known yet.
    pub lookup: Option<Lookup>,
    /// The scans that it joins, if it does.
    pub cooperative: Option<Arc<CooperativeScans>>,
    /// What brings near what it reads, if something does.
    pub engine: Option<CopyEngine>,
    /// The number that all partitions of the scan have, and no other scan.
    pub scan_id: usize,
    /// Whether nobody relies on the order of its rows.
    pub in_any_order: bool,
    /// Whether more than half of the rows are expected to pass.
    pub passes_most: bool,
    pub snapshot: Snapshot,
    pub pieces: VecDeque<Piece>,
    pub table_schema: SchemaRef,
    pub schema: SchemaRef,
    pub projection: Vec<usize>,
    pub filters: Vec<Filter>,
    /// What follows from them for single columns.
    pub implied: Vec<Filter>,
    pub dynamic: Vec<DynamicFilter>,
    pub fetch: Option<usize>,
    /// Who takes the rows, if not the one who polls.
    pub consumer: Option<Box<dyn RowConsumer>>,
    pub costs: PartitionCosts,
    pub metrics: BaselineMetrics,
}

/// The stream of a [`PartitionScan`].
pub struct ScanStream {
    scan: PartitionScan,
    active: Vec<ActiveFilter>,
    static_filters: usize,
    rows_of_scan: usize,
    open: Option<OpenPiece>,
    /// Rows of the open piece that passed and wait for a full batch.
    pending: Vec<u32>,
    rows_left: usize,
    steps: Steps,
    /// Its place among the scans that it has joined.
    reader: Option<CooperativeReader>,
    /// What is brought near ahead of it.
    ahead: Option<ReadAhead>,
    /// Its turn where traffic is limited, or the end of a copy that it needs.
    turn: Option<BoxFuture<'static, ()>>,
    pauses: Pauses,
}

/// When a scan lets other tasks run.
#[derive(Debug, Default)]
struct Pauses {
    last: Option<Instant>,
}

impl Pauses {
    /// Whether one is due, which it is at first. The caller makes it then.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_recent = |last: Instant| now.duration_since(last) < PAUSE_EVERY;
        let is_due = !self.last.is_some_and(is_recent);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

struct OpenPiece {
    bound: BoundSegment,
    piece: Piece,
    /// Rows of this piece and of those before that were read with it.
    rows: usize,
    /// The first row that was not looked at yet.
    next: usize,
}

impl OpenPiece {
    /// Rows of one zone that come next, `rows_max` of them at most.
    fn next_rows(&mut self, rows_max: usize) -> Range<usize> {
        let zone_end = (self.next / ZONE_ROWS + 1) * ZONE_ROWS;
        let end = zone_end.min(self.piece.rows.end).min(self.next + rows_max);
        let start = std::mem::replace(&mut self.next, end);
        start..end
    }
}

/// What one step brought.
enum Step {
    Batch(RecordBatch),
    Nothing,
    Done,
}

impl ScanStream {
    pub fn new(mut scan: PartitionScan) -> Self {
        let filters = std::mem::take(&mut scan.filters);
        let is_costly = filters.iter().any(Filter::is_costly);
        let active = filters
            .into_iter()
            .map(|filter| ActiveFilter::new(filter, false));
        let implied = std::mem::take(&mut scan.implied).into_iter();
        let active = active.chain(implied.map(ActiveFilter::implied));
        let active: Vec<ActiveFilter> = active.collect();
        let static_filters = active.len();
        let turn = scan.costs.begin(|| first_tiers(&scan, &active));
        Self {
            active,
            static_filters,
            turn: turn.map(waited_for),
            rows_of_scan: scan.pieces.iter().map(|piece| piece.rows.len()).sum(),
            open: None,
            pending: Vec::new(),
            rows_left: scan.fetch.unwrap_or(usize::MAX),
            steps: Steps::new(is_costly),
            reader: None,
            ahead: None,
            pauses: Pauses::default(),
            scan,
        }
    }

    /// Puts what the dynamic filters stand for now behind the static ones, and says whether
    /// segments have to be bound again.
    fn refresh_filters(&mut self) -> Result<bool, EngineError> {
        let mut changed = false;
        for dynamic in &mut self.scan.dynamic {
            changed |= dynamic.changed()?.is_some();
        }
        if changed {
            self.active.truncate(self.static_filters);
            for expr in self.scan.dynamic.iter().filter_map(|d| d.seen.as_ref()) {
                let filters = Filter::conjuncts(expr, &self.scan.table_schema)?.into_iter();
                // Who gave the filter looks at each row all the same: what takes long is done once.
                let cheap = filters.filter(|filter| !filter.is_costly());
                self.active
                    .extend(cheap.map(|filter| ActiveFilter::new(filter, true)));
            }
        }
        for active in &mut self.active {
            changed |= active.try_domain(
                self.scan.snapshot.summary(),
                &self.scan.table_schema,
                self.rows_of_scan,
            );
        }
        Ok(changed)
    }

    /// Reads no other rows than those that an index leads to, where the filters that there are when the scan begins have a
    /// list of few keys: that of a join whose other side is small.
    fn look_up(&mut self, lookup: &Lookup) -> Result<(), EngineError> {
        let fixed = self.active[..self.static_filters].iter();
        // What follows from others may name fewer values, of a column that no index has.
        let given = fixed.filter(|active| !active.is_implied());
        let fixed = given.map(|active| active.filter.expr());
        // Those too that take long to evaluate: looking rows up does not.
        let seen = self
            .scan
            .dynamic
            .iter()
            .filter_map(|dynamic| dynamic.seen.as_ref());
        let filters = fixed.chain(seen);
        let named = NamedValues::of(filters, &self.scan.table_schema);
        if !named.has_list() {
            return Ok(());
        }
        let (transaction, table) = (&lookup.transaction, &lookup.table);
        let found = found_rows(transaction, table, &self.scan.snapshot, &named)?;
        let Some(mut found) = found else {
            return Ok(());
        };
        let pieces = &self.scan.pieces;
        found.places.retain(|(part, row)| {
            let mut own = pieces.iter().filter(|piece| piece.part == *part);
            own.any(|piece| piece.rows.contains(row))
        });
        lookup.rows.add(found.places.len());
        self.rows_of_scan = found.places.len();
        self.scan.engine = None;
        self.scan.pieces = pieces_at(&found.places).into();
        Ok(())
    }

    fn step(&mut self) -> Result<Step, EngineError> {
        if self.rows_left == 0 {
            return Ok(Step::Done);
        }
        let changed = self.refresh_filters()?;
        if let Some(lookup) = self.scan.lookup.take() {
            self.look_up(&lookup)?;
        }
        if let Some(scans) = self.scan.cooperative.take() {
            self.reader = self.join(&scans);
        }
        if let Some(engine) = self.scan.engine.take() {
            let all = (&self.scan.snapshot, &self.scan.pieces);
            let reads_all = self.active.is_empty() && self.scan.dynamic.is_empty();
            self.ahead = ReadAhead::new(engine, all, (self.density(), reads_all));
        }
        let open = match self.open.take() {
            Some(open) => Some(open),
            None => self.open_next()?,
        };
        let Some(mut open) = open else {
            let waits = self.turn.is_some();
            return Ok(if waits { Step::Nothing } else { Step::Done });
        };
        if changed {
            open.bound = open.bound.rebound(&self.active)?;
        }
        if open.next >= open.piece.rows.end && !self.goes_on(&mut open) {
            return self.close(open);
        }
        let began = Instant::now();
        if let Some(step) = self.go_ahead(&mut open)? {
            self.steps.worked(began);
            self.open = Some(open);
            return Ok(step);
        }
        if let Some(reader) = &mut self.reader {
            reader.reads_now(began);
        }
        let rows = open.next_rows(self.steps.rows(open.bound.step_rows()));
        let schema = Arc::clone(&self.scan.table_schema);
        let selected = open.bound.select(
            rows.start / ZONE_ROWS,
            &rows,
            &mut self.active,
            &schema,
            &mut self.scan.costs,
        )?;
        self.steps.done(rows.len(), began);
        let step = self.take(selected, &mut open.bound)?;
        self.open = Some(open);
        Ok(step)
    }

    /// Has `open` go on with the next piece, if that is of the same part: pieces of rows that are looked up are short, and
    /// give one batch together.
    fn goes_on(&mut self, open: &mut OpenPiece) -> bool {
        let part = open.piece.part;
        let next = self.scan.pieces.pop_front_if(|next| next.part == part);
        let Some(piece) = next else {
            return false;
        };
        open.next = piece.rows.start;
        open.rows += piece.rows.len();
        open.piece = piece;
        true
    }

    /// Goes on to the rows that were brought near ahead, if `open` is at the first of them. What comes before: rows that are
    /// still to be handed on, or a wait.
    fn go_ahead(&mut self, open: &mut OpenPiece) -> Result<Option<Step>, EngineError> {
        let (part, next) = (open.piece.part, open.next);
        let Some(ahead) = &mut self.ahead else {
            return Ok(None);
        };
        if ahead.leaves(part, next) {
            // They are in what was brought near before.
            if !self.pending.is_empty() {
                return self.flush(&mut open.bound).map(Some);
            }
            let rest = Piece {
                part,
                rows: next..open.piece.rows.end,
            };
            let (bound, reader) = (&open.bound, self.reader.as_ref());
            let is_shared = |part: usize| reader.is_some_and(|reader| reader.is_shared(part));
            let next = Next {
                is_shared: &is_shared,
                rest: &rest,
                pieces: &self.scan.pieces,
                near: bound.near(),
                read: (open.rows - rest.rows.len(), bound.rows_read()),
                may_pass: &|zone| bound.may_pass(zone),
            };
            ahead.enter(next, &mut self.scan.costs);
        }
        match ahead.arrived(&self.scan.costs) {
            None => Ok(None),
            Some(Arrived::Now(columns)) => {
                open.bound.go_ahead(columns, &self.active);
                Ok(None)
            }
            Some(Arrived::When(there)) => {
                self.turn = Some(there);
                Ok(Some(Step::Nothing))
            }
        }
    }

    /// What is expected of the columns that it reads.
    fn density(&self) -> Density {
        let columns = self.scan.table_schema.fields().len();
        let mut expected = vec![false; columns];
        let filters = self.active[..self.static_filters].iter();
        let filtered = filters.flat_map(|active| active.filter.columns());
        let projected = self.scan.projection.iter();
        let projected = projected.filter(|_| self.scan.passes_most);
        filtered
            .chain(projected)
            .for_each(|column| expected[*column] = true);
        Density::new(expected)
    }

    /// A place among the scans that read far data now.
    fn join(&self, scans: &Arc<CooperativeScans>) -> Option<CooperativeReader> {
        let all = (&self.scan.snapshot, &self.scan.pieces);
        scans.join(self.scan.scan_id, all, self.density())
    }

    /// The next piece. None where there is none, or another scan's copy is to be waited for.
    fn open_next(&mut self) -> Result<Option<OpenPiece>, EngineError> {
        let pieces = &mut self.scan.pieces;
        let at = match &self.reader {
            Some(reader) if self.scan.in_any_order => reader.best_next(pieces),
            _ => 0,
        };
        let Some(piece) = pieces.get(at) else {
            return Ok(None);
        };
        let reader = self.reader.as_mut();
        let near = match reader.map(|reader| reader.open(piece.part, &mut self.scan.costs)) {
            None => NearColumns::default(),
            Some(Opening::Near(near)) => near,
            Some(Opening::Waits(ends)) => {
                self.turn = Some(ends.map(drop).boxed());
                return Ok(None);
            }
        };
        let piece = piece.clone();
        pieces.remove(at);
        let part = self.scan.snapshot.parts()[piece.part].clone();
        Ok(Some(OpenPiece {
            bound: BoundSegment::new(part, near, &self.active)?,
            next: piece.rows.start,
            rows: piece.rows.len(),
            piece,
        }))
    }

    /// Hands on what is left of a piece that was read.
    fn close(&mut self, mut open: OpenPiece) -> Result<Step, EngineError> {
        let step = self.flush(&mut open.bound)?;
        if let Some(reader) = &mut self.reader {
            reader.has_read(open.rows, open.bound.rows_read());
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.has_read(open.rows, open.bound.rows_read());
        }
        Ok(step)
    }

    /// Hands long runs on immediately; collects other rows until they fill a batch.
    fn take(&mut self, selected: Selected, bound: &mut BoundSegment) -> Result<Step, EngineError> {
        match selected {
            Selected::None => Ok(Step::Nothing),
            Selected::Run(rows) if self.pending.is_empty() && rows.len() >= RUN_ROWS_MIN => {
                let rows = RowSet::Run {
                    start: rows.start,
                    len: rows.len(),
                };
                self.hand_on(rows, bound)
            }
            Selected::Run(rows) => {
                self.pending.extend(rows.map(|row| row as u32));
                self.flush_if_full(bound)
            }
            Selected::Positions(positions) => {
                if self.pending.is_empty() {
                    self.pending = positions;
                } else {
                    self.pending.extend(positions);
                }
                self.flush_if_full(bound)
            }
        }
    }

    fn flush_if_full(&mut self, bound: &mut BoundSegment) -> Result<Step, EngineError> {
        if self.pending.len() >= ZONE_ROWS / 2 {
            self.flush(bound)
        } else {
            Ok(Step::Nothing)
        }
    }

    fn flush(&mut self, bound: &mut BoundSegment) -> Result<Step, EngineError> {
        if self.pending.is_empty() {
            return Ok(Step::Nothing);
        }
        let positions = std::mem::take(&mut self.pending);
        self.hand_on(RowSet::Positions(&positions), bound)
    }

    /// Gives rows to the one who takes them.
    fn hand_on(&mut self, rows: RowSet<'_>, bound: &mut BoundSegment) -> Result<Step, EngineError> {
        let PartitionScan {
            consumer,
            costs,
            metrics,
            ..
        } = &mut self.scan;
        let Some(consumer) = consumer else {
            let batch = self.batch(rows, bound)?;
            self.scan.metrics.record_output(batch.num_rows());
            return Ok(Step::Batch(batch));
        };
        metrics.record_output(rows.len());
        let began = Instant::now();
        let given = consumer.consume(rows, bound, costs)?;
        self.steps.worked(began);
        Ok(given.map_or(Step::Nothing, Step::Batch))
    }

    /// Reads no more.
    fn stop(&mut self) {
        self.open = None;
        self.ahead = None;
        self.reader = None;
    }

    /// What is given when all rows have been handed on.
    fn end(&mut self) -> Option<Result<RecordBatch>> {
        self.stop();
        let mut consumer = self.scan.consumer.take()?;
        let last = consumer.finish().transpose()?;
        Some(last.map_err(Into::into))
    }

    fn batch(
        &mut self,
        rows: RowSet<'_>,
        bound: &mut BoundSegment,
    ) -> Result<RecordBatch, EngineError> {
        let columns = self
            .scan
            .projection
            .iter()
            .map(|column| bound.read(*column, rows, &self.scan.table_schema, &mut self.scan.costs))
            .collect::<Result<Vec<ArrayRef>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::clone(&self.scan.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let kept = batch.num_rows().min(self.rows_left);
        self.rows_left -= kept;
        Ok(if kept < batch.num_rows() {
            batch.slice(0, kept)
        } else {
            batch
        })
    }
}

/// What the first piece of a scan has on each tier of the columns that are read.
fn first_tiers(scan: &PartitionScan, filters: &[ActiveFilter]) -> TierBytes {
    let mut bytes = TierBytes::ZERO;
    let Some(piece) = scan.pieces.front() else {
        return bytes;
    };
    let segment = &scan.snapshot.parts()[piece.part].segment;
    if segment.written().is_some() {
        return bytes;
    }
    let filtered = filters.iter().flat_map(|active| active.filter.columns());
    for column in scan.projection.iter().chain(filtered) {
        // The column behind the last is made of nothing.
        if let Some(slot) = segment.columns().get(*column) {
            bytes += slot.tier_bytes();
        }
    }
    bytes
}

fn waited_for(turn: Turn) -> BoxFuture<'static, ()> {
    turn.wait().boxed()
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(turn) = &mut self.turn {
            ready!(turn.poll_unpin(cx));
            self.turn = None;
        }
        // Few rows are read sooner than another thread takes them.
        if self.rows_of_scan > ZONE_ROWS && self.pauses.is_due(Instant::now()) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let elapsed = self.scan.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        for _ in 0..STEPS_PER_POLL {
            if self.steps.is_over() || self.turn.is_some() {
                break;
            }
            let step = self.step();
            // Who has all of its rows reads no more.
            let turn = self.scan.costs.settle().filter(|_| self.rows_left > 0);
            self.turn = turn.map(waited_for).or(self.turn.take());
            match step {
                Ok(Step::Nothing) => {}
                Ok(Step::Done) => return Poll::Ready(self.end()),
                Ok(Step::Batch(batch)) => return Poll::Ready(Some(Ok(batch))),
                Err(error) => {
                    self.stop();
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        match &self.scan.consumer {
            Some(consumer) => consumer.schema(),
            None => Arc::clone(&self.scan.schema),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_pause_before_they_begin_and_from_time_to_time() {
        let (mut pauses, began) = (Pauses::default(), Instant::now());
        let due = [0, 1, 1, 2, 3, 4, 9, 10].map(|millis| {
            let now = began + Duration::from_millis(millis);
            pauses.is_due(now)
        });
        assert_eq!(due, [true, false, false, true, false, true, true, false]);
    }
}
