//! Rows of `VALUES` that have subqueries.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Values, lit};
use std::collections::HashMap;
use std::sync::Arc;

use super::{has_subquery, unique};

/// The rows as a union of queries, of which each row with a subquery is one: DataFusion evaluates those of `VALUES` before
/// any query has run. They keep their order. None where no row has a subquery.
pub(super) fn as_queries(values: &Values) -> Result<Option<LogicalPlan>> {
    let is_query = values.values.iter().map(|row| has_any(row));
    let is_query = is_query.collect::<Result<Vec<bool>>>()?;
    if !is_query.contains(&true) {
        return Ok(None);
    }
    let number = unique("row");
    let schema = with_number(&values.schema, &number)?;
    let rows = values.values.iter().zip(0_i64..);
    let rows = rows.map(|(row, at)| row.iter().cloned().chain([lit(at)]).collect());
    let rows: Vec<Vec<Expr>> = rows.collect();
    let mut all: Option<LogicalPlanBuilder> = None;
    let mut start = 0;
    for run in is_query.chunk_by(|row, next| !row && !next) {
        let rows = &rows[start..start + run.len()];
        start += run.len();
        let query = match (run, rows) {
            ([true], [row]) => query_of(row, &schema)?,
            _ => LogicalPlan::Values(Values {
                schema: Arc::clone(&schema),
                values: rows.to_vec(),
            }),
        };
        all = Some(match all {
            Some(before) => before.union(query)?,
            None => LogicalPlanBuilder::from(query),
        });
    }
    let Some(all) = all else { return Ok(None) };
    let by_number = Expr::Column(Column::new_unqualified(number)).sort(true, false);
    let columns = values.schema.columns().into_iter().map(Expr::Column);
    all.sort([by_number])?.project(columns)?.build().map(Some)
}

fn has_any(row: &[Expr]) -> Result<bool> {
    let each = row.iter().map(has_subquery);
    Ok(each.collect::<Result<Vec<bool>>>()?.contains(&true))
}

/// `schema` and a column for the numbers of rows.
fn with_number(schema: &DFSchema, number: &str) -> Result<DFSchemaRef> {
    let field = Field::new(number, DataType::Int64, false);
    let number = DFSchema::from_unqualified_fields(vec![field].into(), HashMap::new())?;
    Ok(Arc::new(schema.join(&number)?))
}

/// A row as a query, whose columns have the names of `schema`.
fn query_of(row: &[Expr], schema: &DFSchema) -> Result<LogicalPlan> {
    let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let names = schema.fields().iter().map(|field| field.name());
    let columns = row.iter().zip(names);
    let columns = columns.map(|(value, name)| value.clone().alias(name));
    LogicalPlanBuilder::from(one_row).project(columns)?.build()
}
