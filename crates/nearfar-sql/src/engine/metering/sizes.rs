//! Sizes of values before they are made.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::ColumnarValue;
use datafusion::scalar::ScalarValue;

/// Bytes that a value takes beside its own, in whatever array it is.
pub const VALUE_BYTES: u64 = 16;

/// A constant, or the values of a batch.
pub enum Size<'a> {
    /// The same for every row.
    Constant(u64),
    /// Of each row.
    Rows(Box<dyn Fn(usize) -> u64 + 'a>),
}

impl Size<'_> {
    /// The number of row `row`.
    pub fn at(&self, row: usize) -> u64 {
        match self {
            Self::Constant(number) => *number,
            Self::Rows(of) => of(row),
        }
    }
}

/// The bytes of the values of an argument: of texts, binary values, and lists.
pub fn lengths(argument: &ColumnarValue) -> Size<'_> {
    match argument {
        ColumnarValue::Scalar(scalar) => Size::Constant(scalar_bytes(scalar)),
        ColumnarValue::Array(array) => Size::Rows(array_lengths(array)),
    }
}

/// The bytes of a constant.
pub fn scalar_bytes(scalar: &ScalarValue) -> u64 {
    if scalar.is_null() {
        return 0;
    }
    match scalar {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)) => text.len() as u64,
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes)) => bytes.len() as u64,
        other => other.size() as u64,
    }
}

fn array_lengths(array: &ArrayRef) -> Box<dyn Fn(usize) -> u64 + '_> {
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            Box::new(move |row| (offsets[row + 1] - offsets[row]) as u64)
        }
        DataType::LargeUtf8 => {
            let offsets = array.as_string::<i64>().value_offsets();
            Box::new(move |row| (offsets[row + 1] - offsets[row]) as u64)
        }
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            Box::new(move |row| (offsets[row + 1] - offsets[row]) as u64)
        }
        DataType::LargeBinary => {
            let offsets = array.as_binary::<i64>().value_offsets();
            Box::new(move |row| (offsets[row + 1] - offsets[row]) as u64)
        }
        DataType::Utf8View => {
            let views = array.as_string_view().views();
            Box::new(move |row| u64::from(views[row] as u32))
        }
        DataType::BinaryView => {
            let views = array.as_binary_view().views();
            Box::new(move |row| u64::from(views[row] as u32))
        }
        other => match other.primitive_width() {
            Some(width) => Box::new(move |_| width as u64),
            None => Box::new(move |row| array_bytes(&array.slice(row, 1))),
        },
    }
}

/// The numbers of an argument, negative ones and nulls as 0; nothing where it has none.
pub fn counts(argument: &ColumnarValue) -> Option<Size<'_>> {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    match argument {
        ColumnarValue::Scalar(scalar) => {
            let wide = scalar.cast_to(&DataType::Int64).ok()?;
            match wide {
                ScalarValue::Int64(number) => Some(Size::Constant(number.map_or(0, count))),
                _ => None,
            }
        }
        ColumnarValue::Array(array) => {
            let wide = arrow::compute::cast(array, &DataType::Int64).ok()?;
            let wide = wide.as_primitive::<Int64Type>().clone();
            Some(Size::Rows(Box::new(move |row| match wide.is_null(row) {
                true => 0,
                false => count(wide.value(row)),
            })))
        }
    }
}

/// The elements of an argument that is a list.
pub fn elements(argument: &ColumnarValue) -> Size<'_> {
    fn of(array: &dyn Array, row: usize) -> u64 {
        let of_list = |offsets: Option<(i64, i64)>| offsets.map_or(0, |(a, b)| (b - a) as u64);
        match array.data_type() {
            DataType::List(_) => {
                let offsets = array.as_list::<i32>().value_offsets();
                of_list(Some((offsets[row].into(), offsets[row + 1].into())))
            }
            DataType::LargeList(_) => {
                let offsets = array.as_list::<i64>().value_offsets();
                of_list(Some((offsets[row], offsets[row + 1])))
            }
            DataType::FixedSizeList(_, length) => u64::try_from(*length).unwrap_or(0),
            _ => 0,
        }
    }
    match argument {
        ColumnarValue::Scalar(ScalarValue::List(list)) => Size::Constant(of(list.as_ref(), 0)),
        ColumnarValue::Scalar(ScalarValue::LargeList(list)) => Size::Constant(of(list.as_ref(), 0)),
        ColumnarValue::Scalar(_) => Size::Constant(0),
        ColumnarValue::Array(array) => Size::Rows(Box::new(move |row| of(array.as_ref(), row))),
    }
}

/// Whether values of the type may be of any size.
pub fn is_of_any_size(data_type: &DataType) -> bool {
    data_type.primitive_width().is_none()
        && !matches!(data_type, DataType::Null | DataType::Boolean)
}

/// Whether values of the type are copied where rows are repeated: all of any size but views.
pub fn is_copied(data_type: &DataType) -> bool {
    is_of_any_size(data_type) && !matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The bytes of an array, without what its views point to.
pub fn array_bytes(array: &ArrayRef) -> u64 {
    let data = array.to_data();
    let own = data.get_slice_memory_size();
    own.unwrap_or_else(|_| data.get_buffer_memory_size()) as u64
}
