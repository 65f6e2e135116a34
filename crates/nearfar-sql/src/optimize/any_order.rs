//! Scans of far data whose order nobody relies on.

use datafusion::common::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::order_needs::replaced_by_need;
use crate::scan::TableScan;
use crate::settings::Settings;

/// Lets scans of far data read in any order if nobody relies on the order of their rows, so that they read
/// what other scans read at the time. Behind all rules that decide about sorts.
#[derive(Debug)]
pub struct ScansInAnyOrder;

impl PhysicalOptimizerRule for ScansInAnyOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_some_and(Settings::cooperative_scans) {
            return Ok(plan);
        }
        replaced_by_need(&plan, &|plan, needs_order| {
            let scan = TableScan::of(plan.as_ref()).filter(|_| !needs_order);
            let scan = scan.and_then(TableScan::in_any_order);
            Ok(scan.map(|scan| DataSourceExec::from_data_source(scan) as _))
        })
    }

    fn name(&self) -> &'static str {
        "nearfar_scans_in_any_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
