//! Joins whose nulls are equal to each other, kept apart from conditions whose nulls are not.
//!
//! Two rules of DataFusion take `=` of a condition for one more key of such a join, where null equals null
//! then: `extract_equijoin_predicate`, and `eliminate_cross_join`, which also puts the keys of joins of both
//! kinds together.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{JoinType, LogicalPlan};

/// Whether a node is such a join.
pub fn is_null_safe(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty())
}

/// Whether a plan has such an inner join anywhere.
pub fn has_null_safe_inner_join(plan: &LogicalPlan) -> bool {
    let is_inner = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner);
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        found |= is_null_safe(node) && is_inner(node);
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    found || visited.is_err()
}
