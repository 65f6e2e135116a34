//! The rule that puts operators' heaps on the session's heap tablespace.

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use nearfar_memory::TierId;
use nearfar_table::tier_models::TierModels;
use std::sync::Arc;

use super::exec::{Input, OperatorInputExec, OperatorMemoryExec};
use super::usage::{Operator, Usage};
use crate::operators::scan_aggregate;
use crate::settings::Settings;

/// Wraps hash joins, aggregations and sorts of plans whose heap is not near.
#[derive(Debug)]
pub struct OperatorMemoryRule {
    models: TierModels,
}

impl OperatorMemoryRule {
    /// A rule for a machine with these emulated tiers.
    pub fn new(models: TierModels) -> Self {
        Self { models }
    }

    fn wrap(
        &self,
        node: Arc<dyn ExecutionPlan>,
        settings: &Settings,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(operator) = operator(node.as_ref()) else {
            return Ok(Transformed::no(node));
        };
        let tier = settings.heap_tier();
        let partitions = node.output_partitioning().partition_count();
        let usage = Usage::new(
            (tier, settings.heap_tier_name()),
            self.models.of(tier).cloned(),
            operator,
            partitions,
        );
        let inputs = node
            .children()
            .into_iter()
            .enumerate()
            .map(|(index, input)| {
                let role = match (operator, index) {
                    (Operator::HashJoin { .. }, 0) => Input::Build,
                    (Operator::HashJoin { .. }, _) => Input::Probe,
                    _ => Input::Rows,
                };
                Arc::new(OperatorInputExec::new(
                    Arc::clone(input),
                    Arc::clone(&usage),
                    role,
                )) as _
            });
        let inputs = inputs.collect();
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let node = node.replace_children(inputs, same)?;
        Ok(Transformed::yes(Arc::new(OperatorMemoryExec::new(
            node, usage,
        ))))
    }
}

/// What a node keeps on the heap, if it does. Sorts of the first few rows only and aggregations
/// that need no table are left out.
fn operator(node: &dyn ExecutionPlan) -> Option<Operator> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(Operator::HashJoin {
            shared_table: *join.partition_mode() == PartitionMode::CollectLeft,
            build_columns: build_columns(join) as u64,
        });
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let has_table = !aggregate.group_expr().is_empty() && node.name() != scan_aggregate::NAME;
        return has_table.then_some(Operator::Aggregation);
    }
    let sort = node.downcast_ref::<SortExec>()?;
    sort.fetch().is_none().then_some(Operator::Sort)
}

/// Columns of a join's output that are read from its build side.
fn build_columns(join: &HashJoinExec) -> usize {
    use JoinType::{RightAnti, RightMark, RightSemi};
    if matches!(join.join_type(), RightSemi | RightAnti | RightMark) {
        return 0;
    }
    let build = join.left().schema().fields().len();
    match &join.projection {
        Some(projection) => projection.iter().filter(|column| **column < build).count(),
        None => build,
    }
}

impl PhysicalOptimizerRule for OperatorMemoryRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match config.extensions.get::<Settings>() {
            Some(settings) if settings.heap_tier() != TierId::NEAR => {
                Ok(plan.transform_up(|node| self.wrap(node, settings))?.data)
            }
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "operator_memory"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
