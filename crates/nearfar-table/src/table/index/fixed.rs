//! Keys of columns whose values are of one width: integers, dates, times and decimals.
//!
//! Statements that read or change a row make keys of single rows. Arrow's converter allocates several times for
//! each call, which such a statement notices. Here are the same bytes with one allocation.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use nearfar_index::Key;

use super::definition::IndexColumn;
use crate::segment::with_integer_type;

/// Keys of one width, one after another.
#[derive(Debug)]
pub struct FixedKeys {
    bytes: Vec<u8>,
    width: usize,
}

impl FixedKeys {
    /// The keys of rows with these values of `columns`, as arrow's row format has them: of each column a byte that
    /// tells whether it is null, and its integer's [bytes](Key), turned round where it is descending. The values are of
    /// the columns' types. None where a column has values of other widths.
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
            let kind = values.data_type();
            from = with_integer_type!(kind, T => keys.write::<T>(from, values.as_primitive(), *column), _ => return None);
        }
        Some(keys)
    }

    /// The keys, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.width)
    }

    /// Writes a column's part of all keys from `from` on, and gives where it ends.
    fn write<T>(&mut self, from: usize, values: &PrimitiveArray<T>, column: IndexColumn) -> usize
    where
        T: ArrowPrimitiveType,
        T::Native: Key,
    {
        let end = from + 1 + size_of::<T::Native>();
        for (key, value) in self.bytes.chunks_exact_mut(self.width).zip(values) {
            let bytes = &mut key[from + 1..end];
            let tells_null = match value {
                Some(value) => {
                    bytes.copy_from_slice(value.key_bytes().as_ref());
                    if column.is_descending {
                        bytes.iter_mut().for_each(|byte| *byte = !*byte);
                    }
                    1
                }
                None if column.nulls_first => 0,
                None => u8::MAX,
            };
            key[from] = tells_null;
        }
        end
    }
}

/// The bytes that a value of a type takes in a key, with the one that tells whether it is null.
fn width(kind: &DataType) -> Option<usize> {
    with_integer_type!(kind, T => Some(1 + size_of::<<T as ArrowPrimitiveType>::Native>()), _ => None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array,
        TimestampMicrosecondArray, UInt64Array,
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
            6 => Arc::new(UInt64Array::from_iter(values.map(|v| v.map(|v| v as u64)))),
            _ => Arc::new(Decimal128Array::from_iter(values)),
        }
    }

    proptest! {
        #[test]
        fn keys_are_those_of_arrow(
            kinds in prop::collection::vec((0..8_usize, any::<bool>(), any::<bool>()), 1..4),
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
