//! Keys of columns whose values are of one width: integers, dates, times and decimals.
//!
//! Statements that read or change a row make keys of single rows. Arrow's converter allocates several times for
//! each call, which such a statement notices. Here are the same bytes with one allocation.

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};

use super::definition::IndexColumn;

/// Bytes that compare as signed integers do: the highest byte first, with the sign turned round.
macro_rules! ordered {
    ($integer:ty) => {
        |value: $integer| (value ^ <$integer>::MIN).to_be_bytes()
    };
}

/// Keys of one width, one after another.
#[derive(Debug)]
pub struct FixedKeys {
    bytes: Vec<u8>,
    width: usize,
}

impl FixedKeys {
    /// The keys of rows with these values of `columns`, as arrow's row format has them; the values are of the columns'
    /// types. None where a column has values of different widths.
    pub fn of(values: &[ArrayRef], columns: &[IndexColumn]) -> Option<Self> {
        let widths = values.iter().map(|values| width(values.data_type()));
        let width = widths.sum::<Option<usize>>()?;
        let rows = values.first()?.len();
        let mut keys = Self {
            bytes: vec![0; rows * width],
            width,
        };
        let mut from = 0;
        for (values, column) in values.iter().zip(columns) {
            from += keys.write(from, values, *column)?;
        }
        Some(keys)
    }

    /// The keys, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.width)
    }

    /// Writes a column's part of all keys, which begins at `from`, and gives its width.
    fn write(&mut self, from: usize, values: &ArrayRef, column: IndexColumn) -> Option<usize> {
        let to = (from, column);
        match values.data_type() {
            DataType::Int8 => self.write_as::<Int8Type, 1>(to, values, ordered!(i8)),
            DataType::Int16 => self.write_as::<Int16Type, 2>(to, values, ordered!(i16)),
            DataType::Int32 => self.write_as::<Int32Type, 4>(to, values, ordered!(i32)),
            DataType::Int64 => self.write_as::<Int64Type, 8>(to, values, ordered!(i64)),
            DataType::Date32 => self.write_as::<Date32Type, 4>(to, values, ordered!(i32)),
            DataType::Time64(_) => {
                self.write_as::<Time64MicrosecondType, 8>(to, values, ordered!(i64));
            }
            DataType::Timestamp(..) => {
                self.write_as::<TimestampMicrosecondType, 8>(to, values, ordered!(i64));
            }
            DataType::Decimal128(..) => {
                self.write_as::<Decimal128Type, 16>(to, values, ordered!(i128));
            }
            _ => return None,
        }
        width(values.data_type())
    }

    fn write_as<T: ArrowPrimitiveType, const BYTES: usize>(
        &mut self,
        (from, column): (usize, IndexColumn),
        values: &ArrayRef,
        ordered: impl Fn(T::Native) -> [u8; BYTES],
    ) {
        let values: &PrimitiveArray<T> = values.as_primitive();
        let keys = self.bytes.chunks_exact_mut(self.width);
        for (key, value) in keys.zip(values) {
            match value {
                Some(value) => {
                    let mut bytes = ordered(value);
                    if column.is_descending {
                        bytes.iter_mut().for_each(|byte| *byte = !*byte);
                    }
                    key[from] = 1;
                    key[from + 1..from + 1 + BYTES].copy_from_slice(&bytes);
                }
                None => key[from] = if column.nulls_first { 0 } else { u8::MAX },
            }
        }
    }
}

/// The bytes that a value of a type takes in a key, with the one that tells whether it is null.
fn width(kind: &DataType) -> Option<usize> {
    let bytes = match kind {
        DataType::Int8 => 1,
        DataType::Int16 => 2,
        DataType::Int32 | DataType::Date32 => 4,
        DataType::Int64
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Microsecond, _) => 8,
        DataType::Decimal128(..) => 16,
        _ => return None,
    };
    Some(1 + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array,
        TimestampMicrosecondArray,
    };
    use arrow::compute::SortOptions;
    use arrow::row::{RowConverter, SortField};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A value of each type for a row, and whether it is null.
    type Row = (i128, bool);

    fn column(kind: usize, rows: &[Row]) -> ArrayRef {
        let values = rows
            .iter()
            .map(|(value, is_null)| (!is_null).then_some(*value));
        match kind {
            0 => Arc::new(Int8Array::from_iter(values.map(|v| v.map(|v| v as i8)))),
            1 => Arc::new(Int16Array::from_iter(values.map(|v| v.map(|v| v as i16)))),
            2 => Arc::new(Int32Array::from_iter(values.map(|v| v.map(|v| v as i32)))),
            3 => Arc::new(Int64Array::from_iter(values.map(|v| v.map(|v| v as i64)))),
            4 => Arc::new(Date32Array::from_iter(values.map(|v| v.map(|v| v as i32)))),
            5 => Arc::new(TimestampMicrosecondArray::from_iter(
                values.map(|v| v.map(|v| v as i64)),
            )),
            _ => Arc::new(Decimal128Array::from_iter(values)),
        }
    }

    proptest! {
        #[test]
        fn keys_are_those_of_arrow(
            kinds in prop::collection::vec((0..7_usize, any::<bool>(), any::<bool>()), 1..4),
            rows in prop::collection::vec((any::<i128>(), any::<bool>()), 1..20),
        ) {
            let values: Vec<_> = kinds.iter().map(|(kind, ..)| column(*kind, &rows)).collect();
            let columns: Vec<_> = kinds.iter().enumerate().map(|(column, (_, is_descending, nulls_first))| IndexColumn {
                column,
                is_descending: *is_descending,
                nulls_first: *nulls_first,
            }).collect();
            let fields = values.iter().zip(&columns).map(|(values, column)| {
                let options = SortOptions { descending: column.is_descending, nulls_first: column.nulls_first };
                SortField::new_with_options(values.data_type().clone(), options)
            });
            let converter = RowConverter::new(fields.collect()).unwrap();
            let expected = converter.convert_columns(&values).unwrap();
            let expected: Vec<&[u8]> = expected.iter().map(|row| row.data()).collect();
            let keys = FixedKeys::of(&values, &columns).unwrap();
            prop_assert_eq!(keys.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn texts_have_no_fixed_width() {
        let texts: ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["a"]));
        let column = IndexColumn {
            column: 0,
            is_descending: false,
            nulls_first: false,
        };
        assert!(FixedKeys::of(&[texts], &[column]).is_none());
    }
}
