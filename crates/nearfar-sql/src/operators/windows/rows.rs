//! The rows of one stream with their windows.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::TryStreamExt;
use std::collections::VecDeque;
use std::sync::Arc;

use super::edges::{Runs, row};
use super::functions::{Function, Needed, Number, Windows};
use super::running::running;
use crate::operators::evaluate;

/// Bytes of what a function gives for a row, at most.
const VALUE_BYTES: usize = 16;

/// The rows of a stream, in its order, with what the functions give for them.
pub struct Rows {
    windows: Arc<Windows>,
    needed: Needed,
    schema: SchemaRef,
    /// None at its end.
    input: Option<SendableRecordBatchStream>,
    /// The values by which partitions, and peers, are told apart, of the last row that came.
    last_keys: Option<[Vec<ArrayRef>; 2]>,
    states: Vec<State>,
    /// Rows whose windows are not complete.
    waiting: Vec<Piece>,
    /// Rows whose windows are.
    ready: VecDeque<Piece>,
    counter: RecordBatchMemoryCounter,
    /// For the pieces that are waiting or ready, all but the first one.
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

/// Rows that came together, with their windows as far as these are known.
struct Piece {
    batch: RecordBatch,
    partitions: Runs,
    /// Where a function depends on them.
    peers: Option<Runs>,
    columns: Vec<Column>,
}

/// What a function gives for the rows of a piece.
enum Column {
    Known(ArrayRef),
    /// What it gives for each partition, once these are complete; the first one of the piece is the one of this number.
    OfPartitions(usize, Option<ArrayRef>),
    /// What it gives for each row. It counts for those that are the last ones of their peers.
    OfLastPeers(ArrayRef),
}

/// What a function needs of the rows before.
#[derive(Default)]
struct State {
    counted: Counted,
    /// The result of an aggregate over its window, of the last row.
    value: Option<ArrayRef>,
    /// An aggregate over the partitions of all pieces that are waiting, and how many these are.
    partitions: Option<(Box<dyn GroupsAccumulator>, usize)>,
}

/// The numbers of a row in its partition.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    row: u64,
    rank: u64,
    dense_rank: u64,
}

impl Rows {
    /// The rows of `input`, with the columns of `schema`.
    pub fn new(
        windows: Arc<Windows>,
        schema: SchemaRef,
        input: SendableRecordBatchStream,
        memory: MemoryReservation,
        metrics: BaselineMetrics,
    ) -> Self {
        let states = windows.functions.iter().map(|_| State::default());
        Self {
            needed: windows.needed(),
            states: states.collect(),
            windows,
            schema,
            input: Some(input),
            last_keys: None,
            waiting: Vec::new(),
            ready: VecDeque::new(),
            counter: RecordBatchMemoryCounter::new(),
            memory,
            metrics,
        }
    }

    /// The next rows.
    ///
    /// # Errors
    /// Those of the input and of functions, and too little memory for the rows of a partition.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let time = self.metrics.elapsed_compute().clone();
            if let Some(piece) = self.ready.pop_front() {
                let _timer = time.timer();
                if self.ready.is_empty() {
                    // Of those that are waiting, there is one at most.
                    self.memory.free();
                    self.counter = RecordBatchMemoryCounter::new();
                }
                let batch = piece.finished(&self.schema)?;
                return Ok(Some(batch.record_output(&self.metrics)));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let batch = input.try_next().await?;
            let _timer = time.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.add(batch)?,
                None => {
                    self.input = None;
                    self.complete()?;
                }
            }
        }
    }

    /// Takes rows in that are not empty.
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let mut keys = evaluate(&self.windows.partition_by, &batch)?;
        let [of_partition, of_peers] = match &self.last_keys {
            Some([of_partition, of_peers]) => [Some(&of_partition[..]), Some(&of_peers[..])],
            None => [None, None],
        };
        let partitions = Runs::of(&keys, rows, of_partition)?;
        let last_partition = row(&keys, rows - 1)?;
        let mut peers = None;
        if self.windows.needs_peers() {
            keys.extend(evaluate(&self.windows.order_by, &batch)?);
            peers = Some(Runs::of(&keys, rows, of_peers)?);
        }
        let complete = match self.needed {
            Needed::Nothing => Some(rows),
            Needed::Peers => peers.as_ref().unwrap_or(&partitions).last_start(),
            Needed::Partitions => partitions.last_start(),
        };
        self.last_keys = Some([last_partition, row(&keys, rows - 1)?]);
        let Some(complete) = complete else {
            return self.push(batch, partitions, peers);
        };
        let (partitions, partitions_behind) = partitions.split(complete);
        let (peers, peers_behind) = peers.map(|peers| peers.split(complete)).unzip();
        if complete > 0 {
            self.push(batch.slice(0, complete), partitions, peers)?;
        }
        self.complete()?;
        match complete < rows {
            true => {
                let behind = batch.slice(complete, rows - complete);
                self.push(behind, partitions_behind, peers_behind)
            }
            false => Ok(()),
        }
    }

    /// Has rows wait until their windows are complete.
    fn push(&mut self, batch: RecordBatch, partitions: Runs, peers: Option<Runs>) -> Result<()> {
        if !(self.waiting.is_empty() && self.ready.is_empty()) {
            let values = batch.num_rows() * self.states.len() * VALUE_BYTES;
            let bytes = self.counter.count_batch(&batch) + values;
            self.memory.try_grow(bytes)?;
        }
        let mut piece = Piece {
            batch,
            partitions,
            peers,
            columns: Vec::with_capacity(self.states.len()),
        };
        for (function, state) in self.windows.functions.iter().zip(&mut self.states) {
            let column = piece.column(function, state)?;
            piece.columns.push(column);
        }
        self.waiting.push(piece);
        Ok(())
    }

    /// Gives the rows on that are waiting: their windows are complete.
    fn complete(&mut self) -> Result<()> {
        for (at, state) in self.states.iter_mut().enumerate() {
            if let Some((mut accumulator, _)) = state.partitions.take() {
                let values = accumulator.evaluate(EmitTo::All)?;
                for piece in &mut self.waiting {
                    if let Column::OfPartitions(_, of_all) = &mut piece.columns[at] {
                        *of_all = Some(Arc::clone(&values));
                    }
                }
            }
            let mut behind = None;
            for piece in self.waiting.iter_mut().rev() {
                let values = match &piece.columns[at] {
                    Column::OfLastPeers(values) => piece.of_last_peers(values, behind.take())?,
                    Column::Known(_) | Column::OfPartitions(..) => break,
                };
                let goes_on = piece.peers().goes_on;
                behind = goes_on.then(|| values.slice(0, 1));
                piece.columns[at] = Column::Known(values);
            }
        }
        self.ready.extend(self.waiting.drain(..));
        Ok(())
    }
}

impl Piece {
    /// What a function gives for each row; `state` becomes what it is behind the last one.
    fn column(&self, function: &Function, state: &mut State) -> Result<Column> {
        Ok(match function {
            Function::Number(number) => {
                Column::Known(Arc::new(self.numbers(*number, &mut state.counted)))
            }
            Function::Whole(aggregate) => {
                Column::OfPartitions(self.add_to_partitions(aggregate, state)?, None)
            }
            Function::Running(aggregate, combine) | Function::RunningPeers(aggregate, combine) => {
                let alone = self.of_rows_alone(aggregate)?;
                let values = running(&alone, &self.partitions, state.value.as_ref(), *combine)?;
                let last = row(&[Arc::clone(&values)], values.len() - 1)?;
                state.value = last.into_iter().next();
                match function {
                    Function::RunningPeers(..) => Column::OfLastPeers(values),
                    _ => Column::Known(values),
                }
            }
        })
    }

    /// Rows of the same partition are peers where nobody asks.
    fn peers(&self) -> &Runs {
        self.peers.as_ref().unwrap_or(&self.partitions)
    }

    /// The results of an aggregate over single rows.
    fn of_rows_alone(&self, aggregate: &AggregateFunctionExpr) -> Result<ArrayRef> {
        let rows = self.batch.num_rows();
        let values = evaluate(&aggregate.expressions(), &self.batch)?;
        let groups: Vec<usize> = (0..rows).collect();
        let mut accumulator = aggregate.create_groups_accumulator()?;
        accumulator.update_batch(&values, &groups, None, rows)?;
        accumulator.evaluate(EmitTo::All)
    }

    /// Adds the rows to what is known of the partitions of all pieces that are waiting, and gives the number of the first
    /// partition that has some of them.
    fn add_to_partitions(
        &self,
        aggregate: &AggregateFunctionExpr,
        state: &mut State,
    ) -> Result<usize> {
        let (mut accumulator, known) = match state.partitions.take() {
            Some(partitions) => partitions,
            None => (aggregate.create_groups_accumulator()?, 0),
        };
        let first = known.saturating_sub(usize::from(self.partitions.goes_on));
        let values = evaluate(&aggregate.expressions(), &self.batch)?;
        let groups = of_rows(&self.partitions, |at, _| first + at);
        let count = first + self.partitions.ranges.len();
        accumulator.update_batch(&values, &groups, None, count)?;
        state.partitions = Some((accumulator, count));
        Ok(first)
    }

    /// For each row, what `values` are for the last one of its peers; `behind` is that for those that go on behind these rows.
    fn of_last_peers(&self, values: &ArrayRef, behind: Option<ArrayRef>) -> Result<ArrayRef> {
        let rows = values.len();
        let is_open = behind.is_some();
        let ends = of_rows(self.peers(), |_, end| match is_open && end == rows {
            true => end as u32,
            false => end as u32 - 1,
        });
        let ends = UInt32Array::from(ends);
        Ok(match behind {
            Some(behind) => take(&concat(&[values.as_ref(), &behind])?, &ends, None)?,
            None => take(values, &ends, None)?,
        })
    }

    fn numbers(&self, number: Number, last: &mut Counted) -> UInt64Array {
        let mut counted = match self.partitions.goes_on {
            true => *last,
            false => Counted::default(),
        };
        let peers = self.peers();
        let mut partitions = self.partitions.ranges.iter().map(|range| range.start);
        let mut next_partition = partitions.nth(1);
        let mut numbers = Vec::with_capacity(self.batch.num_rows());
        for (at, range) in peers.ranges.iter().enumerate() {
            if next_partition == Some(range.start) {
                counted = Counted::default();
                next_partition = partitions.next();
            }
            if at > 0 || !peers.goes_on {
                counted.rank = counted.row + 1;
                counted.dense_rank += 1;
            }
            let rows = range.len() as u64;
            match number {
                Number::Row => numbers.extend(counted.row + 1..=counted.row + rows),
                Number::Rank => numbers.extend(range.clone().map(|_| counted.rank)),
                Number::DenseRank => numbers.extend(range.clone().map(|_| counted.dense_rank)),
            }
            counted.row += rows;
        }
        *last = counted;
        UInt64Array::from(numbers)
    }

    /// The rows with what is known of their windows.
    fn finished(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = self.batch.columns().to_vec();
        for column in &self.columns {
            columns.push(match column {
                Column::Known(values) => Arc::clone(values),
                Column::OfPartitions(first, Some(values)) => {
                    let places = of_rows(&self.partitions, |at, _| (first + at) as u64);
                    take(values, &UInt64Array::from(places), None)?
                }
                Column::OfPartitions(_, None) | Column::OfLastPeers(_) => {
                    return internal_err!("a window is given before it is complete");
                }
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}

/// For each row, a value of the number and the end of its run.
fn of_rows<T: Copy>(runs: &Runs, value: impl Fn(usize, usize) -> T) -> Vec<T> {
    let runs = runs.ranges.iter().enumerate();
    let values = runs.flat_map(|(at, range)| {
        let value = value(at, range.end);
        range.clone().map(move |_| value)
    });
    values.collect()
}
