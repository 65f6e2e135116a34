//! Grouping sets of the finest groups.
//!
//! DataFusion's first aggregate over `ROLLUP (a, b, c)` looks every row up once for each grouping set. Here it
//! makes groups of all columns first, by which most inputs become far smaller, and the grouping sets are made of
//! the states of those groups.

mod totals;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Aggregate;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::collections::HashSet;
use std::sync::Arc;

use super::outer_constants::varying;
use crate::datafusion_names::ORDERED_AGGREGATES;
use crate::settings::Settings;
use totals::TotalsExec;

/// Puts an aggregate of the finest groups below the first one of grouping sets.
#[derive(Debug)]
pub struct FinestGroups;

impl PhysicalOptimizerRule for FinestGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<Settings>();
        if !settings.is_none_or(Settings::group_finest_first) {
            return Ok(plan);
        }
        let grouped = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let finest = aggregate.filter(|aggregate| is_of_sets(aggregate));
            Ok(match finest.map(of_finest).transpose()?.flatten() {
                Some(grouped) => Transformed::yes(grouped),
                None => Transformed::no(node),
            })
        });
        grouped.data()
    }

    fn name(&self) -> &'static str {
        "nearfar_finest_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an aggregate makes several groups of each row, from states that can be put together.
fn is_of_sets(aggregate: &AggregateExec) -> bool {
    let sets = aggregate.group_expr();
    let groups = sets.groups();
    let mut functions = aggregate.aggr_expr().iter();
    let mut columns = 0..sets.expr().len();
    // A number has a bit for each column, and more of them where a set is there twice.
    let is_distinct = groups.iter().collect::<HashSet<_>>().len() == groups.len();
    *aggregate.mode() == AggregateMode::Partial
        && aggregate.limit_options().is_none()
        && groups.len() > 1
        && is_distinct
        // A column that no set has would make the groups finer for nothing.
        && columns.all(|column| groups.iter().any(|is_missing| !is_missing[column]))
        && functions.all(|function| is_small(function))
}

/// Whether the state of a function is as small for many rows as for a few, and the same in whichever order they come.
fn is_small(function: &AggregateFunctionExpr) -> bool {
    let keeps_one = matches!(function.fun().name(), "min" | "max");
    let is_fixed = |field: &FieldRef| {
        let data_type = field.data_type();
        data_type.is_primitive() || *data_type == DataType::Boolean
    };
    let states = function.state_fields();
    !function.is_distinct()
        && function.order_bys().is_empty()
        && !ORDERED_AGGREGATES.contains(&function.fun().name())
        && states.is_ok_and(|fields| keeps_one || fields.iter().all(is_fixed))
}

/// The same groups and states, made of those of the finest groups.
fn of_finest(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sets = aggregate.group_expr();
    let keys = sets.expr().len();
    let functions = aggregate.aggr_expr().to_vec();
    let finest = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(sets.expr().to_vec()),
        functions.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let columns = sets.expr().iter().enumerate().map(|(index, (_, name))| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
        (column, name.clone())
    });
    let is_total = |set: &&Vec<bool>| set.iter().all(|is_missing| *is_missing);
    let totals = sets.groups().iter().filter(is_total).count();
    let others = sets.groups().iter().filter(|set| !is_total(set)).cloned();
    let of_sets = PhysicalGroupBy::new(
        columns.collect(),
        sets.null_expr().to_vec(),
        others.collect(),
        true,
    );
    let states = with_place_of_number(Arc::new(finest), keys)?;
    // Totals are neither constant where their rows are, nor in their order.
    let states = varying(states, false);
    let coarsest = coarsest(of_sets.groups());
    let grouped = AggregateExec::try_new(
        AggregateMode::PartialReduce,
        of_sets,
        functions.clone(),
        vec![None; functions.len()],
        states,
        aggregate.input_schema(),
    )?;
    let (own, wanted) = (grouped.schema(), aggregate.schema());
    // Without the total, columns may be null nowhere.
    let mut pairs = own.fields().iter().zip(wanted.fields());
    let is_same = pairs
        .all(|(own, wanted)| own.name() == wanted.name() && own.data_type() == wanted.data_type());
    if own.fields().len() != wanted.fields().len() || !is_same || (totals == 0 && own != wanted) {
        return Ok(None);
    }
    let mut grouped: Arc<dyn ExecutionPlan> = Arc::new(grouped);
    if totals > 0 {
        grouped = Arc::new(TotalsExec {
            input: grouped,
            properties: Arc::clone(aggregate.properties()),
            functions,
            keys,
            set: coarsest,
        });
    }
    Ok(Some(grouped))
}

/// The number of the set with the fewest columns, and so with the fewest groups: a bit for each column that it has
/// not, the first one highest.
fn coarsest(sets: &[Vec<bool>]) -> u64 {
    let missing = |set: &&Vec<bool>| set.iter().filter(|is_missing| **is_missing).count();
    let coarsest = sets.iter().max_by_key(missing);
    let bits = coarsest.map_or(&[][..], Vec::as_slice).iter();
    bits.fold(0, |number, is_missing| number << 1 | u64::from(*is_missing))
}

/// `states` with a column behind the keys: an aggregate of grouping sets looks for states behind the number of the set.
fn with_place_of_number(
    states: Arc<dyn ExecutionPlan>,
    keys: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = states.schema();
    let fields = schema.fields().iter().enumerate();
    let mut columns: Vec<ProjectionExpr> = fields
        .map(|(index, field)| ProjectionExpr {
            expr: Arc::new(Column::new(field.name(), index)),
            alias: field.name().clone(),
        })
        .collect();
    let place = ProjectionExpr {
        expr: Arc::new(Literal::new(ScalarValue::UInt8(Some(0)))),
        alias: Aggregate::INTERNAL_GROUPING_ID.to_owned(),
    };
    columns.insert(keys, place);
    Ok(Arc::new(ProjectionExec::try_new(columns, states)?))
}
