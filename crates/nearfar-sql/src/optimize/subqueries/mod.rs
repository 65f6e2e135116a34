//! Subqueries that DataFusion's rules do not make joins of, or of which they make the wrong ones.
//!
//! | subquery | left to DataFusion |
//! |---|---|
//! | `[NOT] EXISTS`, `IN`, between the `AND`s of a filter | where what refers to the outer query is a filter over scans and inner joins |
//! | `NOT IN` there | where it refers to no outer query |
//! | `EXISTS` and `IN` elsewhere | nowhere but within `OR`s of a filter, where no null can come of it |
//! | one that stands for a value | where it refers to no outer query, or aggregates what is equal to values of it |
//!
//! Rows of `VALUES` that have subqueries become queries ([`rows`]), as nothing else evaluates them. Everything else becomes
//! a join here, before types are coerced: `x IN (query)` a `CASE` of `EXISTS` ([`membership`]), and what refers to the outer
//! query a query of the *domain*, the distinct values that it refers to ([`dependent`]), which the outer query is joined with
//! (T. Neumann and A. Kemper, "Unnesting Arbitrary Queries", BTW 2015).

mod dependent;
mod joins;
mod membership;
mod node;
mod outer;
mod rows;
mod shape;
mod single;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;
use std::sync::atomic::{AtomicU64, Ordering};

pub use single::{is_of_several_rows, single_row};

/// The rule.
#[derive(Debug, Default)]
pub struct UnnestSubqueries;

impl AnalyzerRule for UnnestSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        plan.transform_down_with_subqueries(node::rewrite).data()
    }

    fn name(&self) -> &str {
        "unnest_subqueries"
    }
}

/// Whether any expression of a plan has a subquery.
pub fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= has_subquery(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(subquery(expr).is_some()))
}

/// The subquery that an expression is made of, apart from its operands.
fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

/// A name that nothing else in a plan has.
pub(super) fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("__{what}_{number}")
}

/// An expression in the place of another.
fn replaced(expr: Expr) -> Transformed<Expr> {
    Transformed::new(expr, true, TreeNodeRecursion::Jump)
}
