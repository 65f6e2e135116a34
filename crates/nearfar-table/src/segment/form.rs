//! The form of a column segment: all that must be known to use its bytes where they lie.

use arrow::array::{Array, ArrayData, StringArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use std::ops::Range;

use super::codes::{Code, Codes, with_codes};
use super::column::{ColumnSegment, Encoding, EncodingKind};
use super::decode::own_views;
use super::layout::{ALIGNMENT_BYTES, Layout};
use super::memory::SegmentMemory;
use super::zones::{ZONE_ROWS, Zones};
use super::{is_integer_like, plain};

/// How the bytes of a column segment are to be read. With the bytes, the column's type and its
/// zones it makes the segment again ([`ColumnSegment::from_form`]).
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnForm {
    /// Rows of the segment.
    pub rows: usize,
    /// Whether there is a bitmap of the rows that are not null; part of the array where that is
    /// plain.
    pub has_nulls: bool,
    /// How the values are stored.
    pub values: ValuesForm,
}

/// The values' part of a [`ColumnForm`], per encoding.
#[derive(Debug, Clone, PartialEq)]
pub enum ValuesForm {
    /// Codes of so many bytes from `base` on.
    Narrow {
        /// The value of code 0.
        base: i128,
        /// Bytes per code.
        code_bytes: usize,
    },
    /// Codes of so many bytes, and the strings that they stand for.
    Dictionary {
        /// Bytes per code.
        code_bytes: usize,
        /// Number of strings.
        strings: usize,
        /// Bytes of all strings.
        data_bytes: usize,
    },
    /// Offsets and the strings themselves.
    Strings {
        /// Bytes of all strings.
        data_bytes: usize,
    },
    /// Arrow buffers.
    Plain {
        /// The array that they make.
        array: ArrayForm,
        /// Bytes of all buffers and what lies between them.
        bytes: usize,
    },
}

/// An Arrow array without its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayForm {
    /// Values of the array.
    pub len: usize,
    /// Values before the first.
    pub offset: usize,
    /// Its buffers.
    pub buffers: Vec<BufferForm>,
    /// The bitmap of the values that are not null, and the bits before the first.
    pub nulls: Option<(BufferForm, usize)>,
    /// Its children, in Arrow's order.
    pub children: Vec<ArrayForm>,
}

/// Where a buffer is.
#[derive(Debug, Clone, PartialEq)]
pub enum BufferForm {
    /// These of the column's bytes.
    At(Range<usize>),
    /// A few bytes that are nowhere else, such as Arrow's offsets of no value.
    Own(Vec<u8>),
}

/// Why bytes do not make a column segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these are no values of type {data_type}: {reason}")]
pub struct FormError {
    /// The column's type.
    pub data_type: DataType,
    /// What is wrong.
    pub reason: String,
}

/// Where the parts of an encoded column lie within its bytes.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub codes: Range<usize>,
    pub offsets: Range<usize>,
    pub data: Range<usize>,
    pub nulls: Range<usize>,
    pub bytes: usize,
}

impl ColumnForm {
    /// Bytes of the column.
    pub fn bytes(&self) -> usize {
        match &self.values {
            ValuesForm::Plain { bytes, .. } => *bytes,
            _ => self.parts().bytes,
        }
    }

    /// The name of the encoding.
    pub fn kind(&self) -> EncodingKind {
        match self.values {
            ValuesForm::Narrow { .. } => EncodingKind::Narrow,
            ValuesForm::Dictionary { .. } => EncodingKind::Dictionary,
            ValuesForm::Strings { .. } => EncodingKind::Strings,
            ValuesForm::Plain { .. } => EncodingKind::Plain,
        }
    }

    /// The parts of a column that is not plain.
    pub(super) fn parts(&self) -> Parts {
        const OFFSET_BYTES: usize = size_of::<i32>();
        let mut layout = Layout::default();
        let mut parts = Parts::default();
        match self.values {
            ValuesForm::Narrow { code_bytes, .. } => {
                parts.codes = layout.part(self.rows * code_bytes);
            }
            ValuesForm::Dictionary {
                code_bytes,
                strings,
                data_bytes,
            } => {
                parts.codes = layout.part(self.rows * code_bytes);
                parts.offsets = layout.part((strings + 1) * OFFSET_BYTES);
                parts.data = layout.part(data_bytes);
            }
            ValuesForm::Strings { data_bytes } => {
                parts.offsets = layout.part((self.rows + 1) * OFFSET_BYTES);
                parts.data = layout.part(data_bytes);
            }
            ValuesForm::Plain { .. } => {}
        }
        let bits = if self.has_nulls { self.rows } else { 0 };
        parts.nulls = layout.part(bits.div_ceil(8));
        parts.bytes = layout.bytes();
        parts
    }
}

impl ColumnSegment {
    /// How its bytes are to be read.
    pub fn form(&self) -> ColumnForm {
        let start = self.form_start();
        let has_nulls = self.nulls().is_some();
        match self.encoding() {
            Encoding::Narrow { base, codes } => ColumnForm {
                rows: codes.len(),
                has_nulls,
                values: ValuesForm::Narrow {
                    base: *base,
                    code_bytes: codes.code_bytes(),
                },
            },
            Encoding::Dictionary { codes, values } => ColumnForm {
                rows: codes.len(),
                has_nulls,
                values: ValuesForm::Dictionary {
                    code_bytes: codes.code_bytes(),
                    strings: values.len(),
                    data_bytes: values.lengths().map(|length| length as usize).sum(),
                },
            },
            Encoding::Strings { values } => ColumnForm {
                rows: values.len(),
                has_nulls,
                values: ValuesForm::Strings {
                    data_bytes: values.values().len(),
                },
            },
            Encoding::Plain { values } => ColumnForm {
                rows: values.len(),
                has_nulls,
                values: ValuesForm::Plain {
                    array: self.array_form(&values.to_data(), start),
                    bytes: self.form_bytes().len(),
                },
            },
        }
    }

    /// Its bytes, as [`Self::form`] speaks of them.
    pub fn form_bytes(&self) -> &[u8] {
        let part = self.part_of_memory();
        let start = self.form_start();
        let end = match self.encoding() {
            Encoding::Plain { .. } => part.end,
            // A region has a byte even where its column has none.
            _ => start + self.form().bytes(),
        };
        &self.memory().as_slice()[start..end.max(start)]
    }

    /// The first of its bytes: columns that share their memory begin where the one before ends, and
    /// their first buffer at the next cache line.
    pub(super) fn form_start(&self) -> usize {
        let part = self.part_of_memory();
        part.start.next_multiple_of(ALIGNMENT_BYTES).min(part.end)
    }

    fn array_form(&self, data: &ArrayData, start: usize) -> ArrayForm {
        let buffer = |buffer: &Buffer| match self.locate(buffer) {
            Some(at) if at.start >= start => BufferForm::At(at.start - start..at.end - start),
            _ => BufferForm::Own(buffer.to_vec()),
        };
        ArrayForm {
            len: data.len(),
            offset: data.offset(),
            buffers: data.buffers().iter().map(buffer).collect(),
            nulls: data
                .nulls()
                .map(|nulls| (buffer(nulls.buffer()), nulls.offset())),
            children: data
                .child_data()
                .iter()
                .map(|child| self.array_form(child, start))
                .collect(),
        }
    }

    /// The column of `form`, whose bytes begin at `start` of `memory`, a multiple of 64. Looks at the
    /// values as far as needed for never reading outside of them.
    ///
    /// # Errors
    /// [`FormError`]: bytes that are not what the form says.
    pub fn from_form(
        form: &ColumnForm,
        zones: Zones,
        data_type: &DataType,
        memory: SegmentMemory,
        start: usize,
    ) -> Result<Self, FormError> {
        let made = Restored {
            form,
            memory: &memory,
            start,
        };
        let wrong = |reason: String| FormError {
            data_type: data_type.clone(),
            reason,
        };
        let (encoding, nulls) = made.encoding(data_type).map_err(wrong)?;
        let has_zones = matches!(
            form.values,
            ValuesForm::Narrow { .. } | ValuesForm::Dictionary { .. }
        );
        let zones_wanted = if has_zones {
            form.rows.div_ceil(ZONE_ROWS)
        } else {
            0
        };
        if zones.len() != zones_wanted {
            return Err(wrong(format!(
                "{} zones for {} rows",
                zones.len(),
                form.rows
            )));
        }
        let bytes = form.bytes();
        Ok(Self::new(memory, encoding, nulls, zones).within(start..start + bytes))
    }
}

/// A column segment that is made of its form.
struct Restored<'a> {
    form: &'a ColumnForm,
    memory: &'a SegmentMemory,
    start: usize,
}

impl Restored<'_> {
    fn encoding(&self, data_type: &DataType) -> Result<(Encoding, Option<NullBuffer>), String> {
        if let ValuesForm::Plain { array, bytes } = &self.form.values {
            self.within(0..*bytes)?;
            let values = make_array(self.array(array, data_type, 0)?);
            if values.len() != self.form.rows {
                return Err("another number of rows".to_owned());
            }
            let nulls = values.logical_nulls();
            return Ok((Encoding::Plain { values }, nulls));
        }
        let parts = self.form.parts();
        self.within(0..parts.bytes)?;
        let nulls = match self.form.has_nulls {
            true => Some(self.nulls(self.buffer(parts.nulls), 0, self.form.rows)?),
            false => None,
        };
        let is_string = matches!(data_type, DataType::Utf8View);
        let encoding = match self.form.values {
            ValuesForm::Narrow { base, code_bytes } if is_integer_like(data_type) => {
                let codes = Codes::from_buffer(self.buffer(parts.codes), code_bytes);
                Encoding::Narrow { base, codes }
            }
            ValuesForm::Dictionary {
                code_bytes,
                strings,
                ..
            } if is_string => {
                let codes = Codes::from_buffer(self.buffer(parts.codes), code_bytes);
                let largest = with_codes!(&codes, codes => {
                    codes.iter().copied().max().map_or(0, Code::widen)
                });
                if largest >= (strings as u64).max(1) {
                    return Err(format!("code {largest} of {strings} strings"));
                }
                let values = self.strings(parts.offsets, parts.data, strings, None)?;
                let values = own_views(&values);
                Encoding::Dictionary { codes, values }
            }
            ValuesForm::Strings { .. } if is_string => {
                let rows = self.form.rows;
                let values = self.strings(parts.offsets, parts.data, rows, nulls.clone())?;
                Encoding::Strings { values }
            }
            _ => return Err(format!("encoded as {}", self.form.kind().name())),
        };
        Ok((encoding, nulls))
    }

    /// Refuses what lies outside of the memory.
    fn within(&self, part: Range<usize>) -> Result<(), String> {
        let end = self.start.checked_add(part.end);
        let is_within = part.start <= part.end && end.is_some_and(|end| end <= self.memory.len());
        match is_within {
            true => Ok(()),
            false => Err(format!("bytes {part:?} are not there")),
        }
    }

    fn buffer(&self, part: Range<usize>) -> Buffer {
        let (start, end) = (self.start + part.start, self.start + part.end);
        self.memory.buffer(start..end)
    }

    fn nulls(&self, buffer: Buffer, offset: usize, len: usize) -> Result<NullBuffer, String> {
        let bits = offset.checked_add(len);
        if bits.is_none_or(|bits| bits > buffer.len() * 8) {
            return Err("too few bits for the nulls".to_owned());
        }
        Ok(NullBuffer::new(BooleanBuffer::new(buffer, offset, len)))
    }

    fn strings(
        &self,
        offsets: Range<usize>,
        data: Range<usize>,
        len: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, String> {
        let array = ArrayData::builder(DataType::Utf8)
            .len(len)
            .add_buffer(self.buffer(offsets))
            .add_buffer(self.buffer(data))
            .nulls(nulls)
            .build();
        array
            .map(StringArray::from)
            .map_err(|error| error.to_string())
    }

    fn array(
        &self,
        form: &ArrayForm,
        data_type: &DataType,
        depth: usize,
    ) -> Result<ArrayData, String> {
        let types = plain::child_types(data_type);
        if depth > DEPTH_MAX || types.len() != form.children.len() {
            return Err(format!("{} children", form.children.len()));
        }
        let buffers = form.buffers.iter().map(|buffer| self.array_buffer(buffer));
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let nulls = match &form.nulls {
            Some((buffer, offset)) => {
                Some(self.nulls(self.array_buffer(buffer)?, *offset, form.len)?)
            }
            None => None,
        };
        let children = form.children.iter().zip(&types);
        let children = children.map(|(child, data_type)| self.array(child, data_type, depth + 1));
        let array = ArrayData::builder(data_type.clone())
            .len(form.len)
            .offset(form.offset)
            .buffers(buffers)
            .nulls(nulls)
            .child_data(children.collect::<Result<_, _>>()?)
            .build();
        array.map_err(|error| error.to_string())
    }

    fn array_buffer(&self, form: &BufferForm) -> Result<Buffer, String> {
        match form {
            BufferForm::At(part) => {
                self.within(part.clone())?;
                Ok(self.buffer(part.clone()))
            }
            BufferForm::Own(bytes) => Ok(Buffer::from_slice_ref(bytes)),
        }
    }
}

/// Types may be nested so deep.
pub const DEPTH_MAX: usize = 64;
