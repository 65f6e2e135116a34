//! What scans stream of a column, copied elsewhere for as long as several of them read it.

use std::ops::Range;

use nearfar_memory::TierBytes;

use super::column::{ColumnSegment, Encoding};
use super::layout::Layout;
use super::memory::SegmentMemory;
use crate::error::TableError;

/// The bytes of a column that scans stream: all but the values of its dictionary, which the caches hold.
#[derive(Debug)]
pub struct StreamedBytes<'a> {
    column: &'a ColumnSegment,
    /// Where they are in the column's memory, and where in that of a copy.
    parts: Vec<(Range<usize>, Range<usize>)>,
    copy_bytes: usize,
}

impl ColumnSegment {
    /// What scans stream of it.
    pub fn streamed(&self) -> StreamedBytes<'_> {
        let parts = match self.encoding() {
            Encoding::Narrow { codes, .. } | Encoding::Dictionary { codes, .. } => {
                let nulls = self.nulls().map(|nulls| nulls.buffer());
                let buffers = [Some(codes.buffer()), nulls].into_iter().flatten();
                buffers.filter_map(|buffer| self.locate(buffer)).collect()
            }
            Encoding::Strings { .. } | Encoding::Plain { .. } => vec![self.part_of_memory()],
        };
        let mut layout = Layout::default();
        let placed = parts.into_iter().map(|part: Range<usize>| {
            let copied = layout.part(part.len());
            (part, copied)
        });
        let parts = placed.collect();
        StreamedBytes {
            column: self,
            parts,
            copy_bytes: layout.bytes(),
        }
    }

    /// The column with its codes in `memory`, where those of as many of its first rows are as fit there: rows behind
    /// them are not to be read.
    ///
    /// # Errors
    /// What Arrow says of them.
    pub fn with_codes_in(&self, memory: SegmentMemory) -> Result<Self, TableError> {
        let codes = self.codes().map(|codes| codes.buffer());
        let codes = codes.and_then(|buffer| self.locate(buffer));
        let bytes = memory.len();
        self.moved_to(memory, |range| (Some(range) == codes).then_some(0..bytes))
    }
}

impl StreamedBytes<'_> {
    /// Bytes that a copy of them takes.
    pub fn copy_bytes(&self) -> usize {
        self.copy_bytes
    }

    /// Bytes of them on each tier.
    pub fn tier_bytes(&self) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        for (part, _) in &self.parts {
            bytes += self.column.memory().tier_bytes(part.clone());
        }
        bytes
    }

    /// Copies them.
    ///
    /// # Panics
    /// Where `into` is shorter than [`Self::copy_bytes`].
    pub fn copy_to(&self, into: &mut [u8]) {
        let from = self.column.memory().as_slice();
        for (part, copied) in &self.parts {
            into[copied.clone()].copy_from_slice(&from[part.clone()]);
        }
    }

    /// The column with these bytes in `memory`, where [`Self::copy_to`] has put them.
    ///
    /// # Errors
    /// What Arrow says of them.
    pub fn column_in(&self, memory: SegmentMemory) -> Result<ColumnSegment, TableError> {
        self.column.moved_to(memory, |range| {
            let mut parts = self.parts.iter();
            let (part, copied) =
                parts.find(|(part, _)| part.start <= range.start && range.end <= part.end)?;
            let first = copied.start + (range.start - part.start);
            Some(first..first + range.len())
        })
    }
}
