//! Conditions on an aggregate over all rows stay above it.
//!
//! `push_down_filter` takes a condition without columns, such as the null that is left of
//! `HAVING NOT max(a) = max(a)`, below an aggregate: without groups, that gives a row whatever its input.

use datafusion::logical_expr::LogicalPlan;

/// Whether a node is a condition on such an aggregate.
pub fn is_of_all_rows(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Filter(filter)
        if matches!(&*filter.input, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty()))
}
