//! Whether it is worth it to put rows together.

use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

use crate::scan::TableScan;

type Plan = Arc<dyn ExecutionPlan>;

/// Groups of a partition have to be fewer than its rows by this factor.
const FEWER: f64 = 2.0;

/// Another aggregate of fewer rows takes longer than it saves.
const ROWS_MIN: f64 = 32_768.0;

/// Whether rows of a partition of `plan` with equal `keys` are expected to be several.
pub fn is_worth(plan: &Plan, keys: &[usize]) -> bool {
    let largest = table_rows(plan);
    let groups = keys.iter().map(|key| distinct(plan, *key, largest));
    let (Some(rows), Some(groups)) = (rows(plan), groups.product::<Option<f64>>()) else {
        return false;
    };
    // Of so many rows of a partition, each of any group, that many groups have one.
    let of_partition = rows / plan.output_partitioning().partition_count() as f64;
    let found = groups * (1.0 - (-of_partition / groups).exp());
    rows >= ROWS_MIN && found * FEWER <= of_partition
}

/// Whether a join leaves most rows of a side as they are.
pub fn keeps_rows(join: &HashJoinExec, is_left: bool) -> bool {
    let side = if is_left { join.left() } else { join.right() };
    match (rows(side), joined_rows(join)) {
        (Some(all), Some(left)) => left * 2.0 >= all,
        _ => false,
    }
}

/// Whether all rows of a table, or of several ones joined by keys, come out of `plan`.
pub fn is_whole(plan: &Plan) -> bool {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        let (expected, all) = scan.rows();
        return expected == all && !scan.is_limited();
    }
    let is_join = plan.downcast_ref::<HashJoinExec>().is_some_and(is_inner);
    (is_join || passed(plan).is_some()) && plan.children().into_iter().all(is_whole)
}

fn is_inner(join: &HashJoinExec) -> bool {
    *join.join_type() == JoinType::Inner && join.filter().is_none() && join.fetch().is_none()
}

/// The input of an operator that gives a row for each.
fn passed(plan: &Plan) -> Option<&Plan> {
    let is_passing = plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || (plan.is::<CoalescePartitionsExec>() && plan.fetch().is_none());
    let input = plan.children().first().copied();
    input.filter(|_| is_passing)
}

/// How many rows are expected, if that is known.
fn rows(plan: &Plan) -> Option<f64> {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        return (!scan.is_limited()).then_some(scan.rows().0 as f64);
    }
    if let Some(input) = passed(plan) {
        return rows(input);
    }
    let join = plan.downcast_ref::<HashJoinExec>();
    joined_rows(join.filter(|join| is_inner(join))?)
}

/// The same of a join by keys: it leaves as many rows of the larger side as the smaller one has of its keys.
fn joined_rows(join: &HashJoinExec) -> Option<f64> {
    let (left, right) = (rows(join.left())?, rows(join.right())?);
    let is_left = left > right;
    let (large, side, small) = match is_left {
        true => (left, join.left(), right),
        false => (right, join.right(), left),
    };
    let shares = join.on().iter().map(|(of_left, of_right)| {
        let key = if is_left { of_left } else { of_right };
        let column = key.downcast_ref::<Column>()?;
        Some(small / distinct(side, column.index(), table_rows(side))?)
    });
    let share = shares.flatten().fold(1.0, f64::min);
    Some(large * share)
}

/// Rows of the largest table below.
fn table_rows(plan: &Plan) -> usize {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        return scan.rows().1;
    }
    plan.children()
        .into_iter()
        .map(table_rows)
        .max()
        .unwrap_or_default()
}

/// How many values a column has, where that is known. A filter of nothing but the column is taken to leave as many of its
/// values as of the rows, in tables with fewer rows than the `largest`.
fn distinct(plan: &Plan, column: usize, largest: usize) -> Option<f64> {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        let (expected, all) = scan.rows();
        let known = scan.column(column)?.2;
        let values = match (known.distinct, known.bounds) {
            (0, Some((low, high))) => high.checked_sub(low)? as f64 + 1.0,
            (0, None) => return None,
            (values, _) => values as f64,
        };
        let share = match all < largest && scan.is_filtered_by(column) {
            true => expected as f64 / all.max(1) as f64,
            false => 1.0,
        };
        return Some((values * share).min(expected as f64).max(1.0));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        // A value of several columns has as many values as these together, at most.
        let value = &projection.expr()[column].expr;
        let columns = collect_columns(value);
        let values = columns
            .iter()
            .map(|column| distinct(projection.input(), column.index(), largest));
        return values
            .product::<Option<f64>>()
            .filter(|_| !is_volatile(value));
    }
    if let Some(join) = plan
        .downcast_ref::<HashJoinExec>()
        .filter(|join| is_inner(join))
    {
        let projection = join.projection.as_ref();
        let source = projection.map_or(column, |projection| projection[column]);
        let left = join.left().schema().fields().len();
        return match source.checked_sub(left) {
            Some(of_right) => distinct(join.right(), of_right, largest),
            None => distinct(join.left(), source, largest),
        };
    }
    distinct(passed(plan)?, column, largest)
}
