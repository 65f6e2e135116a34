//! References of a subquery to the queries around it.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::subquery;

/// The columns around a plan that it refers to, also within subqueries of its own.
pub(super) fn free(plan: &LogicalPlan) -> Result<BTreeSet<Column>> {
    let mut found = BTreeSet::new();
    plan.apply(|node| {
        found.extend(free_of_node(node)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The same of the expressions of one operator.
pub(super) fn free_of_node(node: &LogicalPlan) -> Result<BTreeSet<Column>> {
    let mut found = BTreeSet::new();
    let own = merge_schema(&node.inputs());
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            match expr {
                Expr::OuterReferenceColumn(_, column) => {
                    found.insert(column.clone());
                }
                expr => {
                    if let Some(subquery) = subquery(expr) {
                        let free = free(&subquery.subquery)?.into_iter();
                        found.extend(free.filter(|column| !own.has_column(column)));
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if let LogicalPlan::Subquery(lateral) = node {
        found.extend(free(&lateral.subquery)?);
    }
    Ok(found)
}

/// What stands for columns of the query around.
pub(super) type Columns = BTreeMap<Column, Column>;

/// An expression of an operator whose input has `columns` for those that it refers to.
pub(super) fn bound(expr: Expr, columns: &Columns, own: &DFSchema) -> Result<Expr> {
    let bound = expr.transform_down(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => Ok(match columns.get(&column) {
            Some(known) => Transformed::yes(Expr::Column(known.clone())),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        }),
        expr => within(expr, columns, own),
    });
    bound.data()
}

/// References of the subqueries of an expression, to columns that are around it still.
fn within(expr: Expr, columns: &Columns, own: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(given) = subquery(&expr) else {
        return Ok(Transformed::no(expr));
    };
    let seen: Columns = columns
        .iter()
        .filter(|(column, _)| !own.has_column(column))
        .map(|(column, known)| (column.clone(), known.clone()))
        .collect();
    if seen.is_empty() {
        return Ok(Transformed::no(expr));
    }
    let plan = given.subquery.as_ref().clone();
    let plan = plan.transform_down(|node| rename(node, &seen)).data()?;
    Ok(Transformed::yes(with_plan(expr, plan)))
}

fn rename(node: LogicalPlan, columns: &Columns) -> Result<Transformed<LogicalPlan>> {
    let own = merge_schema(&node.inputs());
    node.map_expressions(|expr| {
        expr.transform_down(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => Ok(match columns.get(&column) {
                Some(known) => Transformed::yes(Expr::OuterReferenceColumn(field, known.clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            expr => within(expr, columns, &own),
        })
    })
}

/// A subquery of a plan.
pub(super) fn subquery_of(plan: LogicalPlan) -> Subquery {
    Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: Default::default(),
    }
}

/// An expression with another plan in the place of its subquery.
pub(super) fn with_plan(expr: Expr, plan: LogicalPlan) -> Expr {
    let subquery = subquery_of(plan);
    match expr {
        Expr::Exists(mut exists) => {
            exists.subquery = subquery;
            Expr::Exists(exists)
        }
        Expr::InSubquery(mut member) => {
            member.subquery = subquery;
            Expr::InSubquery(member)
        }
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = subquery;
            Expr::SetComparison(comparison)
        }
        Expr::ScalarSubquery(_) => Expr::ScalarSubquery(subquery),
        other => other,
    }
}

/// The columns of an expression as columns of the query around.
pub(super) fn as_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(
                Arc::clone(field),
                column,
            )))
        }
        other => Ok(Transformed::no(other)),
    });
    outer.data()
}
