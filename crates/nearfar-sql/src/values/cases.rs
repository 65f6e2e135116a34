//! `CASE` keeps what its branches are declared as, where all agree; DataFusion knows their Arrow types only.

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, Case};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::named::{has_expr, replace_expressions};

/// The plan with what is declared of its columns that are a `CASE`.
///
/// # Errors
/// A plan whose types do not fit together.
pub fn with_declared_cases(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_changed = false;
    let plan = plan.transform_up(|plan| {
        let is_projection = matches!(plan, LogicalPlan::Projection(_));
        if is_projection && has_expr(&plan, |expr| matches!(expr, Expr::Case(_)))? {
            let schema = merge_schema(&plan.inputs());
            let plan = replace_expressions(plan, |expr| declared(expr, &schema))?;
            has_changed |= plan.transformed;
            return Ok(plan);
        }
        match has_changed {
            true => Ok(Transformed::yes(plan.recompute_schema()?)),
            false => Ok(Transformed::no(plan)),
        }
    })?;
    Ok(plan.data)
}

fn declared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (relation, name) = expr.qualified_name();
    let case = match &expr {
        Expr::Alias(Alias {
            expr,
            metadata: None,
            ..
        }) => expr.as_ref(),
        other => other,
    };
    let Expr::Case(case) = case else {
        return Ok(Transformed::no(expr));
    };
    let Some(metadata) = common_metadata(case, schema)? else {
        return Ok(Transformed::no(expr));
    };
    let expr = expr.unalias();
    Ok(Transformed::yes(expr.alias_qualified_with_metadata(
        relation,
        name,
        Some(metadata),
    )))
}

/// What is said of the values of all branches but those that are null.
fn common_metadata(case: &Case, schema: &DFSchema) -> Result<Option<FieldMetadata>> {
    let branches = case.when_then_expr.iter().map(|(_, then)| then);
    let mut common = None;
    for branch in branches.chain(&case.else_expr) {
        if matches!(branch.as_ref(), Expr::Literal(ScalarValue::Null, _)) {
            continue;
        }
        let metadata = branch.metadata(schema)?;
        match &common {
            Some(common) if *common != metadata => return Ok(None),
            _ => common = Some(metadata),
        }
    }
    Ok(common.filter(|metadata| !metadata.is_empty()))
}
