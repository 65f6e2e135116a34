//! Plans with other operators in the place of aggregates.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use std::sync::Arc;

type Plan = Arc<dyn ExecutionPlan>;

/// `plan` with other operators in the place of some of its aggregates, from the scans up.
///
/// # Errors
/// Those of `other`.
pub fn with_aggregates(
    plan: Plan,
    other: impl Fn(&AggregateExec) -> Result<Option<Plan>>,
) -> Result<Plan> {
    let replaced = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(&other).transpose()?.flatten() {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}
