//! Conditions on an aggregate over all rows stay above it.
//!
//! `push_down_filter` takes a condition without columns, such as the null that is left of
//! `HAVING NOT max(a) = max(a)`, below an aggregate: without groups, that gives a row whatever its input, as
//! does a `ROLLUP` with its total.

use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether a node is a condition on such an aggregate.
pub fn is_of_all_rows(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else {
        return false;
    };
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
        return false;
    };
    let groups = &aggregate.group_expr;
    groups.is_empty()
        || groups
            .iter()
            .any(|group| matches!(group, Expr::GroupingSet(_)))
}
