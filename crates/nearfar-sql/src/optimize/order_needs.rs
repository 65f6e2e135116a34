//! Who relies on the order of an operator's rows.

use datafusion::error::Result;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

use super::shared::SharedExec;
use crate::datafusion_names::ORDERED_AGGREGATES;

type Plan = Arc<dyn ExecutionPlan>;

/// `plan` with operators replaced, from the inputs to the root. `replace` is asked of each, and told whether somebody relies on
/// the order of its rows: an operator above, or who reads the plan's rows, if they are said to be ordered. Operators above keep
/// what is known of them.
///
/// # Errors
/// What `replace` reports, and operators that refuse their inputs.
pub fn replaced_by_need(
    plan: &Plan,
    replace: &dyn Fn(&Plan, bool) -> Result<Option<Plan>>,
) -> Result<Plan> {
    let needs_order = plan.output_ordering().is_some();
    replaced(plan, needs_order, replace)
}

fn replaced(
    plan: &Plan,
    needs_order: bool,
    replace: &dyn Fn(&Plan, bool) -> Result<Option<Plan>>,
) -> Result<Plan> {
    let kept = plan.maintains_input_order();
    let before = plan.children();
    let inputs = before.iter().enumerate().map(|(at, input)| {
        let hands_on = needs_order && kept.get(at).is_some_and(|kept| *kept);
        let needs_order = hands_on || relies_on_order(plan.as_ref(), at, input)?;
        replaced(input, needs_order, replace)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let is_same = before.iter().zip(&inputs).all(|(a, b)| Arc::ptr_eq(a, b));
    let plan = match is_same {
        true => Arc::clone(plan),
        false => {
            let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Arc::clone(plan).replace_children(inputs, same)?
        }
    };
    Ok(replace(&plan, needs_order)?.unwrap_or(plan))
}

/// Whether an operator takes its input's rows for ordered, if they are said to be.
fn relies_on_order(plan: &dyn ExecutionPlan, at: usize, input: &Plan) -> Result<bool> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        // It ends early by the columns in whose order the rows come already.
        let input = input.equivalence_properties();
        let (ordered, _) = input.extract_common_sort_prefix(sort.expr().clone())?;
        return Ok(!ordered.is_empty());
    }
    let required = plan.required_input_ordering();
    let is_required = required.get(at).is_some_and(Option::is_some);
    Ok(is_required
        || plan.is::<PartialSortExec>()
        || takes_first_rows(plan)
        || plan.downcast_ref::<AggregateExec>().is_some_and(sees_order)
        // It may be left in the place of another one, whose rows somebody takes for ordered.
        || (plan.is::<SharedExec>() && plan.output_ordering().is_some()))
}

/// Whether the first rows are others where the order is another one.
fn takes_first_rows(plan: &dyn ExecutionPlan) -> bool {
    plan.fetch().is_some() || plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
}

/// Whether an aggregate is of rows in their order. It requires none where one is of use to it only, and where the
/// statement has ordered rows below.
fn sees_order(aggregate: &AggregateExec) -> bool {
    let mut functions = aggregate.aggr_expr().iter();
    functions.any(|function| {
        !function.order_bys().is_empty() || ORDERED_AGGREGATES.contains(&function.fun().name())
    })
}
