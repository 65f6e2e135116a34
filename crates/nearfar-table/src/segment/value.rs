//! Single values, read where they lie: statements that change a row copy most of its values, and make keys of some.

use arrow::array::{Array, ArrayRef, AsArray, make_view};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;

use super::column::{ColumnSegment, Encoding};
use super::tail::{INLINE_BYTES_MAX, Kind, array_of_bytes, primitive_bytes};

/// A value of a column, as far as columns of its type can be written little by little ([`Tail`](super::Tail)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneValue<'a> {
    /// It has none.
    Null,
    /// One of fixed width: its bytes in Arrow's format from the lowest on; those above mean nothing.
    Fixed(u128),
    /// A text, or bytes.
    Bytes(&'a [u8]),
}

impl<'a> OneValue<'a> {
    /// The value of a row of `values`.
    ///
    /// # Panics
    /// For types that no tail [takes](super::Tail::takes).
    pub fn in_array(values: &'a ArrayRef, row: usize) -> Self {
        if values.is_null(row) {
            return Self::Null;
        }
        match values.data_type() {
            DataType::Boolean => Self::Fixed(values.as_boolean().value(row).into()),
            DataType::Utf8View => Self::Bytes(values.as_string_view().value(row).as_bytes()),
            DataType::BinaryView => Self::Bytes(values.as_binary_view().value(row)),
            other => match (other.primitive_width(), primitive_bytes(values)) {
                (Some(width), Some(bytes)) => {
                    Self::of_bytes(&bytes[row * width..(row + 1) * width])
                }
                _ => unreachable!("rows of other types are not taken"),
            },
        }
    }

    /// One of fixed width, of 16 bytes at most.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let mut wide = [0; size_of::<u128>()];
        wide[..bytes.len()].copy_from_slice(bytes);
        Self::Fixed(u128::from_le_bytes(wide))
    }

    /// Bytes that it has beside its view, if it is a text.
    pub(super) fn long_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) if bytes.len() > INLINE_BYTES_MAX => bytes.len(),
            _ => 0,
        }
    }
}

impl ColumnSegment {
    /// The value of a row.
    ///
    /// # Panics
    /// For types that no tail [takes](super::Tail::takes).
    pub fn value(&self, row: usize) -> OneValue<'_> {
        if self.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return OneValue::Null;
        }
        match self.encoding() {
            Encoding::Narrow { base, codes } => {
                let value = base.wrapping_add(i128::from(codes.get(row)));
                OneValue::Fixed(value as u128)
            }
            Encoding::Dictionary { codes, values } => {
                OneValue::Bytes(values.value(codes.get(row) as usize).as_bytes())
            }
            Encoding::Strings { values } => OneValue::Bytes(values.value(row).as_bytes()),
            Encoding::Plain { values } => OneValue::in_array(values, row),
        }
    }
}

/// Values of a type that is written little by little, as an array.
///
/// # Panics
/// As [`OneValue::in_array`].
pub(crate) fn array_of<'a>(
    values: impl ExactSizeIterator<Item = OneValue<'a>> + Clone,
    data_type: &DataType,
) -> ArrayRef {
    let Some(kind) = Kind::of(data_type) else {
        unreachable!("rows of other types are not taken");
    };
    let width = kind.value_bytes();
    let mut bytes = MutableBuffer::with_capacity(values.len() * width);
    let mut texts = Vec::new();
    let mut has_nulls = false;
    for value in values.clone() {
        let fixed = match value {
            OneValue::Null => {
                has_nulls = true;
                0
            }
            OneValue::Fixed(fixed) => fixed,
            OneValue::Bytes(text) => {
                let view = make_view(text, 0, texts.len() as u32);
                if text.len() > INLINE_BYTES_MAX {
                    texts.extend_from_slice(text);
                }
                view
            }
        };
        bytes.extend_from_slice(&fixed.to_le_bytes()[..width]);
    }
    let rows = values.len();
    let nulls = has_nulls.then(|| NullBuffer::from_iter(values.map(|it| it != OneValue::Null)));
    let texts = (!texts.is_empty()).then(|| Buffer::from_vec(texts));
    array_of_bytes(data_type, rows, bytes.into(), (texts, nulls))
}
