//! Which subqueries DataFusion's own rules are right about.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, JoinType, LogicalPlan, Operator, Subquery,
};

use super::outer::{free, free_of_node};
use super::{has_subquery, subquery};

/// Where a subquery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Between the `AND`s of a filter.
    Conjunct,
    /// Within `AND`s and `OR`s of a filter.
    Disjunct,
    /// In another expression of a filter or projection.
    Value,
    /// In an expression of another operator.
    Elsewhere,
}

/// Whether a subquery can be left as it is.
pub(super) fn is_left(expr: &Expr, place: Place) -> Result<bool> {
    let Some(given) = subquery(expr) else {
        return Ok(true);
    };
    let plan = given.subquery.as_ref();
    let is_free = free(plan)?.is_empty();
    if !is_free && !has_plain_subqueries(plan)? {
        return Ok(false);
    }
    Ok(match expr {
        Expr::ScalarSubquery(_) => {
            is_free || (place != Place::Elsewhere && is_plain_aggregate(plan)?)
        }
        Expr::Exists(_) => {
            matches!(place, Place::Conjunct | Place::Disjunct) && (is_free || is_filtered(plan)?)
        }
        // What is searched for is a value, where subqueries need joins of ours.
        Expr::InSubquery(member) if has_subquery(&member.expr)? => false,
        Expr::InSubquery(InSubquery { negated, .. }) => match (place, *negated) {
            (Place::Conjunct, false) | (Place::Disjunct, false) => is_free || is_filtered(plan)?,
            (Place::Conjunct, true) => is_free,
            _ => false,
        },
        _ => true,
    })
}

/// Whether the subqueries within a subquery are left too, and refer to no more than it.
fn has_plain_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut are_plain = true;
    plan.apply(|node| {
        let own = merge_schema(&node.inputs());
        let is_filter = matches!(node, LogicalPlan::Filter(_));
        let mut check = |expr: &Expr, place: Place| -> Result<()> {
            expr.apply(|expr| {
                if let Some(Subquery { subquery, .. }) = subquery(expr) {
                    let mut free = free(subquery)?.into_iter();
                    are_plain &= free.all(|column| own.has_column(&column));
                    are_plain &= is_left(expr, place)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(())
        };
        node.apply_expressions(|expr| {
            match is_filter {
                true => split_conjunction(expr).into_iter().try_for_each(|part| {
                    let place = match part {
                        Expr::InSubquery(_) | Expr::Exists(_) => Place::Conjunct,
                        _ => Place::Value,
                    };
                    check(part, place)
                })?,
                false => check(expr, Place::Elsewhere)?,
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(are_plain)
}

/// Whether all that refers to the query around stands in filters, over nothing but scans, inner joins,
/// and what has no such reference.
fn is_filtered(plan: &LogicalPlan) -> Result<bool> {
    if free(plan)?.is_empty() {
        return Ok(true);
    }
    Ok(match plan {
        LogicalPlan::Filter(filter) => {
            !split_conjunction(&filter.predicate)
                .into_iter()
                .any(is_dropped)
                && is_filtered(&filter.input)?
        }
        // What is pulled up through an alias is not always renamed.
        LogicalPlan::Projection(projection) => {
            free_of_node(plan)?.is_empty() && is_filtered(&projection.input)?
        }
        LogicalPlan::Distinct(Distinct::All(input)) => is_filtered(input)?,
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            free_of_node(plan)?.is_empty() && is_filtered(&join.left)? && is_filtered(&join.right)?
        }
        _ => false,
    })
}

/// Whether a condition is one that DataFusion takes for true where it makes a join of it, though it is
/// null of a null: that something of the query around equals itself.
fn is_dropped(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => left == right && left.contains_outer(),
        _ => false,
    }
}

/// Whether a plan aggregates all rows that have values equal to some of the query around.
fn is_plain_aggregate(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) if free_of_node(plan)?.is_empty() => {
            is_plain_aggregate(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_plain_aggregate(&alias.input),
        LogicalPlan::Aggregate(aggregate) => Ok(aggregate.group_expr.is_empty()
            && free_of_node(plan)?.is_empty()
            && is_filtered(&aggregate.input)?
            && has_equalities(&aggregate.input)?),
        _ => Ok(false),
    }
}

/// Whether every reference to the query around is equal to something of the plan's own.
fn has_equalities(plan: &LogicalPlan) -> Result<bool> {
    let mut all = true;
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            all &= split_conjunction(&filter.predicate)
                .into_iter()
                .filter(|part| part.contains_outer())
                .all(is_equality);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

fn is_equality(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = expr
    else {
        return false;
    };
    let is_outer = |expr: &Expr| expr.contains_outer() && !expr.any_column_refs();
    let is_own = |expr: &Expr| matches!(expr, Expr::Column(_));
    (is_outer(left) && is_own(right)) || (is_own(left) && is_outer(right))
}
