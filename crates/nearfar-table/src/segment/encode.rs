//! From Arrow arrays to the encoded column segment in its region.

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use nearfar_memory::{MemorySystem, PageSize, Placement, Region, RegionOptions, Shelf, TierBytes};
use std::ops::Range;
use std::sync::Arc;

use super::codes::Codes;
use super::column::{ColumnSegment, Encoding};
use super::column_builder::{ColumnBuilder, Texts};
use super::dictionary::SortedDictionary;
use super::form::{ColumnForm, ValuesForm};
use super::memory::SegmentMemory;
use super::narrow::NarrowValues;
use super::pool::ColumnPool;
use super::zones::Zones;
use crate::error::TableError;
use crate::tier_models::TierModels;

/// Where a column segment is put.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The tiers, and what is charged to them.
    pub system: &'a Arc<MemorySystem>,
    /// The tiers that its pages are on.
    pub placement: &'a Placement,
    /// How its region is made.
    pub options: RegionOptions,
    /// The pool that takes what is placed on its tier.
    pub pool: Option<&'a dyn ColumnPool>,
    /// Where a few rows go that are near, and share regions with others.
    pub shelf: Option<&'a Shelf>,
    /// The tiers that are emulated: whoever puts it there is delayed.
    pub models: &'a TierModels,
}

impl Target<'_> {
    /// Memory of at least `bytes`, filled by `fill`, which takes as long as an emulated tier does: in
    /// the pool, or a region where that has no room.
    pub(super) fn memory(
        &self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<SegmentMemory, TableError> {
        let memory = self.filled(bytes, fill)?;
        let written = memory.tier_bytes(0..bytes);
        self.models.transfer(TierBytes::ZERO, written);
        Ok(memory)
    }

    fn filled(
        &self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<SegmentMemory, TableError> {
        if let Some(shelf) = self.shelf.filter(|_| bytes <= Shelf::BLOCK_BYTES_MAX) {
            let block = shelf.put(self.system, self.options, bytes, fill)?;
            return Ok(SegmentMemory::Shelf(block));
        }
        let Some(pool) = self.pool.filter(|pool| pool.holds(self.placement)) else {
            return self.region(bytes, fill);
        };
        let mut filled = vec![0; bytes];
        fill(&mut filled);
        match pool.write(&filled) {
            Ok(memory) => Ok(memory),
            Err(error) => {
                tracing::warn!(%error, "a column goes to memory of this process only");
                self.region(bytes, |bytes| {
                    bytes[..filled.len()].copy_from_slice(&filled)
                })
            }
        }
    }

    /// A region of at least `bytes`, filled by `fill`.
    pub fn region(
        &self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<SegmentMemory, TableError> {
        let options = RegionOptions {
            page_size: self.page_size(bytes),
            ..self.options
        };
        let mut region = Region::allocate(self.system, bytes.max(1), self.placement, options)?;
        fill(region.as_mut_slice());
        Ok(SegmentMemory::Region(Arc::new(region)))
    }

    /// The pages of a region of `bytes`: huge ones, where they are asked for, only if they leave
    /// little of themselves unused, and if they do not alternate between tiers, for which the grain
    /// of the papers is the base page (weisgut-2025 §6.2).
    fn page_size(&self, bytes: usize) -> PageSize {
        let page = self.options.page_size;
        let alternates = matches!(
            self.placement,
            Placement::Interleave(_) | Placement::Weighted(_)
        );
        let unused = bytes.next_multiple_of(page.bytes()) - bytes;
        let fills = unused <= bytes / UNUSED_SHARE;
        if fills && !alternates {
            page
        } else {
            PageSize::Base
        }
    }
}

/// A region leaves at most one part in so many of its huge pages unused.
const UNUSED_SHARE: usize = 8;

/// Encodes `arrays`, all of `data_type` and together one column of a segment, into a region.
///
/// # Errors
/// Whatever refuses the region: budget, a node without room, misplaced pages.
pub fn encode_column(
    arrays: &[ArrayRef],
    data_type: &DataType,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let mut column = ColumnBuilder::new(data_type);
    for array in arrays {
        column.push(array)?;
    }
    column.finish(target)
}

/// Encodes integers of which `base` is the least, and the largest has the code `largest`.
pub(super) fn encode_narrow(
    arrays: &[NarrowValues],
    (base, largest): (i128, u64),
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let width = Codes::width_bytes(largest);
    let validity = Validity::of(arrays.iter().map(|values| (values.len(), values.nulls())));
    let values = ValuesForm::Narrow {
        base,
        code_bytes: width,
    };
    let parts = validity.form(values).parts();
    let region = target.memory(parts.bytes, |bytes| {
        let mut codes = &mut bytes[parts.codes.clone()];
        for values in arrays {
            let (own, rest) = codes.split_at_mut(values.len() * width);
            values.write(base, width, own);
            codes = rest;
        }
        validity.write(bytes, parts.nulls.clone());
    })?;
    let codes = Codes::from_buffer(region.buffer(parts.codes.clone()), width);
    let nulls = validity.into_nulls(&region, parts.nulls);
    let zones = Zones::of(&codes);
    Ok(ColumnSegment::new(
        region,
        Encoding::Narrow { base, codes },
        nulls,
        zones,
    ))
}

/// Encodes texts of which few are distinct.
pub(super) fn encode_dictionary(
    dictionary: &SortedDictionary,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let arrays = dictionary.arrays.iter();
    let validity = Validity::of(arrays.map(|array| (array.codes.len(), array.nulls.as_ref())));
    let width = Codes::width_bytes(dictionary.values.len() as u64);
    let data_bytes = dictionary.values.iter().map(|value| value.len()).sum();
    let parts = validity.form(ValuesForm::Dictionary {
        code_bytes: width,
        strings: dictionary.values.len(),
        data_bytes,
    });
    let parts = parts.parts();
    let region = target.memory(parts.bytes, |bytes| {
        dictionary.write_places(width, &mut bytes[parts.codes.clone()]);
        let mut texts = TextParts::of(bytes, &parts.offsets, &parts.data);
        for value in &dictionary.values {
            texts.push(value.as_bytes());
        }
        validity.write(bytes, parts.nulls.clone());
    })?;
    let values = string_array(&region, parts.offsets, parts.data, None)?;
    let codes = Codes::from_buffer(region.buffer(parts.codes.clone()), width);
    let nulls = validity.into_nulls(&region, parts.nulls);
    let zones = Zones::of(&codes);
    let values = (&values).into();
    Ok(ColumnSegment::new(
        region,
        Encoding::Dictionary { codes, values },
        nulls,
        zones,
    ))
}

/// Encodes other texts, which four-byte offsets reach.
pub(super) fn encode_strings(
    texts: &Texts,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let arrays = texts.arrays().iter();
    let validity = Validity::of(arrays.map(|array| (array.len(), array.nulls())));
    let data_bytes = texts.bytes();
    let parts = validity.form(ValuesForm::Strings { data_bytes }).parts();
    let region = target.memory(parts.bytes, |bytes| {
        let mut written = TextParts::of(bytes, &parts.offsets, &parts.data);
        for array in texts.arrays() {
            written.push_all(array);
        }
        validity.write(bytes, parts.nulls.clone());
    })?;
    let nulls = validity.into_nulls(&region, parts.nulls);
    let values = string_array(&region, parts.offsets, parts.data, nulls.clone())?;
    Ok(ColumnSegment::new(
        region,
        Encoding::Strings { values },
        nulls,
        Zones::default(),
    ))
}

/// Texts that are written one behind the other, with an offset of four bytes at each end, and one before the first.
struct TextParts<'a> {
    ends: &'a mut [[u8; 4]],
    data: &'a mut [u8],
    end: usize,
}

impl<'a> TextParts<'a> {
    /// Texts in these parts of `bytes`, of which the offsets come first.
    fn of(bytes: &'a mut [u8], offsets: &Range<usize>, data: &Range<usize>) -> Self {
        let (head, tail) = bytes.split_at_mut(data.start);
        let (slots, _) = head[offsets.clone()].as_chunks_mut();
        let (first, ends) = slots.split_at_mut(1);
        first[0] = [0; 4];
        Self {
            ends,
            data: &mut tail[..data.len()],
            end: 0,
        }
    }

    fn push(&mut self, text: &[u8]) {
        self.copy(text);
        self.set_ends([self.end].into_iter());
    }

    fn push_all(&mut self, array: &StringArray) {
        let (offsets, before) = (array.value_offsets(), self.end);
        let (first, last) = (offsets[0] as usize, offsets[array.len()] as usize);
        self.copy(&array.value_data()[first..last]);
        let ends = offsets[1..].iter();
        self.set_ends(ends.map(|end| before + *end as usize - first));
    }

    fn copy(&mut self, text: &[u8]) {
        let end = self.end + text.len();
        self.data[self.end..end].copy_from_slice(text);
        self.end = end;
    }

    /// The offsets of the next ends, which four bytes hold.
    fn set_ends(&mut self, ends: impl ExactSizeIterator<Item = usize>) {
        let (slots, rest) = std::mem::take(&mut self.ends).split_at_mut(ends.len());
        for (slot, end) in slots.iter_mut().zip(ends) {
            *slot = (end as i32).to_le_bytes();
        }
        self.ends = rest;
    }
}

fn string_array(
    region: &SegmentMemory,
    offsets_part: Range<usize>,
    data_part: Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<StringArray, TableError> {
    let offsets = ScalarBuffer::<i32>::from(region.buffer(offsets_part));
    let data = region.buffer(data_part);
    Ok(StringArray::try_new(
        OffsetBuffer::new(offsets),
        data,
        nulls,
    )?)
}

/// Which rows are not null, until it is written into the region.
struct Validity {
    rows: usize,
    bits: Option<BooleanBuffer>,
}

impl Validity {
    /// Of all rows of arrays, each of so many rows.
    fn of<'a>(arrays: impl Iterator<Item = (usize, Option<&'a NullBuffer>)> + Clone) -> Self {
        let rows = arrays.clone().map(|(rows, _)| rows).sum();
        if arrays.clone().all(|(_, nulls)| nulls.is_none()) {
            return Self { rows, bits: None };
        }
        let mut builder = BooleanBufferBuilder::new(rows);
        for (rows, nulls) in arrays {
            match nulls {
                Some(nulls) => builder.append_buffer(nulls.inner()),
                None => builder.append_n(rows, true),
            }
        }
        Self {
            rows,
            bits: Some(builder.finish()),
        }
    }

    fn form(&self, values: ValuesForm) -> ColumnForm {
        ColumnForm {
            rows: self.rows,
            has_nulls: self.bits.is_some(),
            values,
        }
    }

    fn write(&self, bytes: &mut [u8], part: Range<usize>) {
        if let Some(bits) = &self.bits {
            bytes[part].copy_from_slice(bits.values());
        }
    }

    fn into_nulls(self, region: &SegmentMemory, part: Range<usize>) -> Option<NullBuffer> {
        self.bits
            .map(|_| NullBuffer::new(BooleanBuffer::new(region.buffer(part), 0, self.rows)))
    }
}
