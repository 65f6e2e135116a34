//! Operators that stand in the place of one of DataFusion's: how they are put there, and what they have from it.

use datafusion::error::Result;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::Arc;

use super::described;
use crate::optimize::replaced_by_need;

/// A plan.
type Plan = Arc<dyn ExecutionPlan>;

/// `plan` with operators in the place of those of DataFusion for which `operator` has one.
///
/// # Errors
/// Operators that refuse their inputs.
pub fn in_place(plan: &Plan, operator: fn(&Plan) -> Option<Plan>) -> Result<Plan> {
    replaced_by_need(plan, &|plan, _| Ok(operator(plan)))
}

/// Shows an operator as the one of DataFusion that it stands for, by its own name.
pub fn show(
    name: &str,
    inner: &dyn ExecutionPlan,
    format: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match format {
        DisplayFormatType::TreeRender => inner.fmt_as(format, f),
        _ => write!(f, "{name}{}", described(inner, format)),
    }
}

/// Those methods of [`ExecutionPlan`] that an operator has from the one that it stands for, its field `$inner`: all but
/// its name and its execution. It has `metrics` of its own, and `in_place_of` makes it again over other inputs, where the
/// inner operator may be left alone.
macro_rules! stands_for {
    ($inner:ident) => {
        fn downcast_delegate(&self) -> Option<&dyn datafusion::physical_plan::ExecutionPlan> {
            Some(self.$inner.as_ref())
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.$inner.properties()
        }

        fn input_distribution_requirements(
            &self,
        ) -> datafusion::physical_plan::InputDistributionRequirements {
            self.$inner.input_distribution_requirements()
        }

        fn required_input_ordering(
            &self,
        ) -> Vec<Option<datafusion::physical_expr::OrderingRequirements>> {
            self.$inner.required_input_ordering()
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            self.$inner.maintains_input_order()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            self.$inner.children()
        }

        fn apply_expressions(
            &self,
            f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::error::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            self.$inner.apply_expressions(f)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>
        {
            let recomputed = datafusion::physical_plan::ReplaceChildrenOptions::new(
                datafusion::physical_plan::ChildrenPropertiesMode::Recompute,
            );
            self.replace_children(children, recomputed)
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            options: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>
        {
            let inner = std::sync::Arc::clone(&self.$inner).replace_children(children, options)?;
            Ok(match Self::in_place_of(&inner) {
                Some(own) => std::sync::Arc::new(own),
                None => inner,
            })
        }

        fn metrics(&self) -> Option<datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::statistics::ChildStats> {
            self.$inner.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            args: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> datafusion::error::Result<std::sync::Arc<datafusion::common::Statistics>> {
            self.$inner.statistics_from_inputs(inputs, args)
        }

        fn cardinality_effect(
            &self,
        ) -> datafusion::physical_plan::execution_plan::CardinalityEffect {
            self.$inner.cardinality_effect()
        }
    };
}

pub(super) use stands_for;
