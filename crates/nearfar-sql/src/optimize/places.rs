//! Expressions whose columns are in other places.

use arrow::datatypes::SchemaRef;
use datafusion::common::internal_datafusion_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use std::collections::BTreeSet;
use std::sync::Arc;

type Value = Arc<dyn PhysicalExpr>;

/// Columns that `expressions` look at, rising.
pub fn columns_of<'a>(expressions: impl IntoIterator<Item = &'a Value>) -> Vec<usize> {
    let columns = expressions.into_iter().flat_map(collect_columns);
    let columns: BTreeSet<usize> = columns.map(|column| column.index()).collect();
    columns.into_iter().collect()
}

/// `value` where only `kept` columns are left, in that order.
///
/// # Errors
/// It looks at another column.
pub fn moved(value: &Value, kept: &[usize]) -> Result<Value> {
    with_columns(value, |column| {
        let place = place(column.index(), kept)?;
        Ok(Arc::new(Column::new(column.name(), place)))
    })
}

/// Where a column is among those that are `kept`.
///
/// # Errors
/// It is not one of them.
pub fn place(column: usize, kept: &[usize]) -> Result<usize> {
    let place = kept.iter().position(|kept| *kept == column);
    place.ok_or_else(|| internal_datafusion_err!("column {column} is left out below"))
}

/// `value` with others in the place of its columns.
///
/// # Errors
/// Those of `other`.
pub fn with_columns(value: &Value, other: impl Fn(&Column) -> Result<Value>) -> Result<Value> {
    let value = Arc::clone(value).transform_up(|value| {
        let other = value.downcast_ref::<Column>().map(&other);
        Ok(match other.transpose()? {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(value),
        })
    });
    value.data()
}

/// `function`, which takes rows in no order, of rows with `schema`, in whose columns `value` says an expression.
///
/// # Errors
/// Those of `value`, and arguments that the function does not take.
pub fn with_arguments(
    function: &AggregateFunctionExpr,
    schema: &SchemaRef,
    value: impl Fn(&Value) -> Result<Value>,
) -> Result<Arc<AggregateFunctionExpr>> {
    let arguments = function.expressions();
    let arguments = arguments.iter().map(value).collect::<Result<_>>()?;
    let mut said = AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments)
        .alias(function.name())
        .schema(Arc::clone(schema));
    if function.ignore_nulls() {
        said = said.ignore_nulls();
    }
    if function.is_distinct() {
        said = said.distinct();
    }
    if let Some(display) = function.human_display() {
        said = said.human_display(display);
    }
    if let Some(alias) = function.human_display_alias() {
        said = said.human_display_alias(alias);
    }
    said.build().map(Arc::new)
}
