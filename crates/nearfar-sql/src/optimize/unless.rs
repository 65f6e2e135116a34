//! Rules that leave some nodes or plans as they are.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// A rule that does not see what it would make wrong, or has nothing to do for.
#[derive(Debug)]
pub struct Unless {
    /// The rule.
    pub rule: Arc<dyn OptimizerRule + Send + Sync>,
    /// Whether to leave out a node, or a plan if the rule goes through it by itself.
    pub is_left_out: fn(&LogicalPlan) -> bool,
}

impl OptimizerRule for Unless {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match (self.is_left_out)(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}
