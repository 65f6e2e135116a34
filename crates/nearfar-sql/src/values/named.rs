//! Expressions of plans that are replaced under their names.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A node with other expressions, whose columns have the names as before and the types that follow now, from
/// its inputs too.
///
/// # Errors
/// Those of `rewrite`, and types that do not fit together.
pub fn replace_expressions(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| replace_named(expr, &names, &mut rewrite))?;
    plan.map_data(LogicalPlan::recompute_schema)
}

/// The function that tells whether a row is grouped by its arguments.
const GROUPING: &str = "grouping";

/// Another expression under its name. Those of grouping sets have their names each, and sets have none; they have the same
/// where it is asked whether rows are grouped by them.
///
/// # Errors
/// Those of `rewrite`.
pub fn replace_named(
    expr: Expr,
    names: &NamePreserver,
    rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let is_of_named = match &expr {
        Expr::GroupingSet(_) => true,
        Expr::AggregateFunction(call) => call.func.name() == GROUPING,
        _ => false,
    };
    if is_of_named {
        return expr.map_children(|part| replace_named(part, names, rewrite));
    }
    let name = names.save(&expr);
    let expr = rewrite(expr)?;
    Ok(match expr.transformed {
        true => expr.update_data(|expr| name.restore(expr)),
        false => expr,
    })
}

/// Whether a part of an expression of a node, not of its inputs, is `wanted`.
///
/// # Errors
/// Those of going through expressions.
pub fn has_expr(plan: &LogicalPlan, wanted: fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = expr.exists(|expr| Ok(wanted(expr)))?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether the columns of two schemas with as many columns have the same types.
pub fn have_same_types(one: &DFSchema, other: &DFSchema) -> bool {
    let mut fields = one.fields().iter().zip(other.fields());
    fields.all(|(one, other)| one.data_type() == other.data_type())
}
