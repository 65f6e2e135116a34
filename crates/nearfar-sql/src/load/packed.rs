//! Few rows of one statement, held against what is declared of their columns and packed value by value.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::sink::{check_nulls, stored_column};
use crate::error::EngineError;
use crate::values::Declared;
use crate::values::declared::assigned;
use nearfar_table::segment::OneValue;
use nearfar_table::table::{PackedRows, Segment, Table};
use nearfar_table::transaction::NewRows;

/// Whether so many rows of `table` can be packed: few, of a table that stays, of which nothing looks at whole ones. Asked
/// again behind what was declared: a look is never older.
pub fn packs(table: &Table, rows: usize) -> bool {
    table.temporary().is_none()
        && table.row_check().is_none()
        && PackedRows::takes(table.schema(), rows)
}

/// The value of a column of a row that is added, of a type that casts to the column's.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// It was given so.
    Scalar(&'a ScalarValue),
    /// It is the only one of these.
    Array(ArrayRef),
}

/// A row that is added.
#[derive(Debug)]
pub enum AddedRow {
    /// It is packed.
    Packed(NewRows),
    /// Its values, column by column, where it can't be.
    Columns(Vec<ArrayRef>),
}

/// A value that was held against what is declared of its column, as that stores it.
enum Stored<'a> {
    Given(OneValue<'a>),
    Array(ArrayRef),
}

/// Rows of a segment of `table`, each of which gets other values in the columns of `new`, by their places. None where
/// they [have to be made column by column](PackedRows::updated).
///
/// # Errors
/// A null where none may be; a text that is too long; a value that does not cast.
pub fn updated_rows(
    table: &Arc<Table>,
    before: (&Segment, &[u32]),
    new: &[(usize, ArrayRef)],
) -> Result<Option<NewRows>, EngineError> {
    let (none, schema) = (NewRows::none(table), table.schema());
    if !packs(table, before.1.len()) {
        return Ok(None);
    }
    for (at, values) in new {
        check_nulls(table, schema.field(*at), values)?;
    }
    let mut columns = vec![None; schema.fields().len()];
    for (at, values) in new {
        columns[*at] = Some(as_declared(schema.field(*at), values)?);
    }
    Ok(with_rows(
        none,
        PackedRows::updated(schema, before, &columns),
    ))
}

/// A row of `table` with these values, one for each column.
///
/// # Errors
/// As [`updated_rows`].
pub fn added_row(table: &Arc<Table>, values: &[NewValue<'_>]) -> Result<AddedRow, EngineError> {
    let (none, schema) = (NewRows::none(table), table.schema());
    if !packs(table, 1) {
        return columns(values);
    }
    let mut row = Vec::with_capacity(values.len());
    for (field, value) in schema.fields().iter().zip(values) {
        let given = match value {
            NewValue::Scalar(scalar) => direct(field, scalar),
            NewValue::Array(_) => None,
        };
        row.push(match given {
            Some(given) => Stored::Given(given),
            None => {
                let array = value.array()?;
                check_nulls(table, field, &array)?;
                Stored::Array(array)
            }
        });
    }
    for (field, value) in schema.fields().iter().zip(&mut row) {
        if let Stored::Array(array) = value {
            *array = as_declared(field, array)?;
        }
    }
    let row = row.iter().map(|value| match value {
        Stored::Given(given) => *given,
        Stored::Array(array) => OneValue::in_array(array, 0),
    });
    match with_rows(none, PackedRows::one(schema, row)) {
        Some(rows) => Ok(AddedRow::Packed(rows)),
        None => columns(values),
    }
}

/// The values as they were given, which are not computed again.
fn columns(values: &[NewValue<'_>]) -> Result<AddedRow, EngineError> {
    let columns = values.iter().map(NewValue::array);
    Ok(AddedRow::Columns(columns.collect::<Result<_, _>>()?))
}

impl NewValue<'_> {
    fn array(&self) -> Result<ArrayRef, EngineError> {
        match self {
            Self::Scalar(scalar) => Ok(scalar.to_array()?),
            Self::Array(array) => Ok(Arc::clone(array)),
        }
    }
}

fn with_rows(none: NewRows, packed: Option<PackedRows>) -> Option<NewRows> {
    packed.map(|packed| NewRows {
        packed: Some(packed),
        ..none
    })
}

/// Values as a column of `field` keeps them.
fn as_declared(field: &Field, values: &ArrayRef) -> Result<ArrayRef, EngineError> {
    let kept = assigned(field, values)?;
    stored_column(field, kept.as_ref().unwrap_or(values))
}

/// The value as the column stores it, if that is all the same and nothing is declared of it.
fn direct<'a>(field: &Field, value: &'a ScalarValue) -> Option<OneValue<'a>> {
    use ScalarValue as S;
    let fixed = |value: i128| Some(OneValue::Fixed(value as u128));
    match (value, field.data_type()) {
        (value, _) if value.is_null() => field.is_nullable().then_some(OneValue::Null),
        (S::Boolean(Some(value)), DataType::Boolean) => fixed((*value).into()),
        (S::Int8(Some(value)), DataType::Int8) => fixed((*value).into()),
        (S::Int16(Some(value)), DataType::Int16) => fixed((*value).into()),
        (S::Int32(Some(value)), DataType::Int32) | (S::Date32(Some(value)), DataType::Date32) => {
            fixed((*value).into())
        }
        (S::Int64(Some(value)), DataType::Int64)
        | (
            S::TimestampMicrosecond(Some(value), None),
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ) => fixed((*value).into()),
        (
            S::Decimal128(Some(value), precision, scale),
            DataType::Decimal128(of_precision, of_scale),
        ) => {
            let is_same = precision == of_precision && scale == of_scale;
            is_same.then(|| fixed(*value))?
        }
        (S::Utf8(Some(text)) | S::Utf8View(Some(text)), DataType::Utf8View) => {
            let is_plain = Declared::of(field).is_none();
            is_plain.then_some(OneValue::Bytes(text.as_bytes()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_types_are_cast() {
        let integer = Field::new("i", DataType::Int32, false);
        let direct =
            |field: &Field, value: ScalarValue| direct(field, &value).map(|it| format!("{it:?}"));
        assert_eq!(direct(&integer, 7_i32.into()), Some("Fixed(7)".to_owned()));
        assert_eq!(direct(&integer, 7_i64.into()), None);
        assert_eq!(direct(&integer, ScalarValue::Int32(None)), None);
        let decimal = Field::new("d", DataType::Decimal128(9, 2), true);
        let given = |precision, scale| ScalarValue::Decimal128(Some(5), precision, scale);
        assert!(direct(&decimal, given(9, 2)).is_some());
        assert!(direct(&decimal, given(9, 1)).is_none() && direct(&decimal, given(8, 2)).is_none());
        assert_eq!(direct(&decimal, ScalarValue::Null), Some("Null".to_owned()));
        // Of -0 and 0 one is stored.
        let float = Field::new("f", DataType::Float64, true);
        assert!(direct(&float, (-0.0_f64).into()).is_none());
    }
}
