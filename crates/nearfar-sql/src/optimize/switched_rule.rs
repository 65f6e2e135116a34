//! Physical rules that a setting switches off.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use std::fmt;
use std::sync::Arc;

use crate::settings::Settings;

/// A physical plan.
type Plan = Arc<dyn ExecutionPlan>;

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

/// `plan` with other operators in the place of some of its aggregates, from the scans up.
///
/// # Errors
/// Those of `other`.
pub fn with_aggregates(
    plan: Plan,
    other: impl Fn(&AggregateExec) -> Result<Option<Plan>>,
) -> Result<Plan> {
    let replaced = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(&other).transpose()?.flatten() {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}
