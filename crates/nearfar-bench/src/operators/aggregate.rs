//! Our aggregates and DataFusion's of the same arrays.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_measure::operators::native::{Grouped, checksum, grouped, summary};
use tokio::runtime::Runtime;

use super::error::OperatorsBenchError;
use super::join::{BATCH_ROWS, schema};
use super::round::{Round, timed};

const WITHOUT_GROUPS: &str = "select count(v), sum(v), min(v), max(v) from t";
const WITH_GROUPS: &str = "select k, count(v), sum(v), min(v), max(v) from t group by k";

/// Columns of keys and values, as arrays and as a table of DataFusion's.
pub(super) struct Aggregates {
    keys: Int64Array,
    values: Int64Array,
    context: SessionContext,
    /// Groups, or none for one aggregate of all rows.
    groups: Option<usize>,
}

impl Aggregates {
    /// So many rows, of so many keys.
    pub(super) fn new(rows: usize, groups: Option<usize>) -> Result<Self, OperatorsBenchError> {
        let keys = groups.unwrap_or(1).max(1) as u64;
        let key = |row: u64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % keys;
        let rows = rows as u64;
        let column = |values: Vec<i64>| Int64Array::from(values);
        let keys = column((0..rows).map(|row| key(row).cast_signed()).collect());
        let values = column((0..rows).map(u64::cast_signed).collect());
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let batches = batches(&keys, &values)?;
        let table = MemTable::try_new(schema(), vec![batches])?;
        context.register_table("t", Arc::new(table))?;
        Ok(Self {
            keys,
            values,
            context,
            groups,
        })
    }

    /// One aggregate of each.
    pub(super) fn round(&self, runtime: &Runtime) -> Result<Round, OperatorsBenchError> {
        let (ours, ours_s) = timed(|| self.ours());
        let ours = ours?;
        // A plan runs once, and making it is no part of the aggregate.
        let plan = runtime.block_on(self.plan())?;
        let (theirs, theirs_s) = timed(|| runtime.block_on(self.theirs(plan)));
        if ours != theirs? {
            return Err(OperatorsBenchError::Differs { what: "aggregate" });
        }
        Ok(Round { ours_s, theirs_s })
    }

    fn ours(&self) -> Result<Grouped, OperatorsBenchError> {
        let (keys, values) = (self.keys.values(), self.values.values());
        if self.groups.is_some() {
            return Ok(grouped(keys, values)?);
        }
        let found = summary(values);
        let (min, max) = (found.min.unwrap_or(0), found.max.unwrap_or(0));
        Ok(Grouped {
            groups: 1,
            checksum: checksum(&[found.count.cast_signed(), found.sum as i64, min, max]),
        })
    }

    async fn plan(&self) -> Result<Arc<dyn ExecutionPlan>, OperatorsBenchError> {
        let sql = match self.groups {
            Some(_) => WITH_GROUPS,
            None => WITHOUT_GROUPS,
        };
        Ok(self.context.sql(sql).await?.create_physical_plan().await?)
    }

    async fn theirs(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Grouped, OperatorsBenchError> {
        let mut found = Grouped::default();
        for batch in collect(plan, self.context.task_ctx()).await? {
            found.groups += batch.num_rows();
            for column in batch.columns() {
                let sum = checksum(column.as_primitive::<Int64Type>().values());
                found.checksum = found.checksum.wrapping_add(sum);
            }
        }
        Ok(found)
    }
}

fn batches(
    keys: &Int64Array,
    values: &Int64Array,
) -> Result<Vec<RecordBatch>, OperatorsBenchError> {
    let schema: SchemaRef = schema();
    let rows = keys.len();
    let batch = |begin: usize| {
        let slice = |column: &Int64Array| {
            Arc::new(column.slice(begin, BATCH_ROWS.min(rows - begin))) as ArrayRef
        };
        RecordBatch::try_new(SchemaRef::clone(&schema), vec![slice(keys), slice(values)])
    };
    let batches = (0..rows).step_by(BATCH_ROWS).map(batch);
    Ok(batches.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_aggregates_find_the_same() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for (rows, groups) in [
            (10, None),
            (20_000, None),
            (20_000, Some(7)),
            (9_000, Some(5_000)),
        ] {
            let aggregates = Aggregates::new(rows, groups).unwrap();
            aggregates.round(&runtime).unwrap();
        }
    }
}
