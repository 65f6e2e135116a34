//! Operators of Nearfar's own, in the place of DataFusion's.

pub mod key_join;
pub mod windows;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;

/// The values of `expressions` for the rows of a batch.
///
/// # Errors
/// What evaluating one reports.
fn evaluate(expressions: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let values = expressions
        .iter()
        .map(|expression| expression.evaluate(batch)?.into_array(batch.num_rows()));
    values.collect()
}
