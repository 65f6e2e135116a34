//! Which plans mean the same each time that they run.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::scalar::ScalarValue;

use crate::optimize::has_subqueries;
use crate::scan::table_of;

/// Functions whose type follows from the values of their arguments.
const TYPED_BY_VALUE: [&str; 2] = ["round", "trunc"];

/// Whether a plan without parameters, as it was before it was optimized, means the same each time that it runs: a query of
/// tables that Nearfar has, all of whose functions give the same for the same arguments.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_repeatable = true;
    plan.apply_with_subqueries(|node| {
        is_repeatable &= is_query_of_tables(node)?;
        node.apply_expressions(|expr| {
            is_repeatable &= !expr.exists(|expr| Ok(varies(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match is_repeatable {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(is_repeatable)
}

/// The same for one with parameters, whatever their values.
pub(super) fn is_generic(plan: &LogicalPlan) -> Result<bool> {
    if has_subqueries(plan)? || !is_repeatable(plan)? {
        return Ok(false);
    }
    let mut is_generic = true;
    plan.apply(|node| {
        let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        node.apply_expressions(|expr| {
            let hinders = |expr: &Expr| {
                Ok(is_typed_by_value(expr) || (is_condition && fails_for_some_rows(expr)))
            };
            is_generic &= !expr.exists(hinders)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match is_generic {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(is_generic)
}

/// Bytes of all values in a plan that are not of a fixed size, such as texts.
pub(super) fn value_bytes(plan: &LogicalPlan) -> Result<usize> {
    let mut bytes = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Literal(value, _) = part {
                    bytes += value.size() - size_of::<ScalarValue>();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(bytes)
}

fn is_query_of_tables(node: &LogicalPlan) -> Result<bool> {
    Ok(match node {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source)?;
            table_of(provider.as_ref()).is_some()
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    })
}

/// Whether a part of a condition may fail for some rows, from which the conditions before it keep it: these may come to
/// the scan later.
fn fails_for_some_rows(expr: &Expr) -> bool {
    let may_fail = match expr {
        Expr::BinaryExpr(binary) => binary.op.is_numerical_operators(),
        Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_) | Expr::ScalarFunction(_) => true,
        _ => false,
    };
    may_fail && expr.any_column_refs()
}

/// Whether an expression gives another value in another statement.
fn varies(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(function) => {
            function.func.signature().volatility != Volatility::Immutable
        }
        Expr::ScalarVariable(..) => true,
        _ => false,
    }
}

/// Whether an expression is one of another type with other parameters.
fn is_typed_by_value(expr: &Expr) -> bool {
    let Expr::ScalarFunction(function) = expr else {
        return false;
    };
    let is_open = |argument: &Expr| {
        let found = argument.exists(|part| Ok(matches!(part, Expr::Placeholder(_))));
        found.unwrap_or(true)
    };
    TYPED_BY_VALUE.contains(&function.func.name()) && function.args.iter().skip(1).any(is_open)
}
