//! Which hash joins are done by keys of 64 bits.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use nearfar_kernels::{JoinPlan, JoinTier};
use nearfar_memory::TierId;
use nearfar_table::tier_models::TierModels;
use std::sync::Arc;

use super::KeyJoinExec;
use super::keys::is_key_type;
use crate::optimize::replaced_by_need;
use crate::settings::Settings;

/// Rows of a build side whose table no cache holds.
const LARGE_ROWS: usize = 100 << 20;

/// Puts a [`KeyJoinExec`] in the place of each hash join that can be one. Behind all rules that give joins another
/// type, mode or filter.
#[derive(Debug)]
pub struct KeyJoins {
    models: TierModels,
}

impl KeyJoins {
    /// A rule for a machine with these emulated tiers.
    pub fn new(models: TierModels) -> Self {
        Self { models }
    }

    /// Whether a large table of the heap is so far that keys are looked for in a filter before.
    fn is_filtered(&self, settings: &Settings) -> bool {
        let tier = settings.heap_tier();
        match self.models.of(tier) {
            Some(model) => {
                let parameters = model.parameters();
                let tier = JoinTier {
                    latency_ns: parameters.latency_ns,
                    outstanding: parameters.outstanding_random,
                    ..JoinTier::NEAR
                };
                let plan = JoinPlan::choose(LARGE_ROWS, tier);
                plan.is_filtered || plan.partitions_log2 > 0
            }
            None => tier != TierId::NEAR,
        }
    }
}

impl PhysicalOptimizerRule for KeyJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_none_or(Settings::key_joins) {
            return Ok(plan);
        }
        let is_filtered = settings.is_some_and(|settings| self.is_filtered(settings));
        replaced_by_need(&plan, &|plan, needs_order| {
            key_join(plan, needs_order, is_filtered)
        })
    }

    fn name(&self) -> &'static str {
        "nearfar_key_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join in the place of a hash join that can be one. Where somebody `needs_order`, one whose rows come in an order stays.
fn key_join(
    plan: &Arc<dyn ExecutionPlan>,
    needs_order: bool,
    is_filtered: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let join = plan.downcast_ref::<HashJoinExec>();
    match join.filter(|join| is_by_key(join) && !(needs_order && is_ordered(join))) {
        Some(join) => {
            let join = Arc::new(join.builder().build()?);
            Ok(Some(Arc::new(KeyJoinExec::new(join, is_filtered))))
        }
        None => Ok(None),
    }
}

/// Whether the rows of a join are known to come in an order: rows that have several partners do not here.
fn is_ordered(join: &HashJoinExec) -> bool {
    join.properties().output_ordering().is_some()
}

fn is_by_key(join: &HashJoinExec) -> bool {
    use JoinType as J;
    let is_possible = match join.join_type() {
        J::Inner | J::Left | J::LeftSemi | J::LeftAnti => true,
        J::Right | J::Full | J::RightSemi | J::RightAnti => join.filter().is_none(),
        J::LeftMark | J::RightMark => false,
    };
    let (left, right) = (join.left().schema(), join.right().schema());
    let mut keys = join.on().iter();
    is_possible
        && !join.null_aware
        && join.fetch().is_none()
        && *join.partition_mode() != PartitionMode::Auto
        && join.null_equality() == NullEquality::NullEqualsNothing
        && keys.all(|(of_left, of_right)| {
            match (of_left.data_type(&left), of_right.data_type(&right)) {
                (Ok(a), Ok(b)) => a == b && is_key_type(&a),
                _ => false,
            }
        })
}
