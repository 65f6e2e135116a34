//! Keys of groups that other keys determine.
//!
//! `GROUP BY i_item_sk, i_item_desc` makes the same groups as `GROUP BY i_item_sk` where no two items have one number. A key
//! that nobody reads above the groups is left out then, and whatever was computed and joined for nothing else.

mod dependences;
mod fewer_columns;
mod repeated;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

use super::places::{columns_of, moved, with_arguments};
use crate::datafusion_names::ORDERED_AGGREGATES;
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;
use dependences::{closure, dependences};
use fewer_columns::{can_be_left_out, with_columns_only};
use repeated::{Repeated, read_by};

type Plan = Arc<dyn ExecutionPlan>;
type Value = Arc<dyn PhysicalExpr>;

/// Leaves out keys of groups.
pub const DETERMINED_KEYS: SwitchedRule = SwitchedRule {
    name: "nearfar_determined_keys",
    is_on: Settings::drop_determined_keys,
    rewrite,
};

fn rewrite(plan: Plan) -> Result<Plan> {
    let mut repeated = None;
    let rewritten = Arc::clone(&plan).transform_down(|node| {
        let Some(found) = Found::of(&node) else {
            return Ok(Transformed::no(node));
        };
        let repeated = repeated.get_or_insert_with(|| Repeated::of(&plan));
        match found.rewritten(repeated)? {
            Some(other) => Ok(Transformed::yes(other)),
            None => Ok(Transformed::no(node)),
        }
    });
    rewritten.data()
}

/// A projection of groups that have more keys than they need.
struct Found<'a> {
    projection: &'a ProjectionExec,
    groups: Groups<'a>,
    /// The keys that they need.
    kept: Vec<usize>,
}

impl<'a> Found<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let projection = plan.downcast_ref::<ProjectionExec>()?;
        let groups = Groups::of(projection.input())?;
        let kept = groups.kept(&read_by(projection));
        (kept.len() < groups.keys().len()).then_some(Self {
            projection,
            groups,
            kept,
        })
    }

    /// The same projection of groups by the keys that they need, unless others read more of the same groups.
    fn rewritten(&self, repeated: &Repeated) -> Result<Option<Plan>> {
        let (groups, rows) = (self.projection.input(), self.groups.first.input());
        if repeated.reads_others(groups, &read_by(self.projection)) {
            return Ok(None);
        }
        let is_narrowed = !repeated.has_join_alone(groups, rows);
        let grouped = self.groups.by(&self.kept, is_narrowed)?;
        let keys = self.groups.keys().len();
        let functions = keys..self.projection.input().schema().fields().len();
        let columns: Vec<usize> = self.kept.iter().copied().chain(functions).collect();
        let exprs = self.projection.expr().iter().map(|given| {
            Ok(ProjectionExpr {
                expr: moved(&given.expr, &columns)?,
                alias: given.alias.clone(),
            })
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let schema = self.projection.schema();
        let projection = ProjectionExec::try_new_with_schema_metadata(exprs, grouped, &schema)?;
        Ok(Some(Arc::new(projection)))
    }
}

/// Groups as they stand in a plan of which it is not decided yet how rows are partitioned.
struct Groups<'a> {
    /// The aggregate that gives them.
    last: &'a AggregateExec,
    /// The one that takes rows: the same, or the one right below.
    first: &'a AggregateExec,
}

impl<'a> Groups<'a> {
    /// The groups that `plan` gives, if these are of one set of keys, and their functions take rows in any order.
    fn of(plan: &'a Plan) -> Option<Self> {
        let last = plan.downcast_ref::<AggregateExec>()?;
        let first = match last.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => Some(last),
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                let below = last.input().downcast_ref::<AggregateExec>();
                below.filter(|below| *below.mode() == AggregateMode::Partial)
            }
            AggregateMode::Partial | AggregateMode::PartialReduce => None,
        }?;
        let is_plain = |aggregate: &AggregateExec| {
            aggregate.group_expr().is_single() && aggregate.limit_options().is_none()
        };
        let mut functions = first.aggr_expr().iter();
        let in_any_order = functions.all(|function| {
            let keeps_order = ORDERED_AGGREGATES.contains(&function.fun().name());
            function.order_bys().is_empty()
                && !function.is_reversed()
                && (!keeps_order || function.is_distinct())
        });
        (is_plain(last) && is_plain(first) && in_any_order).then_some(Self { last, first })
    }

    /// The keys, of the rows' columns.
    fn keys(&self) -> &'a [(Value, String)] {
        self.first.group_expr().expr()
    }

    /// The keys that are left: those that are `read`, and those that no others determine.
    fn kept(&self, read: &[usize]) -> Vec<usize> {
        let keys = self.keys();
        let mut kept: Vec<usize> = (0..keys.len()).collect();
        if kept.iter().all(|key| read.contains(key)) {
            return kept;
        }
        let rows = self.first.input();
        let known = dependences(rows);
        for key in (0..keys.len()).rev() {
            let value = &keys[key].0;
            // Who groups by what can't be computed is told so.
            if read.contains(&key) || is_volatile(value) || !can_be_left_out(value, rows) {
                continue;
            }
            let others = kept.iter().filter(|other| **other != key);
            let others = others.filter_map(|other| keys[*other].0.downcast_ref::<Column>());
            let others: Vec<usize> = others.map(Column::index).collect();
            let columns = rows.schema().fields().len();
            let determined = closure(&known, others.iter().copied(), columns);
            // Without any key there would be a group without rows.
            let goes = !others.is_empty()
                && columns_of([value])
                    .iter()
                    .all(|column| determined.contains(column));
            if goes {
                kept.retain(|other| *other != key);
            }
        }
        kept
    }

    /// The same groups by these keys alone, made of those columns of the rows that they need if these are narrowed.
    fn by(&self, kept: &[usize], is_narrowed: bool) -> Result<Plan> {
        let (first, last) = (self.first, self.last);
        let keys = kept.iter().map(|key| &self.keys()[*key]);
        let functions = first.aggr_expr().iter();
        let arguments: Vec<Value> = functions.flat_map(|f| f.expressions()).collect();
        let filters = first.filter_expr().iter().flatten();
        let needed = columns_of(
            keys.clone()
                .map(|(key, _)| key)
                .chain(&arguments)
                .chain(filters),
        );
        let columns = match is_narrowed {
            true => needed,
            false => (0..first.input_schema().fields().len()).collect(),
        };
        let rows = with_columns_only(first.input(), &columns)?;
        let schema = rows.schema();
        let moved = |value: &Value| moved(value, &columns);
        let functions = first.aggr_expr().iter();
        let functions = functions.map(|function| with_arguments(function, &schema, moved));
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let filters = first.filter_expr().iter();
        let filters = filters.map(|filter| filter.as_ref().map(moved).transpose());
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let by_rows = keys
            .clone()
            .map(|(key, name)| Ok((moved(key)?, name.clone())));
        let by_rows = PhysicalGroupBy::new_single(by_rows.collect::<Result<_>>()?);
        let grouped = |mode: &AggregateMode, by, input| {
            let (functions, filters) = (functions.clone(), filters.clone());
            AggregateExec::try_new(*mode, by, functions, filters, input, Arc::clone(&schema))
        };
        let groups: Plan = Arc::new(grouped(first.mode(), by_rows, rows)?);
        if std::ptr::eq(first, last) {
            return Ok(groups);
        }
        let of_states = keys.enumerate().map(|(index, (_, name))| {
            let key: Value = Arc::new(Column::new(name, index));
            (key, name.clone())
        });
        let of_states = PhysicalGroupBy::new_single(of_states.collect());
        Ok(Arc::new(grouped(last.mode(), of_states, groups)?))
    }
}
