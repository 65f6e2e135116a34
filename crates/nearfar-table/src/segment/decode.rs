//! From encoded column segments back to Arrow arrays.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringArray, StringViewArray, UInt32Array,
    make_array, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::codes::Codes;
use super::column::{ColumnSegment, Encoding};
use super::narrow;
use super::plain::map_buffers;
use super::rows::RowSet;
use super::tail::Kind;
use super::value::array_of;
use crate::error::TableError;

/// Positions are gathered from a converted span when they are at least this share of it.
const DENSE_SHARE: usize = 4;

/// Texts of so many rows, or fewer, are copied one by one.
const FEW_ROWS: usize = 16;

/// The longest string that lies in its view, in Arrow's format.
const INLINE_BYTES_MAX: i32 = 12;

impl ColumnSegment {
    /// The values of `rows` as an array of the column's `data_type`. Runs of plain segments and
    /// the bytes of strings are handed out without a copy.
    ///
    /// # Errors
    /// What Arrow's kernels report.
    pub fn read(&self, rows: RowSet<'_>, data_type: &DataType) -> Result<ArrayRef, TableError> {
        if let RowSet::Positions([row]) = rows
            && Kind::of(data_type).is_some()
        {
            return Ok(array_of(iter::once(self.value(*row as usize)), data_type));
        }
        match self.encoding() {
            Encoding::Narrow { base, codes } => {
                let nulls = self.nulls_of(rows);
                Ok(narrow::decode(codes, *base, rows, nulls, data_type))
            }
            Encoding::Dictionary { codes, values } => {
                if let RowSet::Positions(few) = rows
                    && few.len() <= FEW_ROWS
                {
                    return self.texts_at(few, |row| values.value(codes.get(row) as usize));
                }
                let nulls = self.nulls_of(rows);
                Ok(take_values(values, codes, rows, nulls)?)
            }
            Encoding::Strings { values } => Ok(match rows {
                RowSet::Run { start, len } => Arc::new(self.views(values, start..start + len)?),
                RowSet::Positions(positions) => self.read_strings_at(values, positions)?,
            }),
            Encoding::Plain { values } => Ok(match rows {
                RowSet::Run { start, len } => self.plain_run(&values.slice(start, len))?,
                RowSet::Positions(positions) => take(values, &indices(positions, 0), None)?,
            }),
        }
    }

    fn read_strings_at(
        &self,
        values: &StringArray,
        positions: &[u32],
    ) -> Result<ArrayRef, TableError> {
        if positions.len() <= FEW_ROWS {
            return self.texts_at(positions, |row| values.value(row));
        }
        let span = RowSet::Positions(positions).span();
        if positions.len() * DENSE_SHARE >= span.len() {
            let views = self.views(values, span.clone())?;
            return Ok(take(&views, &indices(positions, span.start as u32), None)?);
        }
        let taken = take(values, &indices(positions, 0), None)?;
        Ok(arrow::compute::cast(&taken, &DataType::Utf8View)?)
    }

    /// The texts of a few rows, with memory for nothing but these.
    fn texts_at<'a>(
        &self,
        positions: &[u32],
        text: impl Fn(usize) -> &'a str,
    ) -> Result<ArrayRef, TableError> {
        let nulls = self.nulls_of(RowSet::Positions(positions));
        let (mut views, mut bytes) = (Vec::with_capacity(positions.len()), Vec::new());
        for (at, row) in positions.iter().enumerate() {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
            let text = if is_null { "" } else { text(*row as usize) };
            views.push(make_view(text.as_bytes(), 0, bytes.len() as u32));
            if text.len() > INLINE_BYTES_MAX as usize {
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        let long: Vec<Buffer> = match bytes.is_empty() {
            true => Vec::new(),
            false => vec![Buffer::from_vec(bytes)],
        };
        let texts = StringViewArray::try_new(views.into(), long, nulls)?;
        Ok(Arc::new(texts))
    }

    /// The strings of a run of rows, over a buffer of no more than their bytes: operators that keep
    /// the batch are charged for its buffers' full size.
    fn views(
        &self,
        values: &StringArray,
        rows: Range<usize>,
    ) -> Result<StringViewArray, TableError> {
        let offsets = &values.value_offsets()[rows.start..=rows.end];
        let (first, last) = (offsets[0], offsets[rows.len()]);
        let bytes = values
            .values()
            .slice_with_length(first as usize, (last - first) as usize);
        let rebased: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
        let nulls = self.nulls_of(RowSet::Run {
            start: rows.start,
            len: rows.len(),
        });
        let run = StringArray::try_new(OffsetBuffer::new(rebased.into()), self.own(&bytes), nulls)?;
        Ok(own_views(&run))
    }

    /// A run of a plain segment, over buffers of no more than its bytes where the type allows it.
    fn plain_run(&self, run: &ArrayRef) -> Result<ArrayRef, TableError> {
        if !run.data_type().is_primitive() {
            return Ok(Arc::clone(run));
        }
        let data = map_buffers(&run.to_data(), &mut |buffer| self.own(buffer))?;
        Ok(make_array(data))
    }

    /// The validity of `rows`; nothing where the column has no nulls.
    pub fn nulls_of(&self, rows: RowSet<'_>) -> Option<NullBuffer> {
        let nulls = self.nulls()?;
        Some(match rows {
            RowSet::Run { start, len } => nulls.slice(start, len),
            RowSet::Positions(positions) => {
                NullBuffer::new(BooleanBuffer::collect_bool(positions.len(), |i| {
                    nulls.is_valid(positions[i] as usize)
                }))
            }
        })
    }
}

/// Views of `strings`, over their bytes only where some string is too long to lie in its view.
///
/// Joins put the buffers of all their input's batches into each batch that they make, whether a view
/// needs them or not.
pub(super) fn own_views(strings: &StringArray) -> StringViewArray {
    let views = StringViewArray::from(strings);
    let are_inline = strings
        .value_offsets()
        .windows(2)
        .all(|ends| ends[1] - ends[0] <= INLINE_BYTES_MAX);
    match are_inline {
        true => views.gc(),
        false => views,
    }
}

fn indices(positions: &[u32], base: u32) -> UInt32Array {
    UInt32Array::from_iter_values(positions.iter().map(|p| p - base))
}

fn take_values(
    values: &StringViewArray,
    codes: &Codes,
    rows: RowSet<'_>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, TableError> {
    fn keys<T: ArrowPrimitiveType>(
        codes: &ScalarBuffer<T::Native>,
        rows: RowSet<'_>,
        nulls: Option<NullBuffer>,
    ) -> PrimitiveArray<T>
    where
        T::Native: ArrowNativeType,
    {
        let keys = match rows {
            RowSet::Run { start, len } => codes.slice(start, len),
            RowSet::Positions(_) => rows.gather(codes, |code| code).into(),
        };
        PrimitiveArray::new(keys, nulls)
    }
    Ok(match codes {
        Codes::U8(codes) => take(values, &keys::<UInt8Type>(codes, rows, nulls), None)?,
        Codes::U16(codes) => take(values, &keys::<UInt16Type>(codes, rows, nulls), None)?,
        Codes::U32(codes) => take(values, &keys::<UInt32Type>(codes, rows, nulls), None)?,
        Codes::U64(codes) => take(values, &keys::<UInt64Type>(codes, rows, nulls), None)?,
    })
}
