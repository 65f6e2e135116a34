//! Operators of Nearfar's own, in the place of DataFusion's.

pub mod grouping_sets;
mod in_place;
pub mod key_join;
pub mod scan_aggregate;
pub mod windows;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::fmt;

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

/// What is said of an operator of DataFusion behind its name, for the one that stands in its place.
fn described(plan: &dyn ExecutionPlan, format: DisplayFormatType) -> String {
    struct Described<'a>(&'a dyn ExecutionPlan, DisplayFormatType);
    impl fmt::Display for Described<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_as(self.1, f)
        }
    }
    let described = Described(plan, format).to_string();
    described.trim_start_matches(plan.name()).to_owned()
}
