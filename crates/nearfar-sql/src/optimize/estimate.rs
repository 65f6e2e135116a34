//! How many rows a logical plan yields, and how many distinct values a join key has.

use datafusion::common::{Column, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, Operator, TableScan};
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

use crate::scan::{Filter, has_subquery, selectivity, table_of};
use nearfar_table::table::Table;

/// Rows of a plan nothing is known of.
const UNKNOWN_ROWS: f64 = 10_000.0;

/// Share of rows that pass a filter nothing is known of.
const UNKNOWN_SELECTIVITY: f64 = 0.2;

/// Rows that `plan` is expected to yield, at least one.
pub fn rows(plan: &LogicalPlan) -> f64 {
    let input = || plan.inputs().first().map_or(1.0, |input| rows(input));
    let estimate = match plan {
        LogicalPlan::TableScan(scan) => scan_rows(scan),
        LogicalPlan::Filter(filter) => {
            input() * equal_to_parameters(filter).unwrap_or(UNKNOWN_SELECTIVITY)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups: f64 = aggregate
                .group_expr
                .iter()
                .map(|key| distinct(&aggregate.input, key).unwrap_or(UNKNOWN_ROWS))
                .product();
            groups.min(input())
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (rows(&join.left), rows(&join.right));
            match join.join_type {
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left / 2.0,
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right / 2.0,
                _ => {
                    let keys = join.on.iter().map(|(l, r)| {
                        let left = distinct(&join.left, l).unwrap_or(left);
                        left.max(distinct(&join.right, r).unwrap_or(right))
                    });
                    left * right / keys.fold(1.0, f64::max)
                }
            }
        }
        LogicalPlan::Limit(_) => input().min(UNKNOWN_ROWS),
        LogicalPlan::Union(union) => union.inputs.iter().map(|input| rows(input)).sum(),
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => 1.0,
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Repartition(_) => input(),
        _ => UNKNOWN_ROWS,
    };
    estimate.max(1.0)
}

/// The share of rows whose columns are equal to parameters, whichever values these have; nothing where a filter asks for
/// none that is known.
fn equal_to_parameters(filter: &datafusion::logical_expr::Filter) -> Option<f64> {
    let shares = split_conjunction(&filter.predicate)
        .into_iter()
        .filter_map(|condition| {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
                return None;
            };
            let column = match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), Expr::Placeholder(_))
                | (Expr::Placeholder(_), column @ Expr::Column(_)) => column,
                _ => return None,
            };
            let keys = distinct(&filter.input, column).filter(|_| *op == Operator::Eq)?;
            Some(1.0 / keys)
        });
    shares.reduce(|all, share| all * share)
}

/// Rows that `plan` would yield without the filters of a table scan.
pub fn rows_unfiltered(plan: &LogicalPlan) -> f64 {
    match plan {
        LogicalPlan::TableScan(scan) => nearfar_table(scan).map_or_else(
            || scan_rows(scan),
            |(table, _)| table.snapshot().rows() as f64,
        ),
        LogicalPlan::SubqueryAlias(alias) => rows_unfiltered(&alias.input),
        _ => rows(plan),
    }
}

/// Distinct values of `key` in the tables that `plan` reads, before any filter: the domain that a
/// join over the key meets. Nothing where it can't be traced to a column of a Nearfar table, or is not known
/// of that.
pub fn distinct(plan: &LogicalPlan, key: &Expr) -> Option<f64> {
    let Expr::Column(column) = key else {
        return None;
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let (table, _) = nearfar_table(scan)?;
            let index = table.schema().index_of(&column.name).ok()?;
            let known = table.snapshot().summary().columns[index].distinct;
            (known > 0).then_some(known as f64)
        }
        LogicalPlan::SubqueryAlias(alias) => distinct(
            &alias.input,
            &Expr::Column(unqualified(&alias.input, &column.name)?),
        ),
        LogicalPlan::Projection(projection) => {
            let index = projection.schema.maybe_index_of_column(column)?;
            distinct(&projection.input, &projection.expr[index].clone().unalias())
        }
        _ => {
            let has = |input: &&&LogicalPlan| input.schema().has_column(column);
            let inputs = plan.inputs();
            distinct(inputs.iter().find(has)?, key)
        }
    }
}

/// The column that `plan` calls `name`, with its qualifier.
fn unqualified(plan: &LogicalPlan, name: &str) -> Option<Column> {
    let (qualifier, field) = plan.schema().iter().find(|(_, f)| f.name() == name)?;
    Some(Column::new(qualifier.cloned(), field.name()))
}

fn nearfar_table(scan: &TableScan) -> Option<(Arc<Table>, Arc<DFSchema>)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = Arc::clone(table_of(provider.as_ref())?);
    let schema =
        DFSchema::try_from_qualified_schema(scan.table_name.clone(), table.schema()).ok()?;
    Some((table, Arc::new(schema)))
}

fn scan_rows(scan: &TableScan) -> f64 {
    let Some((table, schema)) = nearfar_table(scan) else {
        let provider = source_as_provider(&scan.source).ok();
        let known = provider.and_then(|p| p.statistics()?.num_rows.get_value().copied());
        let filtered = UNKNOWN_SELECTIVITY.powi(scan.filters.len().min(3) as i32);
        return known.map_or(UNKNOWN_ROWS, |rows| rows as f64) * filtered;
    };
    let snapshot = table.snapshot();
    let share = sampled(&table, &schema, &scan.filters).unwrap_or(UNKNOWN_SELECTIVITY);
    snapshot.rows() as f64 * share
}

/// The share of a table's rows that pass `filters`; nothing where they can't be evaluated now.
fn sampled(table: &Table, schema: &DFSchema, filters: &[Expr]) -> Option<f64> {
    let mut compiled = Vec::new();
    for filter in filters {
        if has_subquery(filter) {
            continue;
        }
        let expr = create_physical_expr(
            filter,
            schema,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
        .ok()?;
        compiled.extend(Filter::conjuncts(&expr, table.schema()).ok()?);
    }
    selectivity(&table.snapshot(), table.schema(), &compiled).ok()
}
