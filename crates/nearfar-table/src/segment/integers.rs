//! Integer-like columns as plain integers, without arrays between them and those who compute with them.

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use std::sync::Arc;

use super::codes::{Code, with_codes};
use super::column::{ColumnSegment, Encoding};
use super::narrow::{Integer, with_integer_type};
use super::rows::RowSet;
use crate::error::TableError;

impl ColumnSegment {
    /// The low 64 bits of the values of `rows` of a column of an integer-like `data_type`. Nulls have any.
    ///
    /// # Errors
    /// What Arrow's kernels report.
    pub fn read_integers(
        &self,
        rows: RowSet<'_>,
        data_type: &DataType,
    ) -> Result<Vec<i64>, TableError> {
        if let Encoding::Narrow { base, codes } = self.encoding() {
            let base = *base as i64;
            return Ok(with_codes!(codes, codes => {
                rows.gather(codes, |code| base.wrapping_add(code.widen().cast_signed()))
            }));
        }
        let array = self.read(rows, data_type)?;
        Ok(with_integer_type!(data_type, T => {
            let values = array.as_primitive::<T>().values().iter();
            values.map(|value| value.to_wide() as i64).collect()
        }, _ => unreachable!("only integer-like columns are read as integers")))
    }

    /// Where each of `rows` has its value among the [`Self::place_count`] that there may be. None of columns that have no
    /// such places, or too many for 32 bits.
    pub fn read_places(&self, rows: RowSet<'_>) -> Option<Vec<u32>> {
        let count = self.place_count()?;
        let mut places: Vec<u32> =
            with_codes!(self.codes()?, codes => rows.gather(codes, |code| code.widen() as u32));
        if let Some(nulls) = self.nulls_of(rows) {
            // They share the code of a value.
            for (place, is_valid) in places.iter_mut().zip(nulls.iter()) {
                *place = if is_valid { *place } else { count - 1 };
            }
        }
        Some(places)
    }

    /// One place for each code up to the largest, in their order, and the last for null where there are nulls. None of
    /// columns without codes, or with too many for 32 bits.
    pub fn place_count(&self) -> Option<u32> {
        if self.zones().is_empty() {
            return None;
        }
        let of_codes = self.zones().overall().high.checked_add(1)?;
        let of_null = u64::from(self.nulls().is_some());
        u32::try_from(of_codes + of_null).ok()
    }
}

/// Integers as values of an integer-like `data_type`.
pub fn integer_array(values: impl Iterator<Item = Option<i128>>, data_type: &DataType) -> ArrayRef {
    with_integer_type!(data_type, T => {
        type Native = <T as ArrowPrimitiveType>::Native;
        let values = values.map(|value| value.map(Native::from_wide));
        let array: PrimitiveArray<T> = values.collect();
        Arc::new(array.with_data_type(data_type.clone()))
    }, _ => unreachable!("only integer-like columns are made of integers"))
}
