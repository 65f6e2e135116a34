//! Physical rules that look at nothing but the plan, and whether a session has them.

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::sync::Arc;

use crate::settings::Settings;

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

/// A rule that gives a plan's rows and columns by another plan, if a session has it.
pub struct SwitchedRule {
    /// What logs and errors call it.
    pub name: &'static str,
    /// Whether a session has it.
    pub is_on: fn(&Settings) -> bool,
    /// The other plan, or the same.
    pub rewrite: fn(Plan) -> Result<Plan>,
}

impl fmt::Debug for SwitchedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PhysicalOptimizerRule for SwitchedRule {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let settings = config.extensions.get::<Settings>();
        match settings.is_none_or(self.is_on) {
            true => (self.rewrite)(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
