//! Rows of `VALUES` that have subqueries.

use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Values};
use std::sync::Arc;

use super::has_subquery;

/// The rows as a union of queries, of which each row with a subquery is one: DataFusion evaluates those of `VALUES` before
/// any query has run. None where no row has a subquery.
pub(super) fn as_queries(values: &Values) -> Result<Option<LogicalPlan>> {
    let has_any = |row: &[Expr]| row.iter().map(has_subquery).collect::<Result<Vec<_>>>();
    let is_query = values.values.iter().map(|row| has_any(row));
    let is_query = is_query.map(|row| row.map(|row| row.contains(&true)));
    let is_query = is_query.collect::<Result<Vec<bool>>>()?;
    if !is_query.contains(&true) {
        return Ok(None);
    }
    let mut all: Option<LogicalPlanBuilder> = None;
    let mut start = 0;
    for run in is_query.chunk_by(|row, next| !row && !next) {
        let rows = &values.values[start..start + run.len()];
        start += run.len();
        let query = match (run, rows) {
            ([true], [row]) => query_of(row, &values.schema)?,
            _ => LogicalPlan::Values(Values {
                schema: Arc::clone(&values.schema),
                values: rows.to_vec(),
            }),
        };
        all = Some(match all {
            Some(before) => before.union(query)?,
            None => LogicalPlanBuilder::from(query),
        });
    }
    all.map(LogicalPlanBuilder::build).transpose()
}

/// A row as a query, whose columns have the names of `schema`.
fn query_of(row: &[Expr], schema: &DFSchema) -> Result<LogicalPlan, DataFusionError> {
    let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let names = schema.fields().iter().map(|field| field.name());
    let columns = row.iter().zip(names);
    let columns = columns.map(|(value, name)| value.clone().alias(name));
    LogicalPlanBuilder::from(one_row).project(columns)?.build()
}
