//! Our join and DataFusion's of the same arrays.

use std::hint::black_box;
use std::sync::Arc;

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
use nearfar_measure::operators::native::{JOIN_ROW_BYTES, JoinColumns, Joined, checksum, join};
use tokio::runtime::Runtime;

use super::error::OperatorsBenchError;
use super::round::{Round, timed};

/// Rows of a batch of the probe side.
pub(super) const BATCH_ROWS: usize = 8192;
/// Both sides of a join: columns of keys and of values.
pub(super) struct Sides {
    build: RecordBatch,
    probed: Vec<RecordBatch>,
    build_columns: [Int64Array; 2],
    probe_columns: [Int64Array; 2],
}

impl Sides {
    /// A build side of so many bytes with different keys, and as many probe rows as asked for, all of which
    /// find one row.
    pub(super) fn new(build_bytes: usize, probe_rows: usize) -> Result<Self, OperatorsBenchError> {
        let columns = JoinColumns::new(build_bytes, probe_rows);
        let rows = columns.build_keys.len();
        let build_columns = [columns.build_keys, columns.build_values].map(Int64Array::from);
        let probe_columns = [columns.probe_keys, columns.probe_values].map(Int64Array::from);
        let of = |columns: &[Int64Array; 2], begin: usize, rows: usize| {
            let arrays = columns
                .iter()
                .map(|column| Arc::new(column.slice(begin, rows)) as ArrayRef);
            RecordBatch::try_new(schema(), arrays.collect())
        };
        let build = of(&build_columns, 0, rows)?;
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

    /// Keys and values of the probe side.
    pub(super) fn probed(&self) -> [&[i64]; 2] {
        values(&self.probe_columns)
    }

    /// Both sides by name.
    pub(super) fn tables(&self) -> [(&'static str, &[RecordBatch]); 2] {
        let build = std::slice::from_ref(&self.build);
        [("build", build), ("probed", &self.probed[..])]
    }

    /// One join of each; both give all four columns of all rows.
    pub(super) fn round(&self, runtime: &Runtime) -> Result<Round, OperatorsBenchError> {
        let (ours, ours_s) = timed(|| self.ours());
        let (theirs, theirs_s) = timed(|| runtime.block_on(self.theirs()));
        let (ours, theirs) = (ours?, theirs?);
        if ours != theirs {
            return Err(OperatorsBenchError::Mismatch {
                build_bytes: self.build.num_rows() * JOIN_ROW_BYTES,
                ours,
                theirs,
            });
        }
        Ok(Round { ours_s, theirs_s })
    }

    pub(super) fn ours(&self) -> Result<Joined, OperatorsBenchError> {
        Ok(join(
            values(&self.build_columns),
            values(&self.probe_columns),
        )?)
    }

    async fn theirs(&self) -> Result<Joined, OperatorsBenchError> {
        let source = |batches: &[RecordBatch]| {
            MemorySourceConfig::try_new_exec(&[batches.to_vec()], schema(), None)
        };
        let build = source(std::slice::from_ref(&self.build))?;
        let key = || Arc::new(Column::new("k", 0));
        let plan = HashJoinExec::try_new(
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
        let mut batches = plan.execute(0, Arc::new(TaskContext::default()))?;
        let mut joined = Joined::default();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            joined.rows += batch.num_rows();
            for column in batch.columns() {
                let sum = checksum(column.as_primitive::<Int64Type>().values());
                joined.checksum = joined.checksum.wrapping_add(sum);
            }
        }
        Ok(black_box(joined))
    }
}

fn values(columns: &[Int64Array; 2]) -> [&[i64]; 2] {
    columns.each_ref().map(|column| &column.values()[..])
}

pub(super) fn schema() -> SchemaRef {
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
            assert_eq!(sides.ours().unwrap().rows, probe_rows);
            sides.round(&runtime).unwrap();
        }
    }
}
