//! The memory that the bytes of a column segment lie in.

use arrow::buffer::Buffer;
use nearfar_memory::{Placement, Region, TierBytes};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of column segments, on their tiers. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub enum SegmentMemory {
    /// A region of this process.
    Region(Arc<Region>),
}

impl SegmentMemory {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Region(region) => region.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Region(region) => region.as_slice(),
        }
    }

    /// Some of the bytes as an Arrow buffer that keeps the memory.
    pub fn buffer(&self, range: Range<usize>) -> Buffer {
        match self {
            Self::Region(region) => region.buffer(range),
        }
    }

    /// Where the bytes lie.
    pub fn placement(&self) -> Placement {
        match self {
            Self::Region(region) => region.placement(),
        }
    }

    /// The bytes of `range` on each tier.
    pub fn tier_bytes(&self, range: Range<usize>) -> TierBytes {
        match self {
            Self::Region(region) => region.tier_bytes(range),
        }
    }
}
