//! Conditions that can fail, such as divisions, behind those that keep what would fail away from them.
//!
//! Operators evaluate all parts of a filter for all rows of a batch. PostgreSQL evaluates them one after
//! another, and `x <> 0 AND 10 / x > 1` never divides by zero there.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit, when};
use datafusion::optimizer::ApplyOrder;

use super::condition_rule::ConditionRule;

/// The rule, which comes last.
pub const GUARD_CONDITIONS: ConditionRule = ConditionRule {
    name: "nearfar_guard_conditions",
    order: ApplyOrder::BottomUp,
    replace: guarded,
};

/// The condition with each part that can fail evaluated only where all before it are true; none if there
/// is nothing to guard.
fn guarded(predicate: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let parts = split_conjunction(predicate);
    if parts.len() < 2 {
        return Ok(None);
    }
    let mut safe = Vec::new();
    let mut failing = Vec::new();
    for part in parts {
        match can_fail(part, schema)? {
            true => failing.push(part.clone()),
            false => safe.push(part.clone()),
        }
    }
    let Some(mut rest) = failing.pop() else {
        return Ok(None);
    };
    for part in failing.into_iter().rev().chain(conjunction(safe.clone())) {
        rest = when(part, rest).otherwise(lit(false))?;
    }
    safe.push(rest);
    Ok(conjunction(safe))
}

/// Whether an expression can fail for some values. What stands in a `CASE` is guarded by it.
fn can_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut can_fail = false;
    expr.apply(|expr| {
        match expr {
            Expr::Case(_) => return Ok(TreeNodeRecursion::Jump),
            Expr::BinaryExpr(BinaryExpr { op, right, .. }) => {
                let divides = matches!(op, Operator::Divide | Operator::Modulo);
                can_fail |= divides && !matches!(right.as_ref(), Expr::Literal(..));
            }
            Expr::Cast(cast) if !matches!(cast.expr.as_ref(), Expr::Literal(..)) => {
                let of_text = cast.expr.get_type(schema)?.is_string();
                can_fail |= of_text && !cast.field.data_type().is_string();
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(can_fail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::col;

    #[test]
    fn divisions_come_last_and_once() {
        let divides = (lit(10) / col("x")).gt(lit(1));
        let predicate = divides.clone().and(col("x").not_eq(lit(0)));
        let schema = DFSchema::empty();
        let guarded_once = guarded(&predicate, &schema)
            .expect("a condition")
            .expect("guarded");
        let expected = "x != Int32(0) AND CASE WHEN x != Int32(0) THEN Int32(10) / x > Int32(1) \
                        ELSE Boolean(false) END";
        assert_eq!(guarded_once.to_string(), expected);
        assert_eq!(guarded(&guarded_once, &schema).expect("a condition"), None);
        assert_eq!(guarded(&divides, &schema).expect("a condition"), None);
    }
}
