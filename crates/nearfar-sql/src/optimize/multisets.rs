//! `EXCEPT ALL` and `INTERSECT ALL`, which count how often a row is there.
//!
//! DataFusion answers them as if every row of one side met all its like of the other. Here the rows of each
//! side that are alike are numbered first, so that one meets one.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

/// Numbers rows that are alike. It has to be applied before other rules make such joins.
#[derive(Debug, Default)]
pub struct NumberMultisets;

impl AnalyzerRule for NumberMultisets {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }

    fn name(&self) -> &str {
        "number_multisets"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let Some((mut keys, mut others)) = rows_of(join) else {
        return Ok(Transformed::no(plan));
    };
    let left = numbered(&join.left, &mut keys)?;
    let right = numbered(&join.right, &mut others)?;
    let columns = join.left.schema().columns().into_iter().map(Expr::Column);
    let numbered = LogicalPlanBuilder::from(left)
        .join_detailed(
            right,
            join.join_type,
            (keys, others),
            None,
            NullEquality::NullEqualsNull,
        )?
        .project(columns)?
        .build()?;
    Ok(Transformed::yes(numbered))
}

/// The columns of both sides, if a join stands for one of the two operators. Rows that are not there twice
/// need no numbers.
fn rows_of(join: &Join) -> Option<(Vec<Column>, Vec<Column>)> {
    let is_set_operator = matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none();
    if !is_set_operator || matches!(*join.left, LogicalPlan::Distinct(_)) {
        return None;
    }
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => Some(column.clone()),
        _ => None,
    };
    let pairs = join.on.iter();
    pairs
        .map(|(left, right)| Some((column(left)?, column(right)?)))
        .collect()
}

/// A side with the number of each row among those that are alike, which becomes one of its `keys`.
fn numbered(side: &LogicalPlan, keys: &mut Vec<Column>) -> Result<LogicalPlan> {
    let name = super::subqueries::unique("copy");
    let alike = keys.iter().cloned().map(Expr::Column).collect();
    let number = row_number().partition_by(alike).build()?.alias(&name);
    let columns = side.schema().columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> = columns
        .chain([Expr::Column(Column::new_unqualified(&name))])
        .collect();
    keys.push(Column::new_unqualified(name));
    LogicalPlanBuilder::from(side.clone())
        .window([number])?
        .project(columns)?
        .build()
}
