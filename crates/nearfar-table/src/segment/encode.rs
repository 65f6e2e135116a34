//! From Arrow arrays to the encoded column segment in its region.

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use nearfar_memory::{MemorySystem, PageSize, Placement, Region, RegionOptions, Shelf, TierBytes};
use std::ops::Range;
use std::sync::Arc;

use super::codes::Codes;
use super::column::{ColumnSegment, Encoding};
use super::form::{ColumnForm, ValuesForm};
use super::memory::SegmentMemory;
use super::plain::encode_plain;
use super::pool::ColumnPool;
use super::strings::{self, Dictionary};
use super::{narrow, zones::Zones};
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
    let rows = arrays.iter().map(|a| a.len()).sum();
    let validity = Validity::of(arrays, rows);
    if narrow::is_integer_like(data_type) {
        let (low, high) = narrow::bounds(arrays, data_type).unwrap_or((0, 0));
        if let Some(largest) = high
            .checked_sub(low)
            .and_then(|span| u64::try_from(span).ok())
        {
            return encode_narrow(arrays, data_type, (low, largest), validity, target);
        }
    }
    if matches!(data_type, DataType::Utf8View) {
        if let Some(dictionary) = Dictionary::build(arrays).filter(Dictionary::fits_offsets) {
            return encode_dictionary(&dictionary, validity, target);
        }
        let bytes = strings::data_bytes(arrays);
        if i32::try_from(bytes).is_ok() {
            return encode_strings(arrays, bytes, validity, target);
        }
    }
    encode_plain(arrays, target)
}

fn encode_narrow(
    arrays: &[ArrayRef],
    data_type: &DataType,
    (base, largest): (i128, u64),
    validity: Validity,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let width = Codes::width_bytes(largest);
    let values = ValuesForm::Narrow {
        base,
        code_bytes: width,
    };
    let parts = validity.form(values).parts();
    let region = target.memory(parts.bytes, |bytes| {
        let codes = &mut bytes[parts.codes.clone()];
        narrow::write_codes(arrays, data_type, base, width, codes);
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

fn encode_dictionary(
    dictionary: &Dictionary<'_>,
    validity: Validity,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let width = Codes::width_bytes(dictionary.values.len() as u64);
    let data_bytes = dictionary.values.iter().map(|v| v.len()).sum();
    let parts = validity.form(ValuesForm::Dictionary {
        code_bytes: width,
        strings: dictionary.values.len(),
        data_bytes,
    });
    let parts = parts.parts();
    let region = target.memory(parts.bytes, |bytes| {
        write_codes(&dictionary.codes, width, &mut bytes[parts.codes.clone()]);
        write_string_parts(
            dictionary.values.iter().map(|v| Some(*v)),
            bytes,
            &parts.offsets,
            &parts.data,
        );
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

fn write_codes(codes: &[u32], width: usize, bytes: &mut [u8]) {
    match width {
        1 => write_wide::<1>(codes, bytes),
        2 => write_wide::<2>(codes, bytes),
        _ => write_wide::<4>(codes, bytes),
    }
}

fn write_wide<const WIDTH: usize>(codes: &[u32], bytes: &mut [u8]) {
    let (slots, _) = bytes.as_chunks_mut::<WIDTH>();
    for (slot, code) in slots.iter_mut().zip(codes) {
        slot.copy_from_slice(&code.to_le_bytes()[..WIDTH]);
    }
}

fn encode_strings(
    arrays: &[ArrayRef],
    data_bytes: usize,
    validity: Validity,
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let parts = validity.form(ValuesForm::Strings { data_bytes }).parts();
    let region = target.memory(parts.bytes, |bytes| {
        let values = arrays.iter().flat_map(|a| a.as_string_view().iter());
        write_string_parts(values, bytes, &parts.offsets, &parts.data);
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

fn write_string_parts<'a>(
    values: impl Iterator<Item = Option<&'a str>>,
    bytes: &mut [u8],
    offsets_part: &Range<usize>,
    data_part: &Range<usize>,
) {
    let (head, tail) = bytes.split_at_mut(data_part.start);
    strings::write_strings(
        values,
        &mut head[offsets_part.clone()],
        &mut tail[..data_part.len()],
    );
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
    fn of(arrays: &[ArrayRef], rows: usize) -> Self {
        if arrays.iter().all(|a| a.logical_null_count() == 0) {
            return Self { rows, bits: None };
        }
        let mut builder = BooleanBufferBuilder::new(rows);
        for array in arrays {
            match array.logical_nulls() {
                Some(nulls) => builder.append_buffer(nulls.inner()),
                None => builder.append_n(array.len(), true),
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
