//! `x IN (query)` as a value, which may be null.

use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit, not, when};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::outer::{as_outer, free, subquery_of};
use super::unique;

/// True if the value is among the rows; else null if it or a row is null, unless there are no rows; else
/// false.
pub(super) fn as_exists(member: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery {
        expr,
        subquery,
        negated,
    } = member;
    let rows = Arc::unwrap_or_clone(subquery.subquery);
    let rows = LogicalPlanBuilder::from(rows)
        .alias(unique("member"))?
        .build()?;
    let value = Expr::Column(Column::from(rows.schema().qualified_field(0)));
    let wanted = as_outer(*expr.clone(), schema)?;
    let with = |condition: Expr| -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(rows.clone()).filter(condition)?;
        Ok(exists(plan.build()?))
    };
    let is_there = with(wanted.eq(value.clone()))?;
    let is_null = expr.is_null().and(exists(rows.clone()));
    let has_null = with(value.is_null())?;
    let null = lit(ScalarValue::Boolean(None));
    let is_member = when(is_there, lit(true))
        .when(is_null.or(has_null), null)
        .otherwise(lit(false))?;
    Ok(if negated { not(is_member) } else { is_member })
}

fn exists(plan: LogicalPlan) -> Expr {
    Expr::Exists(Exists {
        subquery: subquery_of(plan),
        negated: false,
    })
}

/// Whether a query that refers to none around it has rows, as a number that is counted once.
pub(super) fn has_rows(plan: &LogicalPlan) -> Result<Option<Expr>> {
    if !free(plan)?.is_empty() {
        return Ok(None);
    }
    let counted = LogicalPlanBuilder::from(plan.clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64)).alias("rows")])?
        .build()?;
    Ok(Some(
        Expr::ScalarSubquery(subquery_of(counted)).gt(lit(0_i64)),
    ))
}
