//! Logical rules that look at nothing but conditions of filters.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// A rule that gives filters another condition, true for the same rows.
#[derive(Debug)]
pub struct ConditionRule {
    /// What logs and errors call it.
    pub name: &'static str,
    /// Whether filters in subqueries or those around them come first.
    pub order: ApplyOrder,
    /// The other condition, if one is needed, of a filter over an input with this schema.
    pub replace: fn(&Expr, &DFSchema) -> Result<Option<Expr>>,
}

impl OptimizerRule for ConditionRule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(self.order)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        match (self.replace)(&filter.predicate, filter.input.schema())? {
            Some(predicate) => {
                let filter = Filter::try_new(predicate, filter.input)?;
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        }
    }
}
