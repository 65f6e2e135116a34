//! Sorts of the first rows of several partitions, in the whole order that their merge has.
//!
//! DataFusion leaves out of a sort what is constant in each partition, such as `1` and `2` in
//! `SELECT 1, a … UNION ALL SELECT 2, a … ORDER BY 1, 2 LIMIT 3`. A merge of the partitions is right then,
//! but such sorts also tell each other of rows that can't be among the first any more, and
//! compare rows of different partitions for that: these have to be in the same order.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

use crate::plan_rule::PlanRule;

/// Gives sorts below a merge the merge's order.
pub const WHOLE_ORDERS: PlanRule = PlanRule {
    name: "nearfar_whole_orders",
    rewrite: |plan| plan.transform_down(rewrite).data(),
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(Transformed::no(plan));
    };
    let Some(sort) = merge.input().downcast_ref::<SortExec>() else {
        return Ok(Transformed::no(plan));
    };
    if sort.fetch().is_none() || sort.expr() == merge.expr() {
        return Ok(Transformed::no(plan));
    }
    let whole = SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
        .with_fetch(sort.fetch())
        .with_preserve_partitioning(sort.preserve_partitioning());
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let plan = Arc::clone(&plan).replace_children(vec![Arc::new(whole)], options)?;
    Ok(Transformed::yes(plan))
}
