//! Which windows are evaluated all partitions of a batch at a time.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::SortedWindowExec;
use crate::settings::Settings;

/// Puts a [`SortedWindowExec`] in the place of each operator for windows that can be one. Behind all rules that decide
/// about sorts.
#[derive(Debug)]
pub struct SortedWindows;

impl PhysicalOptimizerRule for SortedWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_none_or(Settings::sorted_windows) {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|plan| {
            Ok(match SortedWindowExec::in_place_of(&plan) {
                Some(own) => Transformed::yes(Arc::new(own) as _),
                None => Transformed::no(plan),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &'static str {
        "nearfar_sorted_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
