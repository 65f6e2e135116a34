//! Batches made column by column, with their schema: for the tables of the system and of catalogs.

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int16Builder, Int64Array, ListBuilder, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::collections::HashMap;
use std::sync::Arc;

/// The value of one column, out of a row of type `R`.
pub enum Of<R> {
    /// A text.
    Text(fn(&R) -> Option<String>),
    /// A number of things or bytes; those above the largest `i64` are that.
    Count(fn(&R) -> Option<u64>),
    /// A whole number, also the identifier of something.
    Number(fn(&R) -> i64),
    /// A number that is not whole.
    Float(fn(&R) -> Option<f64>),
    /// Whether something is so.
    Flag(fn(&R) -> bool),
    /// Small numbers, as an array.
    Numbers(fn(&R) -> Option<Vec<i16>>),
    /// The same as PostgreSQL's `int2vector`, which is written without braces.
    Vector(fn(&R) -> Vec<i16>),
    /// A text that nothing has.
    Null,
}

/// The columns of a table whose rows are made from `R`.
pub type Columns<R> = [(&'static str, Of<R>)];

/// What is said of a column that is a vector.
const VECTOR: (&str, &str) = ("nearfar.type", "int2vector");

/// Whether a column is PostgreSQL's `int2vector`.
pub fn is_vector(field: &Field) -> bool {
    let (key, value) = VECTOR;
    field.metadata().get(key).is_some_and(|kind| kind == value)
}

fn lists(rows: impl Iterator<Item = Option<Vec<i16>>>) -> ArrayRef {
    let mut builder = ListBuilder::new(Int16Builder::new());
    for row in rows {
        builder.append_option(row.map(|numbers| numbers.into_iter().map(Some)));
    }
    Arc::new(builder.finish())
}

/// The schema of `columns`.
pub fn schema<R>(columns: &Columns<R>) -> SchemaRef {
    let field = |(name, of): &(&'static str, Of<R>)| {
        let element = || Arc::new(Field::new_list_field(DataType::Int16, true));
        let data_type = match of {
            Of::Numbers(_) | Of::Vector(_) => DataType::List(element()),
            Of::Text(_) | Of::Null => DataType::Utf8,
            Of::Count(_) | Of::Number(_) => DataType::Int64,
            Of::Float(_) => DataType::Float64,
            Of::Flag(_) => DataType::Boolean,
        };
        let field = Field::new(*name, data_type, true);
        match of {
            Of::Vector(_) => {
                field.with_metadata(HashMap::from([(VECTOR.0.to_owned(), VECTOR.1.to_owned())]))
            }
            _ => field,
        }
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The batch of `rows`.
///
/// # Errors
/// [`ArrowError`] where there are no columns.
pub fn batch<R>(columns: &Columns<R>, rows: &[R]) -> Result<RecordBatch, ArrowError> {
    let array = |of: &Of<R>| -> ArrayRef {
        match of {
            Of::Text(of) => Arc::new(StringArray::from_iter(rows.iter().map(of))),
            Of::Count(of) => {
                Arc::new(Int64Array::from_iter(rows.iter().map(|row| {
                    of(row).map(|value| i64::try_from(value).unwrap_or(i64::MAX))
                })))
            }
            Of::Number(of) => Arc::new(Int64Array::from_iter_values(rows.iter().map(of))),
            Of::Float(of) => Arc::new(Float64Array::from_iter(rows.iter().map(of))),
            Of::Flag(of) => Arc::new(BooleanArray::from_iter(
                rows.iter().map(|row| Some(of(row))),
            )),
            Of::Numbers(of) => lists(rows.iter().map(of)),
            Of::Vector(of) => lists(rows.iter().map(|row| Some(of(row)))),
            Of::Null => Arc::new(StringArray::new_null(rows.len())),
        }
    };
    let arrays = columns.iter().map(|(_, of)| array(of)).collect();
    RecordBatch::try_new(schema(columns), arrays)
}
