//! Our join and DataFusion's of the same arrays.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::{JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use futures::StreamExt;
use nearfar_kernels::{HashJoin, JoinKind, JoinPlan, JoinTier, Matched};
use nearfar_model::Native;
use tokio::runtime::Runtime;

use super::error::OperatorsBenchError;

/// Rows of a batch of the probe side.
const BATCH_ROWS: usize = 8192;
/// Bytes of a row: a key and a value.
pub(super) const ROW_BYTES: usize = 16;

/// Both sides of a join: columns of keys and of values.
pub(super) struct Sides {
    build: RecordBatch,
    probed: Vec<RecordBatch>,
    build_columns: [Int64Array; 2],
    probe_columns: [Int64Array; 2],
}

/// Seconds of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JoinRound {
    pub ours_s: f64,
    pub theirs_s: f64,
}

/// Rows and the sum of all their columns, which wraps.
type Joined = (usize, i64);

impl Sides {
    /// A build side of so many bytes with different keys, and as many probe rows as asked for, all of which
    /// find one row.
    pub(super) fn new(build_bytes: usize, probe_rows: usize) -> Result<Self, OperatorsBenchError> {
        let rows = (build_bytes / ROW_BYTES) as u64;
        // An odd factor makes different keys of different rows.
        let key = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed();
        let place = |row: u64| (row.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20) % rows;
        let column =
            |values: &mut dyn Iterator<Item = i64>| Int64Array::from(values.collect::<Vec<i64>>());
        let build_columns = [
            column(&mut (0..rows).map(key)),
            column(&mut (0..rows).map(u64::cast_signed)),
        ];
        let probe_columns = [
            column(&mut (0..probe_rows as u64).map(|row| key(place(row)))),
            column(&mut (0..probe_rows as u64).map(u64::cast_signed)),
        ];
        let of = |columns: &[Int64Array; 2], begin: usize, rows: usize| {
            let arrays = columns
                .iter()
                .map(|column| Arc::new(column.slice(begin, rows)) as ArrayRef);
            RecordBatch::try_new(schema(), arrays.collect())
        };
        let build = of(&build_columns, 0, rows as usize)?;
        let begins = (0..probe_rows).step_by(BATCH_ROWS);
        let probed =
            begins.map(|begin| of(&probe_columns, begin, BATCH_ROWS.min(probe_rows - begin)));
        Ok(Self {
            probed: probed.collect::<Result<_, _>>()?,
            build,
            build_columns,
            probe_columns,
        })
    }

    /// One join of each; both give all four columns of all rows.
    pub(super) fn round(&self, runtime: &Runtime) -> Result<JoinRound, OperatorsBenchError> {
        let began = Instant::now();
        let ours = self.ours()?;
        let ours_s = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let theirs = runtime.block_on(self.theirs())?;
        let theirs_s = began.elapsed().as_secs_f64();
        if ours != theirs {
            return Err(OperatorsBenchError::Mismatch {
                build_bytes: self.build.num_rows() * ROW_BYTES,
                ours,
                theirs,
            });
        }
        Ok(JoinRound { ours_s, theirs_s })
    }

    fn ours(&self) -> Result<Joined, OperatorsBenchError> {
        let [build_keys, build_values] = self
            .build_columns
            .each_ref()
            .map(|column| &column.values()[..]);
        let [probe_keys, probe_values] = self
            .probe_columns
            .each_ref()
            .map(|column| &column.values()[..]);
        let plan = JoinPlan::choose(build_keys.len(), JoinTier::NEAR);
        let join = HashJoin::new(JoinKind::Inner, plan);
        let (mut rows, mut sum) = (0, 0_i64);
        let take = |from: &[i64], places: &[u32]| {
            let values: Vec<i64> = places.iter().map(|place| from[*place as usize]).collect();
            Int64Array::from(values)
        };
        join.run(
            (build_keys, None),
            (probe_keys, None),
            &Native,
            |matched: &Matched| {
                let columns = [
                    take(build_keys, &matched.build_rows),
                    take(build_values, &matched.build_rows),
                    take(probe_keys, &matched.probe_rows),
                    take(probe_values, &matched.probe_rows),
                ];
                rows += matched.probe_rows.len();
                sum = columns
                    .iter()
                    .fold(sum, |sum, column| sum.wrapping_add(total(column)));
            },
        )?;
        Ok(black_box((rows, sum)))
    }

    async fn theirs(&self) -> Result<Joined, OperatorsBenchError> {
        let source = |batches: &[RecordBatch]| {
            MemorySourceConfig::try_new_exec(&[batches.to_vec()], schema(), None)
        };
        let build = source(std::slice::from_ref(&self.build))?;
        let key = || Arc::new(Column::new("k", 0));
        let join = HashJoinExec::try_new(
            build,
            source(&self.probed)?,
            vec![(key(), key())],
            None,
            &JoinType::Inner,
            None,
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let mut batches = join.execute(0, Arc::new(TaskContext::default()))?;
        let (mut rows, mut sum) = (0, 0_i64);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            for column in batch.columns() {
                sum = sum.wrapping_add(total(column.as_primitive::<Int64Type>()));
            }
        }
        Ok(black_box((rows, sum)))
    }
}

fn total(column: &Int64Array) -> i64 {
    column
        .values()
        .iter()
        .fold(0, |sum, value| sum.wrapping_add(*value))
}

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("k"), field("v")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_joins_find_the_same_rows() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for (build_bytes, probe_rows) in [(16, 10), (160_000, 20_000), (8 << 20, 5_000)] {
            let sides = Sides::new(build_bytes, probe_rows).unwrap();
            let (rows, _) = sides.ours().unwrap();
            assert_eq!(rows, probe_rows);
            sides.round(&runtime).unwrap();
        }
    }
}
