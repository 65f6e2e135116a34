//! Two sets of threads for queries: one for those that are sure to be short, so that they never wait
//! for a thread that a long one keeps, and one for all others.
//!
//! A query is short by its plan, not by what it has used: tasks can't be moved from one set to the other.
//! What counts is an upper bound of the rows that its operators meet ([`work`]), not an estimate, so
//! that no statement gets among the short ones by misleading estimates.

use datafusion::common::stats::Precision;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::unnest::UnnestExec;
use std::sync::Arc;
use tokio::runtime::{EnterGuard, Handle};

use super::slicing::has_costly_expressions;
use crate::scan::TableScan;

/// Rows that the operators of a short query meet at most. A scan takes some ten milliseconds for as
/// many.
const SHORT_ROWS: u64 = 1 << 20;

/// What a row counts for an operator whose expressions may take long.
const COSTLY_ROWS: u64 = 64;

/// Where queries run.
#[derive(Debug, Clone)]
pub struct Lanes {
    /// Those that are sure to be short.
    pub short: Handle,
    /// All others.
    pub long: Handle,
}

/// Both the same.
impl From<Handle> for Lanes {
    fn from(handle: Handle) -> Self {
        Self {
            short: handle.clone(),
            long: handle,
        }
    }
}

impl Lanes {
    /// Has tasks that the calling thread begins run where `plan` is to run, until the guard is dropped.
    pub(super) fn enter(&self, plan: &Arc<dyn ExecutionPlan>) -> EnterGuard<'_> {
        match is_short(plan.as_ref()) {
            true => self.short.enter(),
            false => self.long.enter(),
        }
    }
}

/// Whether a query is sure to be short.
pub(super) fn is_short(plan: &dyn ExecutionPlan) -> bool {
    let mut met = 0u64;
    work(plan, &mut met).is_some() && met <= SHORT_ROWS
}

/// An upper bound of the rows that `plan` gives, if there is one. Adds to `met` the rows that its
/// operators meet.
fn work(plan: &dyn ExecutionPlan, met: &mut u64) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        let rows = rows_of_leaf(plan)?;
        *met = met.saturating_add(rows);
        return Some(rows);
    }
    let inputs = children.into_iter().map(|child| work(child.as_ref(), met));
    let inputs = inputs.collect::<Option<Vec<u64>>>()?;
    // A value may have any number of elements.
    if *met > SHORT_ROWS || plan.is::<UnnestExec>() {
        return None;
    }
    let rows = match is_join(plan) {
        true => inputs.iter().fold(1, |product: u64, rows| {
            product.saturating_mul((*rows).max(1))
        }),
        false => inputs
            .iter()
            .fold(0, |sum: u64, rows| sum.saturating_add(*rows)),
    };
    let weight = match has_costly_expressions(plan) {
        true => COSTLY_ROWS,
        false => 1,
    };
    *met = met.saturating_add(rows.max(1).saturating_mul(weight));
    // Aggregates give a row even for none.
    Some(rows.max(1))
}

/// Whether a row of one input may meet every row of the other.
fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
}

/// The rows that a scan reads.
fn rows_of_leaf(plan: &dyn ExecutionPlan) -> Option<u64> {
    if plan.is::<PlaceholderRowExec>() || plan.is::<EmptyExec>() {
        return Some(1);
    }
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(scan) = source.downcast_ref::<TableScan>() {
        return Some(scan.work_rows());
    }
    match source.partition_statistics(None).ok()?.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    async fn is_short_query(sql: &str) -> bool {
        let context = SessionContext::new();
        let table = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(k, s)";
        let made = context.sql(table).await.expect("a table");
        made.collect().await.expect("rows");
        let frame = context.sql(sql).await.expect(sql);
        is_short(frame.create_physical_plan().await.expect(sql).as_ref())
    }

    #[tokio::test]
    async fn short_queries_are_known_by_bounds_and_not_by_estimates() {
        for short in [
            "SELECT 1",
            "SELECT k, upper(s) FROM t WHERE s LIKE '%a_' ORDER BY k LIMIT 1",
            "SELECT a.s, count(*) FROM t a JOIN t b ON a.k = b.k GROUP BY a.s",
        ] {
            assert!(is_short_query(short).await, "{short}");
        }
        let joined = (0..30).map(|n| format!("t AS t{n}"));
        let joined = joined.collect::<Vec<_>>().join(", ");
        let many_joins = format!("SELECT sum(t0.k) FROM {joined}");
        for long in [
            "SELECT count(*) FROM generate_series(1, 10)",
            "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r",
            &many_joins,
        ] {
            assert!(!is_short_query(long).await, "{long}");
        }
    }
}
