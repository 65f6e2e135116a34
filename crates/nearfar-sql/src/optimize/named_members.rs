//! Names for what `IN (query)` searches.
//!
//! Types that are settled make a cast of the query's column, which DataFusion names as it names the column, and
//! users give what they compute of a column its name. Where the query's condition refers to the outer query, the
//! column comes to stand beside that, and an operator of which two columns have one name is refused.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// What a searched column is called.
const MEMBER: &str = "__member";

/// Names computed columns of searched queries.
#[derive(Debug, Default)]
pub struct NamedMembers;

impl OptimizerRule for NamedMembers {
    fn name(&self) -> &'static str {
        "nearfar_named_members"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(_) => plan.map_expressions(|expr| expr.transform_down(name_member)),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn name_member(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InSubquery(mut search) = expr else {
        return Ok(Transformed::no(expr));
    };
    let Some(named) = with_name(&search)? else {
        return Ok(Transformed::no(Expr::InSubquery(search)));
    };
    search.subquery.subquery = Arc::new(named);
    Ok(Transformed::yes(Expr::InSubquery(search)))
}

/// The query with a name of its own for its column, if that is computed.
fn with_name(search: &InSubquery) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = search.subquery.subquery.as_ref() else {
        return Ok(None);
    };
    let [member] = projection.expr.as_slice() else {
        return Ok(None);
    };
    let computed = member.clone().unalias();
    let is_named = matches!(member, Expr::Alias(alias) if alias.name == MEMBER);
    if is_named || matches!(computed, Expr::Column(_)) {
        return Ok(None);
    }
    let named = vec![computed.alias(MEMBER)];
    let projection = Projection::try_new(named, Arc::clone(&projection.input))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}
