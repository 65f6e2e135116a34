//! Plans whose rows are put together below joins.

use arrow::datatypes::SchemaRef;
use datafusion::common::JoinType;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::fails::{is_operation, never_fails};
use super::super::places::{columns_of, moved, place, with_arguments, with_columns};
use super::estimate::{is_whole, is_worth, keeps_rows};

type Plan = Arc<dyn ExecutionPlan>;
type Value = Arc<dyn PhysicalExpr>;

/// What is asked of the rows of a plan.
pub struct Wanted {
    /// Columns by which they may be put together, rising.
    pub keys: Vec<usize>,
    /// Functions of them.
    pub functions: Vec<Arc<AggregateFunctionExpr>>,
    /// For each function, which rows it takes.
    pub filters: Vec<Option<Value>>,
    /// Whether a join is above.
    pub is_joined: bool,
}

impl Wanted {
    /// What functions take, and their filters.
    fn taken(&self) -> Vec<Value> {
        let arguments = self.functions.iter().flat_map(|f| f.expressions());
        let filters = self.filters.iter().flatten().cloned();
        arguments.chain(filters).collect()
    }

    /// The same of another plan with `schema`, in whose columns `value` says an expression. It has `keys`.
    fn said_by(
        &self,
        keys: Vec<usize>,
        schema: &SchemaRef,
        value: impl Fn(&Value) -> Result<Value>,
    ) -> Result<Self> {
        let functions = self.functions.iter();
        let functions = functions.map(|function| with_arguments(function, schema, &value));
        let filters = self.filters.iter();
        let filters = filters.map(|filter| filter.as_ref().map(&value).transpose());
        Ok(Self {
            keys,
            functions: functions.collect::<Result<_>>()?,
            filters: filters.collect::<Result<_>>()?,
            is_joined: self.is_joined,
        })
    }
}

/// The columns that `wanted` has for keys, and the states of its functions, of rows of `plan` that are put together below
/// joins; nothing where that is not worth it.
pub fn below(plan: &Plan, wanted: &Wanted) -> Result<Option<Plan>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return below_join(plan, join, wanted);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return below_projection(projection, wanted);
    }
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        return below_repartition(repartition, wanted);
    }
    if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>()
        && coalesce.fetch().is_none()
    {
        let grouped = grouped(coalesce.input(), wanted)?;
        return Ok(grouped.map(|grouped| Arc::new(CoalescePartitionsExec::new(grouped)) as _));
    }
    Ok(None)
}

/// The same, below joins or right above `plan`.
fn grouped(plan: &Plan, wanted: &Wanted) -> Result<Option<Plan>> {
    let lower = below(plan, wanted)?;
    if lower.is_some() || !wanted.is_joined || !is_worth(plan, &wanted.keys) {
        return Ok(lower);
    }
    let schema = plan.schema();
    let keys = wanted.keys.iter().map(|key| {
        let name = schema.field(*key).name();
        (Arc::new(Column::new(name, *key)) as Value, name.clone())
    });
    let grouped = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(keys.collect()),
        wanted.functions.clone(),
        wanted.filters.clone(),
        Arc::clone(plan),
        schema,
    )?;
    Ok(Some(Arc::new(grouped)))
}

fn below_projection(projection: &ProjectionExec, wanted: &Wanted) -> Result<Option<Plan>> {
    let (input, given) = (projection.input(), projection.expr());
    let keys = wanted.keys.iter().map(|key| &given[*key].expr);
    if keys.clone().any(is_volatile) || is_computed_again(projection, wanted) {
        return Ok(None);
    }
    let keys = columns_of(keys);
    let said =
        |value: &Value| with_columns(value, |column| Ok(Arc::clone(&given[column.index()].expr)));
    let lower = wanted.said_by(keys, &input.schema(), said)?;
    let Some(states) = below(input, &lower)? else {
        return Ok(None);
    };
    let schema = states.schema();
    let mut columns = Vec::new();
    for key in &wanted.keys {
        columns.push(ProjectionExpr {
            expr: moved(&given[*key].expr, &lower.keys)?,
            alias: given[*key].alias.clone(),
        });
    }
    let states_from = lower.keys.len();
    columns.extend((states_from..schema.fields().len()).map(|index| {
        let name = schema.field(index).name();
        ProjectionExpr {
            expr: Arc::new(Column::new(name, index)),
            alias: name.clone(),
        }
    }));
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, states)?)))
}

/// Whether functions take a value several times that is computed once, and takes more than an operation.
fn is_computed_again(projection: &ProjectionExec, wanted: &Wanted) -> bool {
    let mut seen = BTreeSet::new();
    let taken = wanted.taken();
    let mut columns = taken.iter().flat_map(|value| columns_of([value]));
    columns.any(|column| {
        let value = &projection.expr()[column].expr;
        let is_cheap = value.is::<Column>() || is_operation(value);
        !is_cheap && !seen.insert(column)
    })
}

fn below_repartition(repartition: &RepartitionExec, wanted: &Wanted) -> Result<Option<Plan>> {
    let partitioning = match repartition.partitioning() {
        Partitioning::Hash(by, partitions) => {
            let is_key = |column: &usize| wanted.keys.contains(column);
            if !columns_of(by).iter().all(is_key) {
                return Ok(None);
            }
            let by = by.iter().map(|value| moved(value, &wanted.keys));
            Partitioning::Hash(by.collect::<Result<_>>()?, *partitions)
        }
        Partitioning::RoundRobinBatch(partitions) => Partitioning::RoundRobinBatch(*partitions),
        _ => return Ok(None),
    };
    if repartition.preserve_order() {
        return Ok(None);
    }
    let grouped = grouped(repartition.input(), wanted)?;
    let again = grouped.map(|grouped| RepartitionExec::try_new(grouped, partitioning));
    Ok(again.transpose()?.map(|again| Arc::new(again) as _))
}

/// A join whose columns have been counted.
struct Sides<'a> {
    join: &'a HashJoinExec,
    left: usize,
    /// Whether functions look at the left side; they must not look at both.
    is_left: bool,
}

impl Sides<'_> {
    /// The column of both sides together that a column of the join is.
    fn source(&self, column: usize) -> usize {
        let projection = self.join.projection.as_ref();
        projection.map_or(column, |projection| projection[column])
    }

    /// The column of the functions' side that a column of the join is, if it is of that side.
    fn own(&self, column: usize) -> Option<usize> {
        let source = self.source(column);
        match self.is_left {
            true => (source < self.left).then_some(source),
            false => source.checked_sub(self.left),
        }
    }

    /// The inputs, that of the functions first.
    fn inputs(&self) -> (&Plan, &Plan) {
        match self.is_left {
            true => (self.join.left(), self.join.right()),
            false => (self.join.right(), self.join.left()),
        }
    }

    /// The keys of the functions' side.
    fn keys(&self) -> Vec<&Value> {
        let keys = self.join.on().iter();
        keys.map(|(left, right)| if self.is_left { left } else { right })
            .collect()
    }
}

fn below_join(plan: &Plan, join: &HashJoinExec, wanted: &Wanted) -> Result<Option<Plan>> {
    let left = join.left().schema().fields().len();
    let mut sides = Sides {
        join,
        left,
        is_left: false,
    };
    let taken = wanted.taken();
    let looked_at = columns_of(&taken);
    sides.is_left = looked_at
        .first()
        .is_some_and(|column| sides.source(*column) < left);
    let (functions_side, other) = sides.inputs();
    let is_known = *join.join_type() == JoinType::Inner
        && *join.partition_mode() != PartitionMode::Auto
        && join.filter().is_none()
        && join.fetch().is_none()
        && looked_at.iter().all(|column| sides.own(*column).is_some());
    let is_safe = || taken.iter().all(|value| never_fails(value, plan));
    if !is_known || !is_whole(other) || !keeps_rows(join, sides.is_left) || !is_safe() {
        return Ok(None);
    }
    let mut keys = columns_of(sides.keys());
    keys.extend(wanted.keys.iter().filter_map(|key| sides.own(*key)));
    keys.sort_unstable();
    keys.dedup();
    let schema = functions_side.schema();
    let said = |value: &Value| {
        with_columns(value, |column| {
            let own = sides.own(column.index());
            let own =
                own.ok_or_else(|| internal_datafusion_err!("{column} is of the other side"))?;
            Ok(Arc::new(Column::new(schema.field(own).name(), own)))
        })
    };
    let mut lower = wanted.said_by(keys, &schema, said)?;
    lower.is_joined = true;
    let grouped = grouped(functions_side, &lower)?;
    let joined = grouped.map(|states| over_groups(&sides, wanted, &lower.keys, states));
    joined.transpose()
}

/// The join of `states` in the place of the functions' side, of which `kept` columns are left: the keys that are wanted,
/// and then states.
fn over_groups(sides: &Sides<'_>, wanted: &Wanted, kept: &[usize], states: Plan) -> Result<Plan> {
    let (join, columns) = (sides.join, states.schema().fields().len());
    let (left, right) = match sides.is_left {
        true => (states, Arc::clone(join.right())),
        false => (Arc::clone(join.left()), states),
    };
    // Where the states' side begins, and the other.
    let (own, other) = match sides.is_left {
        true => (0, columns),
        false => (sides.left, 0),
    };
    let keys = wanted.keys.iter().map(|key| match sides.own(*key) {
        Some(key) => Ok(own + place(key, kept)?),
        None if sides.is_left => Ok(other + sides.source(*key) - sides.left),
        None => Ok(other + sides.source(*key)),
    });
    let mut projection = keys.collect::<Result<Vec<_>>>()?;
    projection.extend(own + kept.len()..own + columns);
    let on = join.on().iter().map(|(of_left, of_right)| {
        Ok(match sides.is_left {
            true => (moved(of_left, kept)?, Arc::clone(of_right)),
            false => (Arc::clone(of_left), moved(of_right, kept)?),
        })
    });
    let on = on.collect::<Result<Vec<_>>>()?;
    let builder = join
        .builder()
        .reset_state()
        .with_new_children(vec![left, right])?;
    let joined = builder.with_on(on).with_projection(Some(projection));
    joined.build_exec()
}
