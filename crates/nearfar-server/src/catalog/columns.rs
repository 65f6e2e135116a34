//! Columns of catalogs, and the batches that are made of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

/// The value of one column, out of a row of type `R`.
pub enum Of<R> {
    Text(fn(&R) -> Option<String>),
    /// Numbers, and the identifiers of objects.
    Integer(fn(&R) -> i64),
    Flag(fn(&R) -> bool),
    /// Lists that are not kept, of privileges or options.
    Null,
}

/// The columns of a catalog whose rows are made from `R`.
pub type Columns<R> = [(&'static str, Of<R>)];

/// The schema of `columns`.
pub fn schema<R>(columns: &Columns<R>) -> SchemaRef {
    let field = |(name, of): &(&'static str, Of<R>)| {
        let data_type = match of {
            Of::Text(_) | Of::Null => DataType::Utf8,
            Of::Integer(_) => DataType::Int64,
            Of::Flag(_) => DataType::Boolean,
        };
        Field::new(*name, data_type, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The batch of `rows`.
pub fn batch<R>(columns: &Columns<R>, rows: &[R]) -> Result<RecordBatch, ArrowError> {
    let array = |of: &Of<R>| -> ArrayRef {
        match of {
            Of::Text(of) => Arc::new(StringArray::from_iter(rows.iter().map(of))),
            Of::Integer(of) => Arc::new(Int64Array::from_iter_values(rows.iter().map(of))),
            Of::Flag(of) => Arc::new(BooleanArray::from_iter(
                rows.iter().map(|row| Some(of(row))),
            )),
            Of::Null => Arc::new(StringArray::new_null(rows.len())),
        }
    };
    let arrays = columns.iter().map(|(_, of)| array(of)).collect();
    RecordBatch::try_new(schema(columns), arrays)
}
