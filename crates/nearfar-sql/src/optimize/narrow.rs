//! The rule that puts [`NarrowDecimal`] into plans.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

use super::decimal::{Bounds, NarrowDecimal, bounds_of};
use crate::datafusion_names::PASSING_OPERATORS;
use crate::plan_rule::PlanRule;
use crate::scan::TableScan;

/// Rewrites decimal arithmetic of projections and aggregates.
pub const NARROW_DECIMALS: PlanRule = PlanRule {
    name: "nearfar_narrow_decimals",
    rewrite: |plan| Ok(plan.transform_down(rewrite)?.data),
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = projection.input();
        let exprs: Vec<ProjectionExpr> = projection
            .expr()
            .iter()
            .map(|e| ProjectionExpr {
                expr: narrowed(&e.expr, input),
                alias: e.alias.clone(),
            })
            .collect();
        let changed = exprs
            .iter()
            .zip(projection.expr())
            .any(|(a, b)| !Arc::ptr_eq(&a.expr, &b.expr));
        if changed {
            let schema = projection.schema();
            let rewritten =
                ProjectionExec::try_new_with_schema_metadata(exprs, Arc::clone(input), &schema)?;
            return Ok(Transformed::yes(Arc::new(rewritten)));
        }
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && aggregate.mode().input_mode() == AggregateInputMode::Raw
    {
        let functions: Vec<Arc<AggregateFunctionExpr>> = aggregate
            .aggr_expr()
            .iter()
            .map(|f| narrowed_function(f, aggregate.input()))
            .collect();
        let changed = functions
            .iter()
            .zip(aggregate.aggr_expr())
            .any(|(a, b)| !Arc::ptr_eq(a, b));
        if changed {
            let rewritten = aggregate.with_new_aggr_exprs(functions);
            return Ok(Transformed::yes(Arc::new(rewritten)));
        }
    }
    Ok(Transformed::no(plan))
}

fn narrowed_function(
    function: &Arc<AggregateFunctionExpr>,
    input: &Arc<dyn ExecutionPlan>,
) -> Arc<AggregateFunctionExpr> {
    // A function over ordered rows may stand reversed, which new expressions would undo.
    if function.is_reversed() || !function.order_bys().is_empty() {
        return Arc::clone(function);
    }
    let arguments = function.expressions();
    let narrow: Vec<_> = arguments
        .iter()
        .map(|argument| narrowed(argument, input))
        .collect();
    if narrow
        .iter()
        .zip(&arguments)
        .all(|(a, b)| Arc::ptr_eq(a, b))
    {
        return Arc::clone(function);
    }
    function
        .with_new_expressions(narrow, Vec::new())
        .map_or_else(|| Arc::clone(function), Arc::new)
}

/// `expr`, or what computes the same in 64 bits.
fn narrowed(expr: &Arc<dyn PhysicalExpr>, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn PhysicalExpr> {
    let bounds = |column| column_bounds(input, column);
    match NarrowDecimal::of(expr, &input.schema(), &bounds) {
        Some(narrow) => Arc::new(narrow),
        None => Arc::clone(expr),
    }
}

/// Bounds of the values, not null, of a column of what `plan` yields.
pub fn column_bounds(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<Bounds> {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        return scan.bounds(column);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = projection.input();
        let expr = &projection.expr()[column].expr;
        return expression_bounds(expr, input);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let column = filter.projection().as_ref().map_or(column, |p| p[column]);
        return column_bounds(filter.input(), column);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return join_bounds(join, column);
    }
    let inputs = plan.children();
    let passes_rows_on = PASSING_OPERATORS.contains(&plan.name());
    (passes_rows_on && inputs.len() == 1).then(|| column_bounds(inputs[0], column))?
}

fn expression_bounds(
    expr: &Arc<dyn PhysicalExpr>,
    input: &Arc<dyn ExecutionPlan>,
) -> Option<Bounds> {
    match expr.downcast_ref::<Column>() {
        Some(column) => column_bounds(input, column.index()),
        None => bounds_of(expr, &input.schema(), &|column| {
            column_bounds(input, column)
        }),
    }
}

fn join_bounds(join: &HashJoinExec, column: usize) -> Option<Bounds> {
    let column = join.projection.as_ref().map_or(column, |p| p[column]);
    let left = join.left().schema().fields().len();
    match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => column_bounds(join.left(), column),
        JoinType::RightSemi | JoinType::RightAnti => column_bounds(join.right(), column),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            if column < left {
                column_bounds(join.left(), column)
            } else {
                column_bounds(join.right(), column - left)
            }
        }
        _ => None,
    }
}
