//! `constant NOT IN (query)`, which DataFusion answers as if the query gave no nulls.
//!
//! Its join for `NOT IN` minds nulls where a column is searched. For a constant it has no such join, so
//! that the condition becomes what it means where only truth counts: no row is there of which it
//! is not false that it equals the constant.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::ApplyOrder;
use std::sync::Arc;

use super::condition_rule::ConditionRule;

/// Has such a condition say that no row is there.
pub const CONSTANT_MEMBER: ConditionRule = ConditionRule {
    name: "nearfar_constant_member",
    order: ApplyOrder::TopDown,
    replace: without_searches,
};

fn without_searches(predicate: &Expr, _: &DFSchema) -> Result<Option<Expr>> {
    let conjuncts = split_conjunction(predicate);
    if !conjuncts
        .iter()
        .any(|conjunct| searched(conjunct).is_some())
    {
        return Ok(None);
    }
    let conjuncts = conjuncts
        .into_iter()
        .map(|conjunct| match searched(conjunct) {
            Some(search) => absence(search),
            None => Ok(conjunct.clone()),
        });
    Ok(conjunction(conjuncts.collect::<Result<Vec<_>>>()?))
}

/// The search for a constant that must not be found, if a condition is that.
fn searched(condition: &Expr) -> Option<&InSubquery> {
    let search = match condition {
        Expr::InSubquery(search) if search.negated => search,
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(search) if !search.negated => search,
            _ => return None,
        },
        _ => return None,
    };
    let value = search.expr.as_ref();
    let is_constant =
        value.column_refs().is_empty() && !value.contains_outer() && !value.is_volatile();
    is_constant.then_some(search)
}

fn absence(search: &InSubquery) -> Result<Expr> {
    let Subquery {
        subquery,
        outer_ref_columns,
        spans,
    } = search.subquery.clone();
    let column = Expr::from(subquery.schema().qualified_field(0));
    let equal = search.expr.as_ref().clone().eq(column);
    let found = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery))
        .filter(Expr::IsNotFalse(Box::new(equal)))?
        .build()?;
    let subquery = Subquery {
        subquery: Arc::new(found),
        outer_ref_columns,
        spans,
    };
    Ok(Expr::Exists(Exists::new(subquery, true)))
}
