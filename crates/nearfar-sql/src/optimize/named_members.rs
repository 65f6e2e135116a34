//! Names for what `IN (query)` searches.
//!
//! Types that are settled make a cast of the query's column, which DataFusion names as it names the column, and
//! users give what they compute of a column its name. Where the query's condition refers to the outer query, the
//! column comes to stand beside that, and an operator of which two columns have one name is refused.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::ApplyOrder;
use std::sync::Arc;

use super::condition_rule::ConditionRule;

/// What a searched column is called.
const MEMBER: &str = "__member";

/// Names computed columns of searched queries.
pub const NAMED_MEMBERS: ConditionRule = ConditionRule {
    name: "nearfar_named_members",
    order: ApplyOrder::TopDown,
    replace: with_names,
};

fn with_names(predicate: &Expr, _: &DFSchema) -> Result<Option<Expr>> {
    let searches = |expr: &Expr| Ok(matches!(expr, Expr::InSubquery(_)));
    if !predicate.exists(searches)? {
        return Ok(None);
    }
    let named = predicate.clone().transform_down(name_member)?;
    Ok(named.transformed.then_some(named.data))
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
