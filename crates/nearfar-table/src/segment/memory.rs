//! The memory that the bytes of a column segment lie in.

use arrow::buffer::Buffer;
use nearfar_memory::pool::{ExtentHandle, PoolError};
use nearfar_memory::{
    AppendedBytes, MemorySystem, Placement, Region, ShelfBlock, TierBytes, TierId,
};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of column segments, on their tiers. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub enum SegmentMemory {
    /// A region of this process.
    Region(Arc<Region>),
    /// A part of such a region, for a few rows.
    Shelf(ShelfBlock),
    /// The first bytes of a part of such a region, behind which more are written.
    Appended(AppendedBytes),
    /// The process's own heap, for the few rows of a statement.
    Heap(Buffer),
    /// An extent of a pool, which outlives the process.
    Pool(PoolBytes),
}

/// The verified bytes of an extent of a pool, in place.
#[derive(Debug, Clone)]
pub struct PoolBytes {
    extent: Arc<ExtentHandle>,
    all: Buffer,
    tier: TierId,
}

impl PoolBytes {
    /// The bytes of `extent`, which are counted as taken of `tier`.
    ///
    /// # Errors
    /// Damaged bytes; a tier without budget for them.
    pub fn of(
        extent: Arc<ExtentHandle>,
        system: &Arc<MemorySystem>,
        tier: TierId,
    ) -> Result<Self, PoolError> {
        extent.charge_to(system, tier)?;
        let all = extent.buffer()?;
        Ok(Self { extent, all, tier })
    }

    /// The extent.
    pub fn extent(&self) -> &Arc<ExtentHandle> {
        &self.extent
    }

    /// A buffer of its own size, by which operators that keep it are charged.
    fn buffer(&self, range: Range<usize>) -> Buffer {
        let own = self.extent.buffer_of(range.clone());
        own.unwrap_or_else(|_| self.all.slice_with_length(range.start, range.len()))
    }
}

impl SegmentMemory {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Region(region) => region.len(),
            Self::Shelf(block) => block.len(),
            Self::Appended(bytes) => bytes.len(),
            Self::Heap(bytes) => bytes.len(),
            Self::Pool(bytes) => bytes.all.len(),
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
            Self::Shelf(block) => block.as_slice(),
            Self::Appended(bytes) => bytes.as_slice(),
            Self::Heap(bytes) => bytes,
            Self::Pool(bytes) => &bytes.all,
        }
    }

    /// Some of the bytes as an Arrow buffer that keeps the memory.
    pub fn buffer(&self, range: Range<usize>) -> Buffer {
        match self {
            Self::Region(region) => region.buffer(range),
            Self::Shelf(block) => block.buffer(range),
            Self::Appended(bytes) => bytes.buffer(range),
            Self::Heap(bytes) => bytes.slice_with_length(range.start, range.len()),
            Self::Pool(bytes) => bytes.buffer(range),
        }
    }

    /// Where the bytes lie.
    pub fn placement(&self) -> Placement {
        match self {
            Self::Region(region) => region.placement(),
            Self::Shelf(block) => block.placement(),
            Self::Appended(bytes) => bytes.placement(),
            Self::Heap(_) => Placement::Bind(TierId::NEAR),
            Self::Pool(bytes) => Placement::Bind(bytes.tier),
        }
    }

    /// The bytes of `range` on each tier.
    pub fn tier_bytes(&self, range: Range<usize>) -> TierBytes {
        match self {
            Self::Region(region) => region.tier_bytes(range),
            Self::Shelf(block) => block.tier_bytes(range),
            Self::Appended(bytes) => bytes.tier_bytes(range),
            Self::Heap(_) => on_tier(TierId::NEAR, range.len()),
            Self::Pool(bytes) => on_tier(bytes.tier, range.len()),
        }
    }

    /// The extent of a pool that they are; nothing where they are in a region.
    pub fn extent(&self) -> Option<&Arc<ExtentHandle>> {
        match self {
            Self::Region(_) | Self::Shelf(_) | Self::Appended(_) | Self::Heap(_) => None,
            Self::Pool(bytes) => Some(bytes.extent()),
        }
    }
}

fn on_tier(tier: TierId, bytes: usize) -> TierBytes {
    let mut on = TierBytes::ZERO;
    on[tier] = bytes as u64;
    on
}
