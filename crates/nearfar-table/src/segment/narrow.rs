//! Integer-like values as a base and unsigned offsets from it.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;
use std::sync::Arc;

use super::codes::{Code, Codes, with_codes};
use super::column_builder::nulls_of;
use super::rows::RowSet;

/// A native value that is an integer of at most 128 bits.
pub trait Integer: Copy {
    /// The same number, wider.
    fn to_wide(self) -> i128;
    /// The low bits of `wide`.
    fn from_wide(wide: i128) -> Self;
    /// `self + code`, in this type's arithmetic.
    fn plus<C: Code>(self, code: C) -> Self;
}

macro_rules! impl_integer {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn to_wide(self) -> i128 {
                i128::from(self)
            }
            #[inline(always)]
            fn from_wide(wide: i128) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn plus<C: Code>(self, code: C) -> Self {
                self.wrapping_add(code.widen() as Self)
            }
        }
    )*};
}
impl_integer!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// Runs `$body` with `$T` as the Arrow type of an integer-like `$data_type`; `$other` for the rest.
macro_rules! with_integer_type {
    ($data_type:expr, $T:ident => $body:expr, _ => $other:expr) => {{
        use arrow::datatypes as t;
        use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        macro_rules! run {
            ($type:ty) => {{
                type $T = $type;
                $body
            }};
        }
        match $data_type {
            DataType::Int8 => run!(t::Int8Type),
            DataType::Int16 => run!(t::Int16Type),
            DataType::Int32 => run!(t::Int32Type),
            DataType::Int64 => run!(t::Int64Type),
            DataType::UInt8 => run!(t::UInt8Type),
            DataType::UInt16 => run!(t::UInt16Type),
            DataType::UInt32 => run!(t::UInt32Type),
            DataType::UInt64 => run!(t::UInt64Type),
            DataType::Decimal32(..) => run!(t::Decimal32Type),
            DataType::Decimal64(..) => run!(t::Decimal64Type),
            DataType::Decimal128(..) => run!(t::Decimal128Type),
            DataType::Date32 => run!(t::Date32Type),
            DataType::Date64 => run!(t::Date64Type),
            DataType::Time32(Second) => run!(t::Time32SecondType),
            DataType::Time32(Millisecond) => run!(t::Time32MillisecondType),
            DataType::Time64(Microsecond) => run!(t::Time64MicrosecondType),
            DataType::Time64(Nanosecond) => run!(t::Time64NanosecondType),
            DataType::Timestamp(Second, _) => run!(t::TimestampSecondType),
            DataType::Timestamp(Millisecond, _) => run!(t::TimestampMillisecondType),
            DataType::Timestamp(Microsecond, _) => run!(t::TimestampMicrosecondType),
            DataType::Timestamp(Nanosecond, _) => run!(t::TimestampNanosecondType),
            DataType::Duration(Second) => run!(t::DurationSecondType),
            DataType::Duration(Millisecond) => run!(t::DurationMillisecondType),
            DataType::Duration(Microsecond) => run!(t::DurationMicrosecondType),
            DataType::Duration(Nanosecond) => run!(t::DurationNanosecondType),
            _ => $other,
        }
    }};
}
pub(crate) use with_integer_type;

/// Whether columns of this type are stored as narrow codes.
pub fn is_integer_like(data_type: &DataType) -> bool {
    with_integer_type!(data_type, T => T::DATA_TYPE != DataType::Null, _ => false)
}

/// Calls `visit` with every value of `array` that is not null; says whether it is integer-like, for
/// else there are none.
pub fn for_each_integer(array: &ArrayRef, mut visit: impl FnMut(i128)) -> bool {
    with_integer_type!(array.data_type(), T => {
        array.as_primitive::<T>().iter().flatten().for_each(|value| visit(value.to_wide()));
        true
    }, _ => false)
}

/// Integers of one array, as codes from the least of them on.
#[derive(Debug)]
pub struct NarrowValues {
    /// The least and the largest that is not null. None where all are.
    bounds: Option<(i128, i128)>,
    /// 0 for nulls.
    codes: Codes,
    nulls: Option<NullBuffer>,
}

impl NarrowValues {
    /// The values of `array`, which is of an integer-like `data_type`. None where they span more than 64 bits.
    pub fn of(array: &ArrayRef, data_type: &DataType) -> Option<Self> {
        let bounds = with_integer_type!(data_type, T => bounds_of::<T>(array), _ => None);
        let (low, largest) = base_and_largest(bounds)?;
        let width_bytes = Codes::width_bytes(largest);
        let mut bytes = MutableBuffer::from_len_zeroed(array.len() * width_bytes);
        let nulls = nulls_of(array);
        write_codes(
            (array, nulls.as_ref()),
            data_type,
            low,
            width_bytes,
            bytes.as_slice_mut(),
        );
        Some(Self {
            bounds,
            codes: Codes::from_buffer(bytes.into(), width_bytes),
            nulls,
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Which of them are null, if any is.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// The values again. What nulls had below them is not kept.
    pub fn to_array(&self, data_type: &DataType) -> ArrayRef {
        let all = RowSet::Run {
            start: 0,
            len: self.len(),
        };
        decode(&self.codes, self.base(), all, self.nulls.clone(), data_type)
    }

    fn base(&self) -> i128 {
        self.bounds.map_or(0, |(low, _)| low)
    }

    /// Writes codes of `width_bytes` each, from `base` on, which is no more than any value; 0 for nulls.
    pub fn write(&self, base: i128, width_bytes: usize, bytes: &mut [u8]) {
        match width_bytes {
            1 => self.write_wide::<1>(base, bytes),
            2 => self.write_wide::<2>(base, bytes),
            4 => self.write_wide::<4>(base, bytes),
            _ => self.write_wide::<8>(base, bytes),
        }
    }

    fn write_wide<const WIDTH: usize>(&self, base: i128, bytes: &mut [u8]) {
        let (slots, _) = bytes.as_chunks_mut::<WIDTH>();
        // All values lie within 64 bits of the base.
        let more = match self.bounds {
            Some((low, _)) => (low as u64).wrapping_sub(base as u64),
            None => 0,
        };
        with_codes!(&self.codes, codes => {
            for (slot, code) in slots.iter_mut().zip(codes.iter()) {
                slot.copy_from_slice(&(code.widen() + more).to_le_bytes()[..WIDTH]);
            }
        });
        clear_nulls(self.nulls.as_ref(), slots);
    }
}

/// The least of all values, and the code of the largest from there on: none where they span more than 64 bits.
pub fn bounds(all: &[NarrowValues]) -> Option<(i128, u64)> {
    let bounds = all.iter().filter_map(|values| values.bounds);
    base_and_largest(bounds.reduce(merge))
}

fn base_and_largest(bounds: Option<(i128, i128)>) -> Option<(i128, u64)> {
    let (low, high) = bounds.unwrap_or((0, 0));
    let span = high.checked_sub(low)?;
    Some((low, u64::try_from(span).ok()?))
}

/// Nulls have code 0.
fn clear_nulls<const WIDTH: usize>(nulls: Option<&NullBuffer>, slots: &mut [[u8; WIDTH]]) {
    let Some(nulls) = nulls else { return };
    for (row, slot) in slots.iter_mut().enumerate() {
        if nulls.is_null(row) {
            slot.fill(0);
        }
    }
}

fn merge(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    (a.0.min(b.0), a.1.max(b.1))
}

fn bounds_of<T>(array: &ArrayRef) -> Option<(i128, i128)>
where
    T: ArrowPrimitiveType,
    T::Native: Integer + Ord,
{
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        let mut values = array.values().iter().copied();
        let first = values.next()?;
        let (low, high) = values.fold((first, first), |(l, h), v| (l.min(v), h.max(v)));
        return Some((low.to_wide(), high.to_wide()));
    }
    array
        .iter()
        .flatten()
        .map(|v| (v.to_wide(), v.to_wide()))
        .reduce(merge)
}

/// Writes the codes of `array`, which has these nulls, relative to `base` into `bytes`, `width_bytes`
/// each; nulls are written as 0.
fn write_codes(
    (array, nulls): (&ArrayRef, Option<&NullBuffer>),
    data_type: &DataType,
    base: i128,
    width_bytes: usize,
    bytes: &mut [u8],
) {
    with_integer_type!(
        data_type,
        T => {
            let array = array.as_primitive::<T>();
            match width_bytes {
                1 => write::<T, 1>(array, nulls, base, bytes),
                2 => write::<T, 2>(array, nulls, base, bytes),
                4 => write::<T, 4>(array, nulls, base, bytes),
                _ => write::<T, 8>(array, nulls, base, bytes),
            }
        },
        _ => unreachable!("only integer-like columns are stored as narrow codes")
    );
}

fn write<T, const WIDTH: usize>(
    array: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
    base: i128,
    bytes: &mut [u8],
) where
    T: ArrowPrimitiveType,
    T::Native: Integer,
{
    let base = base as u64;
    let (slots, _) = bytes.as_chunks_mut::<WIDTH>();
    for (slot, value) in slots.iter_mut().zip(array.values()) {
        // Values lie within 64 bits of the base, so the low bits alone give the difference.
        let code = (value.to_wide() as u64).wrapping_sub(base);
        slot.copy_from_slice(&code.to_le_bytes()[..WIDTH]);
    }
    clear_nulls(nulls, slots);
}

/// The values of `rows`.
pub fn decode(
    codes: &Codes,
    base: i128,
    rows: RowSet<'_>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    with_integer_type!(
        data_type,
        T => {
            type Native = <T as ArrowPrimitiveType>::Native;
            let base = Native::from_wide(base);
            let values = with_codes!(codes, codes => rows.gather(codes, |code| base.plus(code)));
            Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
        },
        _ => unreachable!("only integer-like columns are stored as narrow codes")
    )
}

/// The `count` consecutive values from `first` on, as an array of an integer-like type.
pub fn integers(first: i128, count: usize, data_type: &DataType) -> ArrayRef {
    with_integer_type!(
        data_type,
        T => {
            type Native = <T as ArrowPrimitiveType>::Native;
            let values = (0..count as i128).map(|i| Native::from_wide(first + i));
            Arc::new(
                PrimitiveArray::<T>::from_iter_values(values).with_data_type(data_type.clone()),
            )
        },
        _ => unreachable!("only integer-like columns have consecutive values")
    )
}
