//! The side of a join that looks its partners up.

use arrow::array::{
    ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{BatchCoalescer, FilterBuilder, take};
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::StreamExt;
use nearfar_kernels::{JoinKind, JoinTable, Matched, NO_ROW, ProbeCursor, Probing};
use nearfar_model::Native;
use std::sync::Arc;

use super::build::BuildSide;
use super::keys::{Keys, with_values};
use crate::operators::evaluate;

/// Rows of the build side that are looked at in one step when those with or without a partner are given.
const FINAL_ROWS: usize = 64 << 10;

/// What a join gives, and by which columns.
#[derive(Debug)]
pub struct Shape {
    pub join_type: JoinType,
    /// The columns of the key on the probe side.
    pub keys: Vec<PhysicalExprRef>,
    pub filter: Option<JoinFilter>,
    pub schema: SchemaRef,
    /// Where each column of the result comes from.
    pub columns: Vec<ColumnIndex>,
    pub batch_rows: usize,
}

impl Shape {
    /// What is asked of the table.
    fn kind(&self) -> JoinKind {
        match self.join_type {
            JoinType::Right | JoinType::Full => JoinKind::Left,
            JoinType::RightSemi => JoinKind::Semi,
            JoinType::RightAnti => JoinKind::Anti,
            _ => JoinKind::Inner,
        }
    }

    /// Whether pairs of rows are part of the result.
    fn gives_pairs(&self) -> bool {
        !matches!(self.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
    }

    /// Whether there is no result where the build side has no rows.
    pub fn needs_build_rows(&self) -> bool {
        !matches!(
            self.join_type,
            JoinType::Right | JoinType::Full | JoinType::RightAnti
        )
    }

    /// Of which rows of the build side the result has some at its end: of those that found a partner, or of those
    /// that did not.
    fn gives_marked(&self) -> Option<bool> {
        gives_marked(self.join_type)
    }
}

/// As [`Shape::gives_marked`].
pub fn gives_marked(join_type: JoinType) -> Option<bool> {
    match join_type {
        JoinType::LeftSemi => Some(true),
        JoinType::LeftAnti | JoinType::Left | JoinType::Full => Some(false),
        _ => None,
    }
}

/// One stream of a join's rows.
pub struct Prober {
    shape: Arc<Shape>,
    build: Arc<BuildSide>,
    /// None at its end.
    input: Option<SendableRecordBatchStream>,
    current: Option<Current>,
    matched: Matched,
    /// Of the build side, the next row that is given at the end.
    last_rows: Option<usize>,
    ready: BatchCoalescer,
    is_finished: bool,
    metrics: BaselineMetrics,
}

/// Rows of the probe side that are looked up.
struct Current {
    batch: RecordBatch,
    keys: Keys,
    cursor: ProbeCursor,
}

impl Prober {
    /// The rows of `input` that look for partners in `build`.
    pub fn new(
        shape: Arc<Shape>,
        build: Arc<BuildSide>,
        input: SendableRecordBatchStream,
        metrics: BaselineMetrics,
    ) -> Self {
        let ready = BatchCoalescer::new(Arc::clone(&shape.schema), shape.batch_rows)
            .with_biggest_coalesce_batch_size(Some(shape.batch_rows / 2));
        Self {
            shape,
            build,
            input: Some(input),
            current: None,
            matched: Matched::default(),
            last_rows: None,
            ready,
            is_finished: false,
            metrics,
        }
    }

    /// The next rows of the result.
    ///
    /// # Errors
    /// Those of the input, and of conditions.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.next_completed_batch() {
                return Ok(Some(batch.record_output(&self.metrics)));
            }
            if self.current.is_some() {
                self.look_up()?;
                if self.current.is_some() && !self.ready.has_completed_batch() {
                    // Its condition may drop all pairs of rows that have very many.
                    tokio::task::yield_now().await;
                }
            } else if let Some(input) = &mut self.input {
                match input.next().await {
                    Some(batch) => self.begin(batch?)?,
                    None => self.end_input(),
                }
            } else if let Some(first) = self.last_rows {
                self.give_last(first)?;
                tokio::task::yield_now().await;
            } else if self.is_finished {
                return Ok(None);
            } else {
                self.ready.finish_buffered_batch()?;
                self.is_finished = true;
            }
        }
    }

    fn begin(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let _timer = self.metrics.elapsed_compute().timer();
        let columns = evaluate(&self.shape.keys, &batch)?;
        self.current = Some(Current {
            keys: self.build.packing().keys(&columns)?,
            batch,
            cursor: ProbeCursor::default(),
        });
        Ok(())
    }

    fn end_input(&mut self) {
        self.input = None;
        let gives_last = self.shape.gives_marked().is_some();
        if self.build.end_probe() && gives_last {
            self.last_rows = Some(0);
        }
    }

    /// Takes some rows of the probe side on.
    fn look_up(&mut self) -> Result<()> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        self.matched.clear();
        let is_done = probe(
            self.build.table(),
            self.shape.kind(),
            &mut current,
            &mut self.matched,
        )?;
        self.give(&current.batch)?;
        if !is_done {
            self.current = Some(current);
        }
        Ok(())
    }

    /// Adds what was found to the result.
    fn give(&mut self, probed: &RecordBatch) -> Result<()> {
        if let Some(filter) = &self.shape.filter {
            if !self.shape.gives_pairs() {
                // One partner is enough.
                self.build.leave_unmarked(&mut self.matched);
            }
            keep_passing(filter, &self.build, probed, &mut self.matched)?;
        }
        if self.matched.probe_rows.is_empty() {
            return Ok(());
        }
        if self.shape.gives_marked().is_some() {
            self.build.mark(&self.matched.build_rows);
        }
        if !self.shape.gives_pairs() {
            return Ok(());
        }
        let pairs = Pairs::of(&mut self.matched, probed.num_rows());
        let columns = self.shape.columns.iter().map(|column| match column.side {
            JoinSide::Left => pairs.of_build(self.build.batch().column(column.index)),
            _ => pairs.of_probe(probed.column(column.index)),
        });
        let columns = columns.collect::<Result<_>>()?;
        self.push(columns, pairs.len)
    }

    /// Adds rows of the build side that are given at the end.
    fn give_last(&mut self, first: usize) -> Result<()> {
        let next = first + FINAL_ROWS;
        self.last_rows = (next < self.build.batch().num_rows()).then_some(next);
        let Some(is_marked) = self.shape.gives_marked() else {
            return Ok(());
        };
        let rows = self.build.marked(is_marked, first, FINAL_ROWS);
        let columns = self.shape.columns.iter().zip(self.shape.schema.fields());
        let columns = columns.map(|(column, field)| match column.side {
            JoinSide::Left => Ok(take(self.build.batch().column(column.index), &rows, None)?),
            _ => Ok(new_null_array(field.data_type(), rows.len())),
        });
        let columns = columns.collect::<Result<_>>()?;
        self.push(columns, rows.len())
    }

    fn push(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let schema = Arc::clone(&self.shape.schema);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(self.ready.push_batch(batch)?)
    }
}

fn probe(
    table: &JoinTable,
    kind: JoinKind,
    current: &mut Current,
    matched: &mut Matched,
) -> Result<bool> {
    let cursor = &mut current.cursor;
    let keys = &current.keys;
    let probing = Probing::default();
    with_values!(keys, |values, valid| {
        table.probe(kind, probing, values, valid, cursor, matched, &Native)
    })
    .map_err(|error| DataFusionError::External(error.into()))
}

/// Pairs of rows.
struct Pairs {
    /// None where all rows of the probe side are there once, in their order.
    probe_rows: Option<UInt32Array>,
    build_rows: UInt32Array,
    len: usize,
}

impl Pairs {
    /// Takes what was found among so many rows.
    fn of(matched: &mut Matched, rows: usize) -> Self {
        let len = matched.probe_rows.len();
        let found = &matched.probe_rows;
        let is_all = len == rows
            && found
                .iter()
                .enumerate()
                .all(|(at, row)| at == *row as usize);
        let owned = |rows: &mut Vec<u32>| ScalarBuffer::from(std::mem::take(rows));
        let nulls = matched.build_rows.contains(&NO_ROW).then(|| {
            let found = matched.build_rows.iter().map(|row| *row != NO_ROW);
            found.collect::<NullBuffer>()
        });
        let build_rows = UInt32Array::new(owned(&mut matched.build_rows), nulls);
        let probe_rows = UInt32Array::new(owned(&mut matched.probe_rows), None);
        Self {
            probe_rows: (!is_all).then_some(probe_rows),
            build_rows,
            len,
        }
    }

    fn of_probe(&self, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match &self.probe_rows {
            Some(rows) => take(column, rows, None)?,
            None => Arc::clone(column),
        })
    }

    fn of_build(&self, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(take(column, &self.build_rows, None)?)
    }
}

/// Leaves the pairs for which the condition of the join holds.
fn keep_passing(
    filter: &JoinFilter,
    build: &BuildSide,
    probed: &RecordBatch,
    matched: &mut Matched,
) -> Result<()> {
    let len = matched.probe_rows.len();
    if len == 0 {
        return Ok(());
    }
    let array = |rows: &mut Vec<u32>| UInt32Array::from(std::mem::take(rows));
    let build_rows = array(&mut matched.build_rows);
    let probe_rows = array(&mut matched.probe_rows);
    let columns = filter.column_indices().iter().map(|column| {
        Ok(match column.side {
            JoinSide::Left => take(build.batch().column(column.index), &build_rows, None)?,
            _ => take(probed.column(column.index), &probe_rows, None)?,
        })
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    let pairs = RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
    let passed = filter.expression().evaluate(&pairs)?.into_array(len)?;
    let passed = FilterBuilder::new(passed.as_boolean()).optimize().build();
    let keep = |rows: &UInt32Array| -> Result<Vec<u32>> {
        let kept = passed.filter(rows)?;
        Ok(kept.as_primitive::<UInt32Type>().values().to_vec())
    };
    matched.build_rows = keep(&build_rows)?;
    matched.probe_rows = keep(&probe_rows)?;
    Ok(())
}
