//! Conditions on casts and quotients that say nothing of the columns within them.
//!
//! DataFusion's filter computes bounds of columns backwards through casts and arithmetic, as if each had one
//! value for each result. `time::date = '2020-02-29'` leaves a single time then, `number / 2 = 3` a single
//! number, and a sort by what is thought to be constant is left out. Other bounds end as an error.
//! It computes none through tests for truth.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::optimizer::ApplyOrder;

use super::condition_rule::ConditionRule;

/// Tests the first condition of a filter that has a cast or arithmetic in it for truth, which is enough for
/// the filter to compute no bounds. Scans compute none, and have their conditions already.
pub const OPAQUE_CONDITIONS: ConditionRule = ConditionRule {
    name: "nearfar_opaque_conditions",
    order: ApplyOrder::BottomUp,
    replace: opaque,
};

fn opaque(predicate: &Expr, _: &DFSchema) -> Result<Option<Expr>> {
    let parts = split_conjunction(predicate);
    let first = parts.iter().position(|part| computes(part));
    let is_opaque = parts.iter().any(|part| matches!(part, Expr::IsTrue(_)));
    let (Some(first), false) = (first, is_opaque) else {
        return Ok(None);
    };
    let mut parts: Vec<Expr> = parts.into_iter().cloned().collect();
    parts[first] = Expr::IsTrue(Box::new(parts[first].clone()));
    Ok(conjunction(parts))
}

/// Whether a condition has a cast or arithmetic in it.
fn computes(condition: &Expr) -> bool {
    let computes = |part: &Expr| {
        Ok(match part {
            Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) => true,
            Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
                op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
            ),
            _ => false,
        })
    };
    condition.exists(computes).unwrap_or(true)
}
