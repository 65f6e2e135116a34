//! How many rows a logical plan yields, and which values a join key has.

use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, Operator, TableScan, lit};

use crate::scan::{NearfarTable, provider_of, scalar};

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
        LogicalPlan::TableScan(scan) => {
            with_provider(scan, |provider| provider.table().snapshot().rows() as f64)
                .unwrap_or_else(|| scan_rows(scan))
        }
        LogicalPlan::SubqueryAlias(alias) => rows_unfiltered(&alias.input),
        _ => rows(plan),
    }
}

/// The values of a join key in the table that it comes from, before any filter.
#[derive(Debug, Clone, Copy)]
pub struct Domain {
    /// How many there are.
    pub distinct: f64,
    /// The smallest and the largest, for keys like integers.
    pub bounds: Option<(i128, i128)>,
}

/// The domain of `key`, a column of the tables that `plan` reads. Nothing where it can't be traced to a column of a
/// Nearfar table, or is not known of that.
pub fn domain(plan: &LogicalPlan, key: &Expr) -> Option<Domain> {
    let traced = traced(plan, key)?;
    with_provider(traced.scan, |provider| {
        let table = provider.table();
        let index = table.schema().index_of(&traced.column).ok()?;
        let snapshot = table.snapshot();
        let known = &snapshot.summary().columns[index];
        (known.distinct > 0).then_some(Domain {
            distinct: known.distinct as f64,
            bounds: known.bounds.filter(|_| traced.is_alone),
        })
    })?
}

/// The share of the rows which pass the filters of the table that `key` comes from whose keys are in `least..=greatest`.
pub fn share_between(
    plan: &LogicalPlan,
    key: &Expr,
    (least, greatest): (i128, i128),
) -> Option<f64> {
    let traced = traced(plan, key)?;
    with_provider(traced.scan, |provider| {
        let schema = provider.table().schema();
        let field = schema.field_with_name(&traced.column).ok()?;
        let literal = |value| Some(lit(scalar(value, field.data_type())?));
        let key = Expr::Column(Column::new_unqualified(&traced.column));
        let between = [
            key.clone().gt_eq(literal(least)?),
            key.lt_eq(literal(greatest)?),
        ];
        provider.share_among(&traced.scan.filters, between)
    })?
}

fn distinct(plan: &LogicalPlan, key: &Expr) -> Option<f64> {
    domain(plan, key).map(|domain| domain.distinct)
}

/// Where a column of a plan comes from.
struct Traced<'a> {
    scan: &'a TableScan,
    /// Its name in the table.
    column: String,
    /// Whether all its values come from there; of a union, that is the first input.
    is_alone: bool,
}

/// The scan that reads `key`, a column of `plan`.
fn traced<'a>(plan: &'a LogicalPlan, key: &Expr) -> Option<Traced<'a>> {
    let Expr::Column(column) = key else {
        return None;
    };
    match plan {
        LogicalPlan::TableScan(scan) => Some(Traced {
            scan,
            column: column.name.clone(),
            is_alone: true,
        }),
        LogicalPlan::SubqueryAlias(alias) => {
            let column = unqualified(&alias.input, &column.name)?;
            traced(&alias.input, &Expr::Column(column))
        }
        LogicalPlan::Projection(projection) => {
            let index = projection.schema.maybe_index_of_column(column)?;
            traced(&projection.input, &projection.expr[index].clone().unalias())
        }
        _ => {
            let has = |input: &&&LogicalPlan| input.schema().has_column(column);
            let inputs = plan.inputs();
            let found = traced(inputs.iter().find(has)?, key)?;
            Some(Traced {
                is_alone: found.is_alone && !matches!(plan, LogicalPlan::Union(_)),
                ..found
            })
        }
    }
}

/// The column that `plan` calls `name`, with its qualifier.
fn unqualified(plan: &LogicalPlan, name: &str) -> Option<Column> {
    let (qualifier, field) = plan.schema().iter().find(|(_, f)| f.name() == name)?;
    Some(Column::new(qualifier.cloned(), field.name()))
}

/// What `ask` finds of the Nearfar table that a scan reads, if it is one.
fn with_provider<T>(scan: &TableScan, ask: impl FnOnce(&NearfarTable) -> T) -> Option<T> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider_of(provider.as_ref()).map(ask)
}

fn scan_rows(scan: &TableScan) -> f64 {
    let known = with_provider(scan, |provider| {
        let share = provider.share(&scan.filters);
        provider.table().snapshot().rows() as f64 * share.unwrap_or(UNKNOWN_SELECTIVITY)
    });
    known.unwrap_or_else(|| {
        let provider = source_as_provider(&scan.source).ok();
        let known = provider.and_then(|p| p.statistics()?.num_rows.get_value().copied());
        let filtered = UNKNOWN_SELECTIVITY.powi(scan.filters.len().min(3) as i32);
        known.map_or(UNKNOWN_ROWS, |rows| rows as f64) * filtered
    })
}
