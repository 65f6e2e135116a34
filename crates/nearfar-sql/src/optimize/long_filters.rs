//! Long conditions stay above what is computed.
//!
//! `push_down_filter` writes what a projection computes into a condition at each place where that names
//! it. Through projections above each other, a condition grows with two to the power of their number.

use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::sql::has_more_operators;

/// Conditions with more operators are not made longer. Those that people write have fewer.
const OPERATORS_MAX: u64 = 1_000;

/// Whether a node is a long condition on what a projection computes.
pub fn is_long_on_computed(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else {
        return false;
    };
    let LogicalPlan::Projection(projection) = filter.input.as_ref() else {
        return false;
    };
    has_more_operators(plan, OPERATORS_MAX) && projection.expr.iter().any(is_computed)
}

fn is_computed(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_computed(&alias.expr),
        Expr::Column(_) => false,
        _ => true,
    }
}
