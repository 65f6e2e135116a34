//! What is known of the side of an outer join whose rows may be missing, and below grouping sets.
//!
//! DataFusion takes `5` of `LEFT JOIN (SELECT 5 AS k, …)` for what `k` is above the join, too, where it is
//! null beside rows without a match, and leaves `k` out of sorts; so it does with `ROLLUP (k)`, whose totals
//! have no `k`. Columns that are equal below are not equal there either, nor are a total's values in the order
//! of the rows. All of that is hidden from it, also while the query runs: a sort whose input is known to be in
//! order does nothing.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

use crate::plan_rule::PlanRule;
use crate::transparent::transparent;

/// Puts a node below outer joins and grouping sets that knows of no constants and equal columns.
pub const HIDE_CONSTANTS: PlanRule = PlanRule {
    name: "nearfar_hide_outer_constants",
    rewrite: |plan| plan.transform_up(hide).data(),
};

fn hide(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(is_missing) = may_be_missing(node.as_ref()) else {
        return Ok(Transformed::no(node));
    };
    // Totals have no order; what a join keeps of one is for the join to say.
    let keeps_order = !node.is::<AggregateExec>();
    let has_to_hide = |input: &dyn ExecutionPlan| {
        let known = input.equivalence_properties();
        !known.eq_group().is_empty() || !(keeps_order || known.oeq_class().is_empty())
    };
    let mut has_changed = false;
    let inputs: Vec<Arc<dyn ExecutionPlan>> = node
        .children()
        .into_iter()
        .zip(is_missing)
        .map(|(input, is_missing)| {
            if !is_missing || !has_to_hide(input.as_ref()) {
                return Arc::clone(input);
            }
            has_changed = true;
            Arc::new(VaryingExec::new(Arc::clone(input), keeps_order)) as _
        })
        .collect();
    match has_changed {
        true => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(inputs, options).map(Transformed::yes)
        }
        false => Ok(Transformed::no(node)),
    }
}

/// For each input, whether there are rows above in which its values are null.
fn may_be_missing(node: &dyn ExecutionPlan) -> Option<Vec<bool>> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let is_of_sets = aggregate.group_expr().has_grouping_set();
        return is_of_sets.then(|| vec![true]);
    }
    Some(match join_type(node)? {
        JoinType::Left => vec![false, true],
        JoinType::Right => vec![true, false],
        JoinType::Full => vec![true, true],
        _ => return None,
    })
}

fn join_type(node: &dyn ExecutionPlan) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>();
    let nested = node.downcast_ref::<NestedLoopJoinExec>();
    let merge = node.downcast_ref::<SortMergeJoinExec>();
    hash.map(|join| *join.join_type())
        .or_else(|| nested.map(|join| *join.join_type()))
        .or_else(|| merge.map(|join| join.join_type()))
}

/// The rows of its input, of which no column is known to be constant, or to equal another.
#[derive(Debug)]
struct VaryingExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether the order of the rows is known.
    keeps_order: bool,
    properties: Arc<PlanProperties>,
}

impl VaryingExec {
    fn new(input: Arc<dyn ExecutionPlan>, keeps_order: bool) -> Self {
        let known = input.properties();
        let orderings = known.equivalence_properties().oeq_class().iter().cloned();
        let orderings = orderings.filter(|_| keeps_order);
        let equivalences = EquivalenceProperties::new_with_orderings(input.schema(), orderings);
        let properties = PlanProperties::new(
            equivalences,
            known.output_partitioning().clone(),
            known.emission_type,
            known.boundedness,
        );
        Self {
            input,
            keeps_order,
            properties: Arc::new(properties),
        }
    }

    /// The same over another input. Properties are kept where the input's are the same ones, so that nothing
    /// above has to be made anew, which would cut off filters.
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        if !Arc::ptr_eq(self.input.properties(), input.properties()) {
            return Self::new(input, self.keeps_order);
        }
        Self {
            input,
            keeps_order: self.keeps_order,
            properties: Arc::clone(&self.properties),
        }
    }
}

/// How [`varying`] makes the node that `node` is over another input, if it is one: whether it keeps the order.
pub fn varying_order(node: &dyn ExecutionPlan) -> Option<bool> {
    let node = (node as &dyn std::any::Any).downcast_ref::<VaryingExec>()?;
    Some(node.keeps_order)
}

/// A node over `input` that knows of no constants and equal columns.
pub fn varying(input: Arc<dyn ExecutionPlan>, keeps_order: bool) -> Arc<dyn ExecutionPlan> {
    Arc::new(VaryingExec::new(input, keeps_order))
}

impl DisplayAs for VaryingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaryingExec")
    }
}

impl ExecutionPlan for VaryingExec {
    fn name(&self) -> &str {
        "VaryingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    transparent!(but properties, |this: &Self, input| this.with_input(input));

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
