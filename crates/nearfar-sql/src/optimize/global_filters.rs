//! Conditions on an aggregate over all rows stay above it.
//!
//! `push_down_filter` takes a condition without columns, such as the null that is left of
//! `HAVING NOT max(a) = max(a)`, below an aggregate: without groups, that gives a row whatever its input.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// That rule, which sees no such condition.
#[derive(Debug)]
pub struct KeepGlobalFilters(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepGlobalFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match is_of_all_rows(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

fn is_of_all_rows(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Filter(filter)
        if matches!(&*filter.input, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty()))
}
