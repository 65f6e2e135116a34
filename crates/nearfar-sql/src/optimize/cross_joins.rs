//! Joins that get their keys from conditions above them.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{JoinType, LogicalPlan};

/// Whether a plan has an inner join that has no key yet, or may get more: one below a condition. DataFusion's rule for
/// them takes chains of other joins apart too, and puts them together as they were.
pub fn has_any(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        found |= match node {
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner && join.on.is_empty(),
            LogicalPlan::Filter(filter) => {
                matches!(filter.input.as_ref(), LogicalPlan::Join(join)
                    if join.join_type == JoinType::Inner)
            }
            _ => false,
        };
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    found || visited.is_err()
}
