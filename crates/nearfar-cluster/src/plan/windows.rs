//! Orders below windows that say all columns that the windows are partitioned by.
//!
//! A column that a filter makes constant is left out of a sort, since the filter tells that it has one value. Where rows
//! go to another node between the filter and the sort, that node knows of no filter, and refuses a window over rows that
//! are not sorted by one of its columns. To sort by a constant column too changes nothing.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

type Plan = Arc<dyn ExecutionPlan>;
type Keys = [Arc<dyn PhysicalExpr>];

/// Has rows below windows be sorted by constants too that the windows are partitioned by.
#[derive(Debug)]
pub struct WindowOrders;

impl PhysicalOptimizerRule for WindowOrders {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let ordered = plan.transform_up(|plan| {
            let Some(keys) = partition_keys(&plan).map(<[_]>::to_vec) else {
                return Ok(Transformed::no(plan));
            };
            Ok(Transformed::yes(sorted_below(plan, &keys)?))
        })?;
        Ok(ordered.data)
    }

    fn name(&self) -> &str {
        "window_orders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a window is partitioned by; nothing for another operator.
fn partition_keys(plan: &Plan) -> Option<&Keys> {
    let expressions = match plan.downcast_ref::<WindowAggExec>() {
        Some(window) => window.window_expr(),
        None => plan.downcast_ref::<BoundedWindowAggExec>()?.window_expr(),
    };
    Some(expressions.first()?.partition_by())
}

/// A window whose rows, below it and windows that share the sort, are sorted by those of `keys` too that are constant.
fn sorted_below(window: Plan, keys: &Keys) -> Result<Plan> {
    let input = window.children()[0];
    let input = match input.downcast_ref::<SortExec>() {
        Some(sort) => by_constants_too(sort, keys),
        None if partition_keys(input).is_some() => Some(sorted_below(Arc::clone(input), keys)?),
        None => None,
    };
    let Some(input) = input else {
        return Ok(window);
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    window.replace_children(vec![input], options)
}

/// A sort that has those of `keys` that are constant below it, and that it lacks, behind the others of them. Nothing if
/// it lacks none.
fn by_constants_too(sort: &SortExec, keys: &Keys) -> Option<Plan> {
    let is_key = |by: &&PhysicalSortExpr| keys.contains(&by.expr);
    let mut order: Vec<PhysicalSortExpr> = sort.expr().iter().cloned().collect();
    let known = order.iter().take_while(is_key).count();
    let below = sort.input().equivalence_properties();
    let is_missing = |key: &&Arc<dyn PhysicalExpr>| {
        let is_there = order.iter().any(|by| by.expr.eq(key));
        !is_there && below.is_expr_constant(key).is_some()
    };
    let missing: Vec<_> = keys.iter().filter(is_missing).cloned().collect();
    if missing.is_empty() {
        return None;
    }
    let missing = missing.into_iter().map(PhysicalSortExpr::new_default);
    order.splice(known..known, missing);
    let sorted = SortExec::new(LexOrdering::new(order)?, Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    Some(Arc::new(sorted))
}
