//! Subplans that stand in a plan several times are computed once.
//!
//! DataFusion plans a common table expression, or a view, as often as a statement names it. What comes out of
//! its other rules is a tree in which the same subtree stands several times. [`SHARE_SUBPLANS`] finds
//! subtrees that are equal ([`same`]) and costly, and puts a [`SharedExec`] over each of them, which lets no
//! filter through that is made while the query runs: it would be one reader's. [`JOIN_SHARED`], behind all rules
//! that change operators, leaves one of the equal subtrees in the plan. Its rows are kept ([`kept`]) until all
//! readers have had them.

mod exec;
mod kept;
mod rows;
mod same;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

pub use exec::SharedExec;

use exec::SharedPlan;
use same::{Classes, Subtree};

use crate::plan_rule::PlanRule;
use crate::settings::Settings;

/// Finds subplans that are to be computed once. Before filters are handed down that are made while the query
/// runs.
#[derive(Debug)]
pub struct ShareSubplans;

impl PhysicalOptimizerRule for ShareSubplans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        // What is below a recursive query runs again and again.
        if !settings.is_none_or(Settings::share_subplans) || is_recursive(plan.as_ref()) {
            return Ok(plan);
        }
        let mut classes = Classes::default();
        let subtree = classes.add(&plan);
        let shared: Vec<Option<Arc<SharedPlan>>> = classes.shared().collect();
        match shared.iter().any(Option::is_some) {
            true => marked(&plan, &subtree, &shared),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "nearfar_share_subplans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_recursive(plan: &dyn ExecutionPlan) -> bool {
    let inputs = plan.children().into_iter();
    plan.is::<RecursiveQueryExec>() || inputs.into_iter().any(|input| is_recursive(input.as_ref()))
}

/// `plan` with a [`SharedExec`] over all that is shared.
fn marked(
    plan: &Arc<dyn ExecutionPlan>,
    subtree: &Subtree,
    shared: &[Option<Arc<SharedPlan>>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter().zip(&subtree.inputs);
    let inputs = inputs.map(|(input, subtree)| marked(input, subtree, shared));
    let plan = with_inputs(plan, inputs.collect::<Result<_>>()?)?;
    Ok(match &shared[subtree.class] {
        Some(shared) => Arc::new(SharedExec::new(Arc::clone(shared), plan)),
        None => plan,
    })
}

/// `plan` over `inputs` of the same properties.
fn with_inputs(
    plan: &Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let before = plan.children();
    if before.iter().zip(&inputs).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(Arc::clone(plan));
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(plan).replace_children(inputs, same)
}

/// Leaves the first of equal subplans in the plan.
pub const JOIN_SHARED: PlanRule = PlanRule {
    name: "nearfar_join_shared",
    rewrite: |plan| joined(&plan),
};

/// Lets go of what was kept of subplans for readers that will not come: `plan` does not run any more.
pub fn forget_runs(plan: &dyn ExecutionPlan) {
    if let Some(shared) = plan.downcast_ref::<SharedExec>() {
        shared.forget_runs();
    }
    let inputs = plan.children().into_iter();
    inputs.for_each(|input| forget_runs(input.as_ref()));
}

fn joined(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(shared) = plan.downcast_ref::<SharedExec>()
        && let Some(again) = shared.again()
    {
        return Ok(again);
    }
    let inputs = plan.children().into_iter().map(joined);
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match (plan.downcast_ref::<SharedExec>(), &inputs[..]) {
        (Some(shared), [input]) => Ok(shared.first(Arc::clone(input))),
        _ => with_inputs(plan, inputs),
    }
}
