//! Conditions on casts and quotients that say nothing of the columns within them.
//!
//! DataFusion's filter computes bounds of columns backwards through casts and arithmetic, as if each had one
//! value for each result. `time::date = '2020-02-29'` leaves a single time then, `number / 2 = 3` a single
//! number, and a sort by what is thought to be constant is left out. Other bounds end as an error.
//! It computes none through tests for truth.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Tests the first condition of a filter that has a cast or arithmetic in it for truth, which is enough for
/// the filter to compute no bounds. Scans compute none, and have their conditions already.
#[derive(Debug, Default)]
pub struct OpaqueConditions;

impl OptimizerRule for OpaqueConditions {
    fn name(&self) -> &'static str {
        "nearfar_opaque_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let parts = split_conjunction(&filter.predicate);
        let tests = |part: &&Expr| matches!(part, Expr::IsTrue(_));
        let first = parts.iter().position(|part| computes(part));
        let (Some(first), false) = (first, parts.iter().any(tests)) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let mut parts: Vec<Expr> = parts.into_iter().cloned().collect();
        parts[first] = Expr::IsTrue(Box::new(parts[first].clone()));
        let predicate = conjunction(parts).unwrap_or(filter.predicate);
        let filter = Filter::try_new(predicate, filter.input)?;
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    }
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
