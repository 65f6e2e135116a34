//! Where the parts of a column segment lie within its region.

use arrow::buffer::Buffer;
use std::ops::Range;

/// Parts start on cache lines.
pub const ALIGNMENT_BYTES: usize = 64;

/// Lays parts out one after the other.
#[derive(Debug, Default)]
pub struct Layout {
    bytes: usize,
}

impl Layout {
    /// Reserves `bytes` and returns where they lie.
    pub fn part(&mut self, bytes: usize) -> Range<usize> {
        let start = self.bytes.next_multiple_of(ALIGNMENT_BYTES);
        self.bytes = start + bytes;
        start..self.bytes
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where `buffer` lies within the `length` bytes that begin at `base`.
pub fn locate(buffer: &Buffer, base: *const u8, length: usize) -> Option<Range<usize>> {
    let start = (buffer.as_ptr() as usize).checked_sub(base as usize)?;
    (start + buffer.len() <= length).then_some(start..start + buffer.len())
}
