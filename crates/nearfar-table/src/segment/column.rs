//! One column of one segment.

use arrow::array::{Array, ArrayRef, StringArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer};
use nearfar_memory::{Placement, TierBytes, TierId};
use std::ops::Range;

use super::codes::Codes;
use super::encode::Target;
use super::layout;
use super::memory::SegmentMemory;
use super::plain::map_buffers;
use super::rows::RowSet;
use super::zones::Zones;
use crate::error::TableError;

/// Bytes that one access to a single value moves: a cache line.
const LINE_BYTES: usize = 64;

/// How the values of a column segment are stored; see the [module](super) table.
#[derive(Debug, Clone)]
pub enum Encoding {
    /// Value = `base` + code.
    Narrow {
        /// The smallest value.
        base: i128,
        /// What each value is above it.
        codes: Codes,
    },
    /// Value = `values[code]`; values are sorted, so codes compare as values do.
    Dictionary {
        /// Where in `values` each value is.
        codes: Codes,
        /// The distinct values.
        values: StringViewArray,
    },
    /// Strings of which too few are alike for a dictionary.
    Strings {
        /// The values.
        values: StringArray,
    },
    /// Values as Arrow has them.
    Plain {
        /// The values.
        values: ArrayRef,
    },
}

/// The name of an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodingKind {
    /// Differences to the smallest value.
    Narrow,
    /// Places in a sorted list of distinct values.
    Dictionary,
    /// Strings one after another.
    Strings,
    /// As Arrow has them.
    Plain,
}

impl EncodingKind {
    /// As shown in `nearfar.segments`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Dictionary => "dictionary",
            Self::Strings => "strings",
            Self::Plain => "plain",
        }
    }
}

/// The encoded values of one column for the rows of one segment. Immutable; cloned cheaply.
#[derive(Debug, Clone)]
pub struct ColumnSegment {
    memory: SegmentMemory,
    /// The bytes of the memory that are the column's.
    part: Range<usize>,
    /// Near bytes of its values that lie elsewhere.
    beside_bytes: usize,
    encoding: Encoding,
    nulls: Option<NullBuffer>,
    zones: Zones,
}

impl ColumnSegment {
    pub(super) fn new(
        memory: SegmentMemory,
        encoding: Encoding,
        nulls: Option<NullBuffer>,
        zones: Zones,
    ) -> Self {
        Self {
            part: 0..memory.len(),
            beside_bytes: 0,
            memory,
            encoding,
            nulls,
            zones,
        }
    }

    /// The same column, which shares its memory with others and has these bytes of it.
    pub(super) fn within(self, part: Range<usize>) -> Self {
        Self { part, ..self }
    }

    /// The same column, whose values have so many more bytes near that lie elsewhere.
    pub(super) fn with_bytes_beside(self, beside_bytes: usize) -> Self {
        Self {
            beside_bytes,
            ..self
        }
    }

    /// How the values are stored.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The name of the encoding.
    pub fn encoding_kind(&self) -> EncodingKind {
        match self.encoding {
            Encoding::Narrow { .. } => EncodingKind::Narrow,
            Encoding::Dictionary { .. } => EncodingKind::Dictionary,
            Encoding::Strings { .. } => EncodingKind::Strings,
            Encoding::Plain { .. } => EncodingKind::Plain,
        }
    }

    /// Which rows are not null; nothing where all are.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Number of null rows.
    pub fn null_count(&self) -> usize {
        self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// Zone maps of the codes; empty for encodings without codes.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// The codes, for encodings that have them.
    pub fn codes(&self) -> Option<&Codes> {
        match &self.encoding {
            Encoding::Narrow { codes, .. } | Encoding::Dictionary { codes, .. } => Some(codes),
            Encoding::Strings { .. } | Encoding::Plain { .. } => None,
        }
    }

    /// The memory that it lies in.
    pub fn memory(&self) -> &SegmentMemory {
        &self.memory
    }

    /// Whether no other column shares its memory.
    pub fn is_alone(&self) -> bool {
        self.part == (0..self.form().bytes())
    }

    pub(super) fn part_of_memory(&self) -> Range<usize> {
        self.part.clone()
    }

    /// Bytes that the segment takes of its memory.
    pub fn bytes(&self) -> usize {
        self.part.len() + self.beside_bytes
    }

    /// Where the pages of its memory are.
    pub fn placement(&self) -> Placement {
        self.memory.placement()
    }

    /// Bytes per tier of the whole segment.
    pub fn tier_bytes(&self) -> TierBytes {
        let mut on = self.memory.tier_bytes(self.part.clone());
        on[TierId::NEAR] += self.beside_bytes as u64;
        on
    }

    /// Bytes per tier of those of its memory that lie at `addresses`.
    pub fn tier_bytes_at(&self, addresses: Range<usize>) -> TierBytes {
        let first = self.memory.as_slice().as_ptr().addr();
        let within = |address: usize| address.saturating_sub(first).min(self.memory.len());
        self.memory
            .tier_bytes(within(addresses.start)..within(addresses.end))
    }

    /// Bytes per tier that reading `rows` moves: whole spans for runs, at most a cache line per
    /// value for single positions. A dictionary's values are taken to be in the cache.
    pub fn bytes_read(&self, rows: RowSet<'_>) -> TierBytes {
        let mut total = TierBytes::default();
        for part in self.parts(rows.span()) {
            let bytes = self.memory.tier_bytes(part.clone());
            let share = match rows {
                RowSet::Run { .. } => 1.0,
                RowSet::Positions(positions) => {
                    ((positions.len() * LINE_BYTES) as f64 / part.len() as f64).min(1.0)
                }
            };
            for (tier, bytes) in bytes.iter() {
                total[tier] += (bytes as f64 * share) as u64;
            }
        }
        total
    }

    /// The parts of the region that hold the rows of `span`.
    fn parts(&self, span: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let parts = match &self.encoding {
            Encoding::Narrow { codes, .. } | Encoding::Dictionary { codes, .. } => {
                let width = codes.code_bytes();
                [
                    self.part(codes.buffer(), span.start * width..span.end * width),
                    None,
                ]
            }
            Encoding::Strings { values } => {
                let offsets = values.value_offsets();
                let width = size_of::<i32>();
                let data = offsets[span.start] as usize..offsets[span.end] as usize;
                [
                    self.part(
                        values.offsets().inner().inner(),
                        span.start * width..span.end * width,
                    ),
                    self.part(values.values(), data),
                ]
            }
            Encoding::Plain { values } => {
                let per_row =
                    |row: usize| self.part.start + self.part.len() * row / values.len().max(1);
                [Some(per_row(span.start)..per_row(span.end)), None]
            }
        };
        parts.into_iter().flatten().filter(|part| !part.is_empty())
    }

    /// Bytes `within` of `buffer` as a part of the region.
    fn part(&self, buffer: &Buffer, within: Range<usize>) -> Option<Range<usize>> {
        let whole = self.locate(buffer)?;
        Some(whole.start + within.start..whole.start + within.end)
    }

    /// `buffer` as one of its own size, not of the larger one of the region that it is a slice of.
    pub(super) fn own(&self, buffer: &Buffer) -> Buffer {
        match self.locate(buffer) {
            Some(part) => self.memory.buffer(part),
            None => buffer.clone(),
        }
    }

    pub(super) fn locate(&self, buffer: &Buffer) -> Option<Range<usize>> {
        let bytes = self.memory.as_slice();
        layout::locate(buffer, bytes.as_ptr(), bytes.len())
    }

    /// The same segment in a new region. Readers of the old one keep it until they are done.
    ///
    /// # Errors
    /// Whatever refuses the new region; the old one is untouched.
    pub fn copy_to(&self, target: Target<'_>) -> Result<Self, TableError> {
        let source = &self.memory.as_slice()[self.part.clone()];
        target.models.transfer(self.tier_bytes(), TierBytes::ZERO);
        let region = target.memory(source.len(), |bytes| {
            bytes[..source.len()].copy_from_slice(source);
        })?;
        self.moved_to(region, shifted_by(self.part.start))
    }

    /// The same segment with its [`Self::form_bytes`] in other memory.
    ///
    /// # Errors
    /// What Arrow says of them.
    pub fn in_memory(&self, memory: SegmentMemory) -> Result<Self, TableError> {
        self.moved_to(memory, shifted_by(self.form_start()))
    }

    /// The same segment, whose buffers are in `region` where `place` says for where they are now. Those for which it
    /// says nothing stay.
    pub(super) fn moved_to(
        &self,
        region: SegmentMemory,
        place: impl Fn(Range<usize>) -> Option<Range<usize>>,
    ) -> Result<Self, TableError> {
        let place = |buffer: &Buffer| self.locate(buffer).and_then(&place);
        let mut moved = |buffer: &Buffer| match place(buffer) {
            Some(part) => region.buffer(part),
            None => buffer.clone(),
        };
        let moves = |array: &dyn Array| {
            let buffers = array.to_data();
            buffers
                .buffers()
                .iter()
                .any(|buffer| place(buffer).is_some())
        };
        let mut moved_array = |array: &dyn Array| map_buffers(&array.to_data(), &mut moved);
        let encoding = match &self.encoding {
            Encoding::Narrow { base, codes } => Encoding::Narrow {
                base: *base,
                codes: Codes::from_buffer(moved(codes.buffer()), codes.code_bytes()),
            },
            Encoding::Dictionary { codes, values } => Encoding::Dictionary {
                // To move them is to check each.
                values: match moves(values) {
                    true => moved_array(values)?.into(),
                    false => values.clone(),
                },
                codes: Codes::from_buffer(moved(codes.buffer()), codes.code_bytes()),
            },
            Encoding::Strings { values } => Encoding::Strings {
                values: moved_array(values)?.into(),
            },
            Encoding::Plain { values } => Encoding::Plain {
                values: arrow::array::make_array(moved_array(values)?),
            },
        };
        let nulls = self.nulls.as_ref().map(|nulls| {
            NullBuffer::new(arrow::buffer::BooleanBuffer::new(
                moved(nulls.buffer()),
                nulls.offset(),
                nulls.len(),
            ))
        });
        Ok(Self::new(region, encoding, nulls, self.zones.clone()))
    }
}

/// Places of what is moved together, whose first byte was `first`.
fn shifted_by(first: usize) -> impl Fn(Range<usize>) -> Option<Range<usize>> {
    move |part| Some(part.start - first..part.end - first)
}
