//! Physical rules that put other operators in the place of aggregates, below them too.

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

/// A rule that looks at one aggregate after the other, from the scans up.
pub struct AggregateRule {
    /// What logs and errors call it.
    pub name: &'static str,
    /// Whether a session has it.
    pub is_on: fn(&Settings) -> bool,
    /// The plan with the same rows for an aggregate, if there is one.
    pub replace: fn(&AggregateExec) -> Result<Option<Plan>>,
}

impl fmt::Debug for AggregateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PhysicalOptimizerRule for AggregateRule {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_none_or(self.is_on) {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(match aggregate.map(self.replace).transpose()?.flatten() {
                Some(other) => Transformed::yes(other),
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
