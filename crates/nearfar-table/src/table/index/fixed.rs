//! Keys of columns whose values are of one width: integers, dates, times and decimals.
//!
//! Statements that read or change a row make keys of single rows. Arrow's converter allocates several times for
//! each call, which such a statement notices. Here are the same bytes with one allocation.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use nearfar_index::Key;

use super::definition::IndexColumn;
use crate::segment::{Integer, with_integer_type};

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
            write_value(&mut key[from..end], value, column);
        }
        end
    }
}

/// Writes a column's part of a key, whose bytes are 0.
fn write_value(key: &mut [u8], value: Option<impl Key>, column: IndexColumn) {
    let (tells_null, bytes) = key.split_at_mut(1);
    tells_null[0] = match value {
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
}

/// Longer keys are not made as [`OneKey`].
const ONE_KEY_BYTES_MAX: usize = 64;

/// The key of one row, or what keys begin with, of columns of fixed width: the same bytes as those of [`FixedKeys`].
#[derive(Debug, Clone, Copy)]
pub struct OneKey {
    bytes: [u8; ONE_KEY_BYTES_MAX],
    length: usize,
    has_null: bool,
}

impl OneKey {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            bytes: [0; ONE_KEY_BYTES_MAX],
            length: 0,
            has_null: false,
        }
    }

    /// Whether keys of columns of these types can be made.
    pub fn takes<'a>(mut kinds: impl Iterator<Item = &'a DataType>) -> bool {
        let length = kinds.try_fold(0, |length, kind| Some(length + width(kind)?));
        length.is_some_and(|length| length <= ONE_KEY_BYTES_MAX)
    }

    /// Adds a column of type `kind` with an integer. None, and nothing is added, where the type has not this integer, no
    /// fixed width, or where there is no room.
    pub fn push_integer(
        &mut self,
        (kind, column): (&DataType, IndexColumn),
        value: i128,
    ) -> Option<()> {
        let is_one = with_integer_type!(kind, T => {
            let native = <T as ArrowPrimitiveType>::Native::from_wide(value);
            native.to_wide() == value
        }, _ => false);
        is_one.then(|| self.push_bits((kind, column), Some(value as u128)))?
    }

    /// The same with a value whose bytes are the low ones of these, or a null.
    pub fn push_bits(
        &mut self,
        (kind, column): (&DataType, IndexColumn),
        value: Option<u128>,
    ) -> Option<()> {
        let end = self.length + width(kind)?;
        let key = self.bytes.get_mut(self.length..end)?;
        with_integer_type!(kind, T => {
            let native = |bits| <T as ArrowPrimitiveType>::Native::from_wide(bits as i128);
            write_value(key, value.map(native), column);
        }, _ => return None);
        self.has_null |= value.is_none();
        self.length = end;
        Some(())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether a value is null.
    pub fn has_null(&self) -> bool {
        self.has_null
    }
}

/// The bytes that a value of a type takes in a key, with the one that tells whether it is null.
fn width(kind: &DataType) -> Option<usize> {
    with_integer_type!(kind, T => Some(1 + size_of::<<T as ArrowPrimitiveType>::Native>()), _ => None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::OneValue;
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
            prop_assert_eq!(keys.iter().collect::<Vec<_>>(), expected.clone());
            for (row, expected) in expected.into_iter().enumerate() {
                let mut key = OneKey::new();
                for (values, column) in values.iter().zip(&columns) {
                    let value = match OneValue::in_array(values, row) {
                        OneValue::Fixed(bits) => Some(bits),
                        _ => None,
                    };
                    key.push_bits((values.data_type(), *column), value).unwrap();
                }
                prop_assert_eq!(key.as_bytes(), expected);
                prop_assert_eq!(key.has_null(), rows[row].1);
            }
        }
    }

    #[test]
    fn integers_that_a_type_has_not_are_refused() {
        let column = IndexColumn {
            column: 0,
            is_descending: false,
            nulls_first: false,
        };
        let mut key = OneKey::new();
        assert!(key.push_integer((&DataType::Int8, column), 128).is_none());
        assert!(key.push_integer((&DataType::UInt8, column), -1).is_none());
        assert!(key.push_integer((&DataType::Utf8View, column), 1).is_none());
        assert!(key.as_bytes().is_empty());
        assert!(key.push_integer((&DataType::Int8, column), -128).is_some());
        assert_eq!((key.as_bytes(), key.has_null()), (&[1, 0][..], false));
        let wide = DataType::Decimal128(38, 0);
        for _ in 0..3 {
            assert!(key.push_integer((&wide, column), 1).is_some());
        }
        assert!(key.push_integer((&wide, column), 1).is_none());
        assert!(!OneKey::takes([&wide; 4].into_iter()));
        assert!(OneKey::takes([&wide; 3].into_iter()));
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
