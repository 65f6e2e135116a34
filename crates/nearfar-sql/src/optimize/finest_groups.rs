//! Grouping sets of the finest groups.
//!
//! DataFusion's first aggregate over `ROLLUP (a, b, c)` looks every row up once for each grouping set. Here it
//! makes groups of all columns first, by which most inputs become far smaller, and the grouping sets are made of
//! the states of those groups.

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::collections::HashSet;
use std::sync::Arc;

use super::aggregates::with_aggregates;
use super::outer_constants::varying;
use super::states::{has_small_state, over_states};
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;

/// Puts an aggregate of the finest groups below the first one of grouping sets.
pub const FINEST_GROUPS: SwitchedRule = SwitchedRule {
    name: "nearfar_finest_groups",
    is_on: Settings::group_finest_first,
    rewrite: |plan| with_aggregates(plan, of_finest),
};

/// Whether an aggregate makes several groups of each row, from states that can be put together.
fn is_of_sets(aggregate: &AggregateExec) -> bool {
    let sets = aggregate.group_expr();
    let groups = sets.groups();
    let mut functions = aggregate.aggr_expr().iter();
    let mut columns = 0..sets.expr().len();
    // The number of a set has a bit for each column, and more of them where a set is there twice.
    let is_distinct = groups.iter().collect::<HashSet<_>>().len() == groups.len();
    *aggregate.mode() == AggregateMode::Partial
        && aggregate.limit_options().is_none()
        && groups.len() > 1
        && is_distinct
        && columns.len() <= u64::BITS as usize
        // A column that no set has would make the groups finer for nothing.
        && columns.all(|column| groups.iter().any(|is_missing| !is_missing[column]))
        && functions.all(|function| has_small_state(function))
}

/// The same groups and states, made of those of the finest groups.
fn of_finest(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !is_of_sets(aggregate) {
        return Ok(None);
    }
    let sets = aggregate.group_expr();
    let finest = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(sets.expr().to_vec()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    // Totals are neither constant where their rows are, nor in their order.
    let states = varying(Arc::new(finest), false);
    let columns = sets.expr().iter().enumerate().map(|(index, (_, name))| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
        (column, name.clone())
    });
    let of_sets = PhysicalGroupBy::new(
        columns.collect(),
        sets.null_expr().to_vec(),
        sets.groups().to_vec(),
        true,
    );
    let functions = over_states(aggregate.aggr_expr(), sets.expr().len(), &states.schema())?;
    let grouped = AggregateExec::try_new(
        AggregateMode::Partial,
        of_sets,
        functions,
        vec![None; aggregate.aggr_expr().len()],
        Arc::clone(&states),
        states.schema(),
    )?;
    let is_same = grouped.schema() == aggregate.schema();
    Ok(is_same.then(|| Arc::new(grouped) as _))
}
