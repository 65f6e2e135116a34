//! Which aggregates are computed in their scans.

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::ScanAggregateExec;
use crate::optimize::replaced_by_need;
use crate::settings::Settings;

/// Puts a [`ScanAggregateExec`] in the place of each aggregate of the rows of a scan that can be one. Behind all rules that
/// decide about expressions and sorts.
#[derive(Debug)]
pub struct ScanAggregates;

impl PhysicalOptimizerRule for ScanAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_none_or(Settings::scan_aggregates) {
            return Ok(plan);
        }
        replaced_by_need(&plan, &|plan, _| {
            let own = ScanAggregateExec::in_place_of(plan);
            Ok(own.map(|own| Arc::new(own) as _))
        })
    }

    fn name(&self) -> &'static str {
        "nearfar_scan_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
