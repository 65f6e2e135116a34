//! Small blocks of near memory that share regions.
//!
//! A region of its own costs a block of some hundred bytes a mapping, a page fault and a question to
//! the kernel, some ten microseconds together. Rows that are written one by one come in such blocks.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use parking_lot::Mutex;

use super::{AppendArea, Region, RegionError};
use crate::placement::{PageSize, Placement, RegionOptions};
use crate::system::MemorySystem;
use crate::tier::{TierBytes, TierId};

/// Bytes of a region that blocks share.
const REGION_BYTES: usize = 64 << 10;
/// Blocks start on cache lines.
const ALIGNMENT_BYTES: usize = 64;

/// Hands out parts of regions, one after the other. It keeps the last [`Self::KEPT_REGIONS`] regions, each of which is
/// used again once none of its blocks is left; all others end with the last of their blocks. So a block keeps at most
/// 64 KiB from the budget, and the shelf itself that many regions.
///
/// ```
/// use nearfar_memory::{Budgets, MemorySystem, RegionOptions, Shelf, TierId, TierKind, TierSpec};
///
/// let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
/// let system = MemorySystem::from_specs(vec![near], &Budgets::new())?;
/// let (shelf, options) = (Shelf::default(), RegionOptions::default());
/// let one = shelf.put(&system, options, 3, |bytes| bytes.copy_from_slice(b"one"))?;
/// let two = shelf.put(&system, options, 3, |bytes| bytes.copy_from_slice(b"two"))?;
/// assert_eq!((one.as_slice(), two.as_slice()), (&b"one"[..], &b"two"[..]));
/// assert_eq!(system.usage(TierId::NEAR).region_bytes, 64 << 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Shelf {
    kept: Mutex<Kept>,
}

/// The regions that blocks come from: the next one from the first.
#[derive(Debug, Default)]
struct Kept(VecDeque<Open>);

/// A region that blocks come from.
#[derive(Debug)]
struct Open {
    region: Arc<Region>,
    used_bytes: usize,
    /// Blocks had these first bytes, now or before; all others are zero.
    written_bytes: usize,
}

impl Open {
    fn new(region: Arc<Region>) -> Self {
        Self {
            region,
            used_bytes: 0,
            written_bytes: 0,
        }
    }

    fn next_start(&self) -> usize {
        self.used_bytes.next_multiple_of(ALIGNMENT_BYTES)
    }

    /// Whether none of its blocks is left. Blocks hold the region, and no more of them are made but by who holds the
    /// shelf's lock.
    fn is_idle(&mut self) -> bool {
        Arc::get_mut(&mut self.region).is_some()
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.next_start() + bytes <= REGION_BYTES
    }
}

impl Kept {
    /// Puts a region in front that has room for a block, if there is one.
    fn make_room(&mut self, bytes: usize) -> bool {
        let found = self.0.iter_mut().enumerate().find_map(|(at, open)| {
            if open.is_idle() {
                open.used_bytes = 0;
            }
            // Of regions whose blocks are left, only the first is gone on with.
            let is_next = at == 0 || open.used_bytes == 0;
            (is_next && open.has_room(bytes)).then_some(at)
        });
        found.inspect(|at| self.0.swap(0, *at)).is_some()
    }

    /// Puts a region in front, in place of the last where there are enough.
    fn push(&mut self, region: Arc<Region>) {
        self.0.truncate(Shelf::KEPT_REGIONS - 1);
        self.0.push_front(Open::new(region));
    }
}

impl Shelf {
    /// The largest block: larger ones are worth a region of their own.
    pub const BLOCK_BYTES_MAX: usize = REGION_BYTES / 4;

    /// Regions that are kept at most: as many as the small transactions of some threads fill before the first of them ends.
    pub const KEPT_REGIONS: usize = 8;

    /// A block of `bytes` bytes in near memory, zero before `fill` writes them.
    ///
    /// # Errors
    /// Those of [`Region::allocate`], for the region that blocks share.
    ///
    /// # Panics
    /// When `bytes` is more than [`Self::BLOCK_BYTES_MAX`].
    pub fn put(
        &self,
        system: &Arc<MemorySystem>,
        options: RegionOptions,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ShelfBlock, RegionError> {
        assert!(bytes <= Self::BLOCK_BYTES_MAX, "{bytes} bytes are no block");
        let block = self.reserve(system, options, bytes)?;
        // SAFETY: `block` names initialised bytes of its region (see `start`). No other block has them,
        // `fill` is done before this one is handed out, and nobody makes a slice of the whole region.
        fill(unsafe { std::slice::from_raw_parts_mut(block.start().as_ptr(), bytes) });
        Ok(block)
    }

    /// Gives the regions back that are kept, but for those of which a block is left.
    pub fn release(&self) {
        self.kept.lock().0.retain_mut(|open| !open.is_idle());
    }

    /// Areas of so many bytes in near memory, all in one region, for what is written little by little.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn areas(
        &self,
        system: &Arc<MemorySystem>,
        options: RegionOptions,
        sizes: &[usize],
    ) -> Result<Vec<AppendArea>, RegionError> {
        let mut end = 0;
        let parts = sizes.iter().map(|bytes| {
            let start = usize::next_multiple_of(end, ALIGNMENT_BYTES);
            end = start + bytes;
            start..end
        });
        let parts: Vec<Range<usize>> = parts.collect();
        let (region, first) = match end <= Self::BLOCK_BYTES_MAX {
            true => {
                let block = self.reserve(system, options, end)?;
                (block.region, block.range.start)
            }
            false => (near_region(system, options, end)?, 0),
        };
        let area = |part: Range<usize>| {
            AppendArea::new(Arc::clone(&region), first + part.start..first + part.end)
        };
        Ok(parts.into_iter().map(area).collect())
    }

    /// Bytes that nobody else has been given.
    fn reserve(
        &self,
        system: &Arc<MemorySystem>,
        options: RegionOptions,
        bytes: usize,
    ) -> Result<ShelfBlock, RegionError> {
        let mut kept = self.kept.lock();
        if !kept.make_room(bytes) {
            kept.push(near_region(system, options, REGION_BYTES)?);
        }
        let open = &mut kept.0[0];
        let start = open.next_start();
        let range = start..start + bytes;
        let written = start..range.end.min(open.written_bytes).max(start);
        // SAFETY: the range lies within the region's bytes, `bytes` being at most `BLOCK_BYTES_MAX` where the region is
        // empty and found to fit else. Nobody has these bytes: blocks that had them are gone, since nobody but
        // this shelf held the region when `used_bytes` was last zero.
        unsafe {
            let first = open.region.map.base().add(written.start);
            first.write_bytes(0, written.len());
        }
        open.used_bytes = range.end;
        open.written_bytes = open.written_bytes.max(range.end);
        let region = Arc::clone(&open.region);
        Ok(ShelfBlock { region, range })
    }
}

fn near_region(
    system: &Arc<MemorySystem>,
    options: RegionOptions,
    bytes: usize,
) -> Result<Arc<Region>, RegionError> {
    let options = RegionOptions {
        page_size: PageSize::Base,
        ..options
    };
    let near = Placement::Bind(TierId::NEAR);
    Ok(Arc::new(Region::allocate(system, bytes, &near, options)?))
}

/// A block of a [`Shelf`]. Cloned cheaply; never changed.
#[derive(Clone)]
pub struct ShelfBlock {
    /// Shared with other blocks, one of which may be being written: nobody may make a slice of it.
    region: Arc<Region>,
    range: Range<usize>,
}

impl fmt::Debug for ShelfBlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShelfBlock")
            .field("bytes", &self.len())
            .finish_non_exhaustive()
    }
}

impl ShelfBlock {
    fn start(&self) -> NonNull<u8> {
        // SAFETY: `reserve` has chosen a range within the region's bytes, all populated and zero at first.
        unsafe { self.region.map.base().add(self.range.start) }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: they are initialised, were written before the block was handed out, and belong to no
        // other block; the region is held as long as `self` is.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// Some of the bytes as an Arrow buffer that keeps the region.
    ///
    /// # Panics
    /// When `range` lies outside of the block, as a slice would.
    #[must_use]
    pub fn buffer(&self, range: Range<usize>) -> Buffer {
        let slice = &self.as_slice()[range];
        let owner = Arc::clone(&self.region);
        // SAFETY: the bytes of `slice` are initialised, don't change any more, and stay mapped as long as
        // the buffer holds `owner`.
        unsafe { Buffer::from_custom_allocation(NonNull::from(slice).cast(), slice.len(), owner) }
    }

    /// Where the bytes lie.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.region.placement()
    }

    /// The bytes of `range` on each tier.
    ///
    /// # Panics
    /// When `range` lies outside of the region.
    #[must_use]
    pub fn tier_bytes(&self, range: Range<usize>) -> TierBytes {
        let first = self.range.start;
        self.region
            .tier_bytes(first + range.start..first + range.end)
    }
}

#[cfg(test)]
mod tests {
    use nearfar_topology::TierKind;

    use super::*;
    use crate::{Budgets, TierSpec};

    fn system(bytes: u64) -> Arc<MemorySystem> {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], bytes);
        MemorySystem::from_specs(vec![near], &Budgets::new()).unwrap()
    }

    fn put(shelf: &Shelf, system: &Arc<MemorySystem>, byte: u8, bytes: usize) -> ShelfBlock {
        let fill = |block: &mut [u8]| {
            assert!(block.iter().all(|byte| *byte == 0));
            block.fill(byte);
        };
        let block = shelf.put(system, RegionOptions::default(), bytes, fill);
        block.unwrap()
    }

    /// Small, for Miri.
    #[test]
    fn blocks_share_regions_that_end_with_the_last_of_them() {
        let system = system(1 << 20);
        let used = || system.usage(TierId::NEAR).region_bytes as usize;
        let shelf = Shelf::default();
        let blocks: Vec<ShelfBlock> = (0..10)
            .map(|byte| {
                put(
                    &shelf,
                    &system,
                    byte,
                    Shelf::BLOCK_BYTES_MAX - usize::from(byte),
                )
            })
            .collect();
        assert_eq!(used(), 3 * REGION_BYTES);
        for (byte, block) in blocks.iter().enumerate() {
            assert!(
                block
                    .as_slice()
                    .iter()
                    .all(|found| usize::from(*found) == byte)
            );
            assert_eq!(block.start().as_ptr().addr() % ALIGNMENT_BYTES, 0);
            assert_eq!(
                block.tier_bytes(0..block.len())[TierId::NEAR],
                block.len() as u64
            );
        }
        let kept = blocks[9].buffer(1..3);
        drop(blocks);
        assert_eq!(kept.as_slice(), [9, 9]);
        drop(kept);
        assert_eq!(used(), 3 * REGION_BYTES, "regions are kept");
        for byte in [1, 2] {
            let block = put(&shelf, &system, byte, Shelf::BLOCK_BYTES_MAX);
            assert_eq!(block.as_slice()[1..3], [byte, byte]);
        }
        let block = put(&shelf, &system, 3, 1);
        shelf.release();
        assert_eq!(used(), REGION_BYTES, "a block is left");
        drop(block);
        shelf.release();
        assert_eq!(used(), 0);
    }

    #[test]
    fn idle_regions_are_used_again_before_others_are_made() {
        let system = system(1 << 24);
        let used = || system.usage(TierId::NEAR).region_bytes as usize;
        let shelf = Shelf::default();
        let fill = |regions: usize| -> Vec<ShelfBlock> {
            let blocks = 0..regions * REGION_BYTES / Shelf::BLOCK_BYTES_MAX;
            blocks
                .map(|byte| put(&shelf, &system, byte as u8, Shelf::BLOCK_BYTES_MAX))
                .collect()
        };
        let long = fill(1);
        for _ in 0..3 {
            let short = fill(2);
            assert_eq!(used(), 3 * REGION_BYTES);
            assert!(
                short
                    .iter()
                    .all(|block| block.as_slice()[0] == block.as_slice()[1])
            );
        }
        drop(fill(Shelf::KEPT_REGIONS + 2));
        assert_eq!(used(), (1 + Shelf::KEPT_REGIONS) * REGION_BYTES);
        drop(long);
    }

    #[test]
    fn threads_write_and_read_blocks_concurrently() {
        let system = system(1 << 24);
        let shelf = Shelf::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (shelf, system) = (&shelf, &system);
                scope.spawn(move || {
                    let blocks: Vec<_> = (1..50).map(|n| put(shelf, system, thread, n)).collect();
                    for (n, block) in (1..50).zip(&blocks) {
                        assert_eq!(block.as_slice(), vec![thread; n]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_full_budget_refuses_a_block() {
        let system = system(4096);
        let refused = Shelf::default().put(&system, RegionOptions::default(), 1, |_| {});
        assert!(refused.is_err());
    }
}
