//! Groups of rows before they are joined.
//!
//! Sales by the names of customers are grouped by names, many of them and long, of each sale, although all of a customer's
//! sales go into one group. Where joins only add to what rows are grouped by, rows are first grouped by the keys of the
//! joins, which are few and short; what is joined, and grouped by what the joins have added, are the states of these groups
//! (Yan and Larson, "Eager Aggregation and Lazy Aggregation", VLDB 1995).

mod below;
mod estimate;

use datafusion::error::Result;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::sync::Arc;

use super::aggregates::with_aggregates;
use super::places::{columns_of, moved};
use super::states::{has_small_state, over_states};
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;
use below::{Wanted, below};

/// Puts an aggregate by keys below joins.
pub const EARLY_GROUPS: SwitchedRule = SwitchedRule {
    name: "nearfar_early_groups",
    is_on: Settings::group_before_joins,
    rewrite: |plan| with_aggregates(plan, of_groups),
};

/// Whether an aggregate makes states of rows, which can be put together.
fn is_of_rows(aggregate: &AggregateExec) -> bool {
    let by = aggregate.group_expr();
    let mut functions = aggregate.aggr_expr().iter();
    *aggregate.mode() == AggregateMode::Partial
        && by.is_single()
        && !by.expr().is_empty()
        && aggregate.limit_options().is_none()
        && functions.all(|function| {
            has_small_state(function) && function.groups_accumulator_supported()
        })
        // Each row has a value of its own.
        && !by.expr().iter().any(|(key, _)| is_volatile(key))
}

/// The same groups and states, made of those of finer groups below joins.
fn of_groups(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !is_of_rows(aggregate) {
        return Ok(None);
    }
    let by = aggregate.group_expr();
    let wanted = Wanted {
        keys: columns_of(by.expr().iter().map(|(key, _)| key)),
        functions: aggregate.aggr_expr().to_vec(),
        filters: aggregate.filter_expr().to_vec(),
        is_joined: false,
    };
    let Some(states) = below(aggregate.input(), &wanted)? else {
        return Ok(None);
    };
    let keys = by.expr().iter().map(|(key, name)| {
        let key = moved(key, &wanted.keys)?;
        Ok((key, name.clone()))
    });
    let schema = states.schema();
    let functions = over_states(aggregate.aggr_expr(), wanted.keys.len(), &schema)?;
    let grouped = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(keys.collect::<Result<_>>()?),
        functions,
        vec![None; aggregate.aggr_expr().len()],
        states,
        schema,
    )?;
    let known = grouped.properties().equivalence_properties();
    let is_ordered = match aggregate.properties().output_ordering() {
        Some(order) => known.ordering_satisfy(order.iter().cloned())?,
        None => true,
    };
    let is_same = grouped.schema() == aggregate.schema()
        && grouped.input_order_mode() == aggregate.input_order_mode()
        && is_ordered;
    Ok(is_same.then(|| Arc::new(grouped) as _))
}
