//! `constant NOT IN (query)`, which DataFusion answers as if the query gave no nulls.
//!
//! Its join for `NOT IN` minds nulls where a column is searched. For a constant it has no such join, so
//! that the condition becomes what it means where only truth counts: no row is there of which it
//! is not false that it equals the constant.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Rewrites conditions of filters.
#[derive(Debug, Default)]
pub struct ConstantMember;

impl OptimizerRule for ConstantMember {
    fn name(&self) -> &'static str {
        "nearfar_constant_member"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let conjuncts = split_conjunction_owned(filter.predicate.clone());
        if !conjuncts
            .iter()
            .any(|conjunct| searched(conjunct).is_some())
        {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let conjuncts: Vec<Expr> = conjuncts
            .into_iter()
            .map(|conjunct| match searched(&conjunct) {
                Some(search) => absence(search),
                None => Ok(conjunct),
            })
            .collect::<Result<_>>()?;
        let predicate = conjunction(conjuncts).unwrap_or(filter.predicate);
        let filter = Filter::try_new(predicate, filter.input)?;
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    }
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
