//! Which windows are evaluated all partitions of a batch at a time.

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::SortedWindowExec;
use crate::optimize::replaced_by_need;
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
        replaced_by_need(&plan, &|plan, _| {
            let own = SortedWindowExec::in_place_of(plan);
            Ok(own.map(|own| Arc::new(own) as _))
        })
    }

    fn name(&self) -> &'static str {
        "nearfar_sorted_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
