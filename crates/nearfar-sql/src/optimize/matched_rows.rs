//! Outer joins whose rows without a partner nobody wants.
//!
//! DataFusion makes an inner join of an outer one below a condition that is not true of nulls. A join above is
//! such a condition, too: in `s LEFT JOIN r ON … JOIN t ON r.k = t.k`, rows of `s` without one of `r` have no `k`,
//! and find nothing in `t`.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use datafusion::optimizer::eliminate_outer_join::eliminate_outer;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

use crate::settings::Settings;

/// Its name.
pub const NAME: &str = "nearfar_matched_rows";

/// Makes other joins of outer joins by the keys of the joins above.
#[derive(Debug)]
pub struct MatchedRows;

impl OptimizerRule for MatchedRows {
    fn name(&self) -> &'static str {
        NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        let settings = options.extensions.get::<Settings>();
        match settings.is_none_or(Settings::narrow_outer_joins) {
            true => narrowed(plan, &[]),
            false => Ok(Transformed::no(plan)),
        }
    }
}

/// `plan`, of whose rows those are needed in which none of the columns `valued` is null.
fn narrowed(plan: LogicalPlan, valued: &[Column]) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) => narrowed_join(join, valued),
        LogicalPlan::Filter(_) => plan.map_children(|input| narrowed(input, valued)),
        LogicalPlan::SubqueryAlias(_) => {
            let places = places(&plan, valued);
            plan.map_children(|input| {
                let columns = input.schema().columns();
                let valued = places.iter().filter_map(|at| columns.get(*at).cloned());
                let valued: Vec<Column> = valued.collect();
                narrowed(input, &valued)
            })
        }
        LogicalPlan::Projection(ref projection) => {
            let places = places(&plan, valued).into_iter();
            let valued = places.filter_map(|at| column(projection.expr.get(at)?));
            let valued: Vec<Column> = valued.collect();
            plan.map_children(|input| narrowed(input, &valued))
        }
        _ => plan.map_children(|input| narrowed(input, &[])),
    }
}

/// Where `columns` are in what `plan` gives.
fn places(plan: &LogicalPlan, columns: &[Column]) -> Vec<usize> {
    let places = columns.iter().map(|column| place(plan, column));
    places.flatten().collect()
}

/// Where a column of just this name is: one without the name of a table may be another.
fn place(plan: &LogicalPlan, column: &Column) -> Option<usize> {
    plan.schema().iter().position(|(table, field)| {
        table == column.relation.as_ref() && *field.name() == column.name
    })
}

/// The column that an expression is null with.
fn column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Alias(alias) => column(&alias.expr),
        _ => None,
    }
}

fn narrowed_join(mut join: Join, valued: &[Column]) -> Result<Transformed<LogicalPlan>> {
    let of = |input: &LogicalPlan| {
        let is_its = |column: &&Column| place(input, column).is_some();
        valued.iter().filter(is_its).cloned().collect::<Vec<_>>()
    };
    let (mut left, mut right) = match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            (of(&join.left), of(&join.right))
        }
        JoinType::LeftSemi | JoinType::LeftAnti => (of(&join.left), Vec::new()),
        JoinType::RightSemi | JoinType::RightAnti => (Vec::new(), of(&join.right)),
        JoinType::LeftMark | JoinType::RightMark => (Vec::new(), Vec::new()),
    };
    let before = join.join_type;
    join.join_type = eliminate_outer(before, !left.is_empty(), !right.is_empty());
    if join.null_equality == NullEquality::NullEqualsNothing {
        use JoinType::{Inner, Left, LeftSemi, Right, RightSemi};
        let finds = |side: JoinType| {
            let both = [Inner, LeftSemi, RightSemi].contains(&join.join_type);
            both || join.join_type == side
        };
        // Rows that may stay without a partner are needed whatever their keys.
        if finds(Right) {
            left.extend(join.on.iter().filter_map(|(key, _)| column(key)));
        }
        if finds(Left) {
            right.extend(join.on.iter().filter_map(|(_, key)| column(key)));
        }
    }
    let is_new = join.join_type != before;
    let left = narrowed(Arc::unwrap_or_clone(join.left), &left)?;
    let right = narrowed(Arc::unwrap_or_clone(join.right), &right)?;
    let is_changed = is_new || left.transformed || right.transformed;
    join.left = Arc::new(left.data);
    join.right = Arc::new(right.data);
    let join = LogicalPlan::Join(join);
    Ok(match is_changed {
        true => Transformed::yes(join),
        false => Transformed::no(join),
    })
}
