//! Sorts where DataFusion has left one out and does not find the order afterwards.
//!
//! It leaves columns out of sorts that are constant or equal below, as in `SELECT 1, a … UNION ALL …`. Of the
//! parts of a union each can have another reason, which the union's properties do not keep: the check at
//! the end of planning refuses the query then. Operators above such a sort are made anew, so that filters which they
//! hand down while they run are cut off.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

use crate::plan_rule::PlanRule;

/// Sorts the inputs that do not have the order which their operator needs.
pub const MISSING_ORDERS: PlanRule = PlanRule {
    name: "nearfar_missing_orders",
    rewrite: |plan| plan.transform_up(rewrite).data(),
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut has_changed = false;
    let mut inputs = Vec::new();
    for (input, needed) in plan
        .children()
        .into_iter()
        .zip(plan.required_input_ordering())
    {
        let missing = match needed {
            Some(needed) => missing(input, needed)?,
            None => None,
        };
        has_changed |= missing.is_some();
        inputs.push(match missing {
            Some(order) => sorted(order, input),
            None => Arc::clone(input),
        });
    }
    if !has_changed {
        return Ok(Transformed::no(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(inputs, options).map(Transformed::yes)
}

/// The order that an operator needs of its input, if that does not have it.
fn missing(
    input: &Arc<dyn ExecutionPlan>,
    needed: OrderingRequirements,
) -> Result<Option<LexOrdering>> {
    let needed = needed.into_single();
    let has = input.equivalence_properties();
    let is_there = has.ordering_satisfy_requirement(needed.clone())?;
    Ok((!is_there).then(|| needed.into()))
}

/// The rows of each partition in an order.
fn sorted(order: LexOrdering, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(SortExec::new(order, Arc::clone(input)).with_preserve_partitioning(true))
}
