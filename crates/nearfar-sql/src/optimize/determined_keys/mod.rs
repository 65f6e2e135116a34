//! Keys of groups that other keys determine.
//!
//! `GROUP BY i_item_sk, i_item_desc` makes the same groups as `GROUP BY i_item_sk` where no two items have one number. A key
//! that nobody reads above the groups is left out then, and whatever was computed and joined for nothing else.

mod dependences;
mod fewer_columns;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use std::collections::HashMap;
use std::sync::Arc;

use super::early_groups::never_fails;
use super::places::{columns_of, moved, with_arguments};
use super::switched_rule::SwitchedRule;
use crate::datafusion_names::ORDERED_AGGREGATES;
use crate::settings::Settings;
use dependences::{closure, dependences};
use fewer_columns::with_columns_only;

type Plan = Arc<dyn ExecutionPlan>;
type Value = Arc<dyn PhysicalExpr>;

/// Leaves out keys of groups.
pub const DETERMINED_KEYS: SwitchedRule = SwitchedRule {
    name: "nearfar_determined_keys",
    is_on: Settings::drop_determined_keys,
    rewrite,
};

fn rewrite(plan: Plan) -> Result<Plan> {
    let mut all = None;
    let rewritten = Arc::clone(&plan).transform_down(|node| {
        let Some(found) = Found::of(&node) else {
            return Ok(Transformed::no(node));
        };
        if found.is_same_elsewhere(all.get_or_insert_with(|| read_of_groups(&plan))) {
            return Ok(Transformed::no(node));
        }
        found.rewritten().map(Transformed::yes)
    });
    rewritten.data()
}

/// How often a plan has the same groups, by their text, and which of their keys and functions are read where.
type ReadOfGroups = HashMap<String, Vec<Vec<usize>>>;

/// What is read of the groups of `plan`.
fn read_of_groups(plan: &Plan) -> ReadOfGroups {
    fn add(plan: &Plan, read: Option<Vec<usize>>, all: &mut ReadOfGroups) {
        if Groups::of(plan).is_some() {
            let columns = plan.schema().fields().len();
            let read = read.unwrap_or_else(|| (0..columns).collect());
            all.entry(text(plan)).or_default().push(read);
        }
        let read = plan.downcast_ref::<ProjectionExec>().map(read_by);
        let inputs = plan.children();
        inputs
            .into_iter()
            .for_each(|input| add(input, read.clone(), all));
    }
    let mut all = HashMap::new();
    add(plan, None, &mut all);
    all
}

fn text(plan: &Plan) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The columns that a projection reads.
fn read_by(projection: &ProjectionExec) -> Vec<usize> {
    columns_of(projection.expr().iter().map(|given| &given.expr))
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

    /// Whether other parts of the plan read other columns of the same groups, which are better made once.
    fn is_same_elsewhere(&self, all: &ReadOfGroups) -> bool {
        let read = read_by(self.projection);
        let same = all.get(&text(self.projection.input()));
        same.is_some_and(|same| same.iter().any(|other| *other != read))
    }

    /// The same projection of groups by the keys that they need.
    fn rewritten(&self) -> Result<Plan> {
        let grouped = self.groups.by(&self.kept)?;
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
        Ok(Arc::new(projection))
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
        let known = dependences(self.first.input());
        for key in (0..keys.len()).rev() {
            let value = &keys[key].0;
            // Who groups by what can't be computed is told so.
            let is_safe = value.is::<Column>() || never_fails(value, self.first.input());
            if read.contains(&key) || is_volatile(value) || !is_safe {
                continue;
            }
            let others = kept.iter().filter(|other| **other != key);
            let others = others.filter_map(|other| keys[*other].0.downcast_ref::<Column>());
            let others: Vec<usize> = others.map(Column::index).collect();
            let determined = closure(&known, others.iter().copied());
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

    /// The same groups by these keys alone, made of those columns of the rows that they need.
    fn by(&self, kept: &[usize]) -> Result<Plan> {
        let (first, last) = (self.first, self.last);
        let keys = kept.iter().map(|key| &self.keys()[*key]);
        let functions = first.aggr_expr().iter();
        let arguments: Vec<Value> = functions.flat_map(|f| f.expressions()).collect();
        let filters = first.filter_expr().iter().flatten();
        let columns = columns_of(
            keys.clone()
                .map(|(key, _)| key)
                .chain(&arguments)
                .chain(filters),
        );
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
