//! Conditions of rows, evaluated by a layer above this one.

use arrow::array::RecordBatch;
use std::error::Error;
use std::fmt::Debug;

/// Looks at rows before they are added to a table.
pub trait RowCheck: Debug + Send + Sync {
    /// Refuses rows, whose columns are the table's and of its types, of which one fails a condition.
    ///
    /// # Errors
    /// What the layer that evaluates conditions says of the row.
    fn check(&self, rows: &RecordBatch) -> Result<(), Box<dyn Error + Send + Sync>>;
}
