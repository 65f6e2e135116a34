//! Physical rules that look at nothing but the plan.

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A rule that gives a plan's rows and columns by another plan.
#[derive(Debug)]
pub struct PlanRule {
    /// What logs and errors call it.
    pub name: &'static str,
    /// The other plan, or the same.
    pub rewrite: fn(Plan) -> Result<Plan>,
}

/// A physical plan.
type Plan = Arc<dyn ExecutionPlan>;

impl PhysicalOptimizerRule for PlanRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        (self.rewrite)(plan)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
