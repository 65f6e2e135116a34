//! Small blocks of many sizes in regions of one tier.

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};
use parking_lot::Mutex;

use super::Region;
use crate::placement::{OverBudget, PageSize, Placement, RegionOptions};
use crate::system::MemorySystem;
use crate::tier::TierId;

/// The largest block.
const BLOCK_BYTES_MAX: usize = 32 << 10;
/// Blocks have sizes and addresses of whole units.
const UNIT_BYTES: usize = 8;
/// Up to here every size has slabs of its own; above, eight sizes for each doubling do.
const EXACT_BYTES_MAX: usize = 128;
/// Slabs of blocks up to the first size, and of larger ones: as few slabs are open as there are sizes.
const SLABS: [(usize, usize); 2] = [(1 << 10, 8 << 10), (BLOCK_BYTES_MAX, 64 << 10)];
/// Slabs come in chunks, each a region: an eighth of what is there, between these.
const CHUNK_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=32 << 20;
/// Chunks from this size on have huge pages, where these are asked for.
const HUGE_BYTES_MIN: usize = 2 << 20;
/// No slab, and no block.
const NONE: u32 = u32::MAX;

/// Blocks of up to 32 KiB in regions of one tier, for one owner that gives them all back, such as an
/// index: pages are charged to the tier's budget as regions are, given back when blocks are freed, and
/// all of them when this is dropped. Blocks are allocated and freed on any thread, one at a time.
///
/// ```
/// use allocator_api2::vec::Vec as TierVec;
/// use nearfar_memory::{Budgets, MemorySystem, RegionOptions, SlabHeap, TierId, TierKind, TierSpec};
///
/// let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
/// let system = MemorySystem::from_specs(vec![near], &Budgets::new())?;
/// let heap = SlabHeap::new(&system, TierId::NEAR, RegionOptions::default());
/// let mut numbers = TierVec::new_in(heap.clone());
/// numbers.extend(0..100_u64);
/// assert_eq!(system.usage(TierId::NEAR).region_bytes, heap.usage().region_bytes);
/// drop(numbers);
/// assert_eq!(heap.usage().block_bytes, 0);
/// drop(heap);
/// assert_eq!(system.usage(TierId::NEAR).region_bytes, 0);
/// # Ok::<(), nearfar_memory::SystemError>(())
/// ```
///
/// Clones share the heap, which ends with the last of them, so that a block never outlives it.
#[derive(Clone)]
pub struct SlabHeap(Arc<Slabs>);

struct Slabs {
    system: Arc<MemorySystem>,
    tier: TierId,
    options: RegionOptions,
    pools: [Mutex<Pool>; SLABS.len()],
}

/// What a [`SlabHeap`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlabUsage {
    /// Blocks that are not freed.
    pub blocks: u64,
    /// Their bytes, as they were asked for.
    pub block_bytes: u64,
    /// Bytes of regions, which the tier is charged with.
    pub region_bytes: u64,
}

/// Slabs of one size.
struct Pool {
    slab_bytes: usize,
    /// By their addresses.
    chunks: Vec<Chunk>,
    /// By class, the addresses of slabs that have blocks and room for more.
    open: Vec<Vec<usize>>,
    /// The addresses of slabs without blocks.
    free: Vec<usize>,
    usage: SlabUsage,
}

struct Chunk {
    /// Never looked at as a slice: blocks are their owners'.
    region: Region,
    start: usize,
    slabs: Vec<Slab>,
    used_slabs: usize,
}

#[derive(Clone, Copy)]
struct Slab {
    class: u32,
    used: u32,
    /// Blocks that were given out so far; those behind are untouched.
    touched: u32,
    /// The first of the blocks that were freed, each of which has the number of the next in its first bytes.
    freed: u32,
    /// Where it is in its list of open slabs, if it is there.
    at: u32,
}

const UNUSED: Slab = Slab {
    class: 0,
    used: 0,
    touched: 0,
    freed: NONE,
    at: NONE,
};

/// The class of blocks of so many bytes, and what such a block takes.
fn class_of(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(1).next_multiple_of(UNIT_BYTES);
    if bytes <= EXACT_BYTES_MAX {
        return (bytes / UNIT_BYTES - 1, bytes);
    }
    let octave = (bytes - 1).ilog2();
    let step = 1 << (octave - 3);
    let block_bytes = bytes.next_multiple_of(step);
    let within = (block_bytes - (1 << octave)) / step - 1;
    let octaves = (octave - EXACT_BYTES_MAX.ilog2()) as usize;
    let class = EXACT_BYTES_MAX / UNIT_BYTES + 8 * octaves + within;
    (class, block_bytes)
}

impl SlabHeap {
    /// The largest block, in bytes.
    pub const BLOCK_BYTES_MAX: usize = BLOCK_BYTES_MAX;

    /// A heap on `tier` that has taken nothing yet. A full tier refuses blocks, whatever `options` say.
    #[must_use]
    pub fn new(system: &Arc<MemorySystem>, tier: TierId, options: RegionOptions) -> Self {
        Self(Arc::new(Slabs {
            system: Arc::clone(system),
            tier,
            options: RegionOptions {
                over_budget: OverBudget::Refuse,
                ..options
            },
            pools: SLABS.map(|(_, slab_bytes)| {
                Mutex::new(Pool {
                    slab_bytes,
                    chunks: Vec::new(),
                    open: Vec::new(),
                    free: Vec::new(),
                    usage: SlabUsage::default(),
                })
            }),
        }))
    }

    /// The tier.
    #[must_use]
    pub fn tier(&self) -> TierId {
        self.0.tier
    }

    /// What it holds.
    #[must_use]
    pub fn usage(&self) -> SlabUsage {
        let pools = self.0.pools.iter().map(|pool| pool.lock().usage);
        pools.fold(SlabUsage::default(), |sum, pool| SlabUsage {
            blocks: sum.blocks + pool.blocks,
            block_bytes: sum.block_bytes + pool.block_bytes,
            region_bytes: sum.region_bytes + pool.region_bytes,
        })
    }

    /// Whether an address lies in one of its regions.
    #[must_use]
    pub fn contains(&self, address: usize) -> bool {
        let mut pools = self.0.pools.iter();
        pools.any(|pool| pool.lock().chunk_of(address).is_some())
    }

    fn pool(&self, bytes: usize) -> Option<&Mutex<Pool>> {
        let (_, block_bytes) = class_of(bytes);
        let index = SLABS
            .iter()
            .position(|(largest, _)| block_bytes <= *largest);
        index.map(|index| &self.0.pools[index])
    }

    /// Adds a chunk, smaller ones where the tier has no room for as much as is wanted.
    fn grow(&self, pool: &mut Pool) -> Option<()> {
        let (smallest, largest) = (*CHUNK_BYTES.start(), *CHUNK_BYTES.end());
        let wanted = (pool.usage.region_bytes as usize / 8).clamp(smallest, largest);
        let mut bytes = 1_usize << wanted.ilog2();
        let placement = Placement::Bind(self.0.tier);
        loop {
            let page_size = match bytes < HUGE_BYTES_MIN {
                true => PageSize::Base,
                false => self.0.options.page_size,
            };
            let options = RegionOptions {
                page_size,
                ..self.0.options
            };
            match Region::allocate(&self.0.system, bytes, &placement, options) {
                Ok(region) => {
                    pool.add(region);
                    return Some(());
                }
                Err(_) if bytes > smallest => bytes /= 2,
                Err(error) => {
                    tracing::debug!(%error, "no chunk of blocks");
                    return None;
                }
            }
        }
    }
}

impl Pool {
    fn add(&mut self, region: Region) {
        let start = region.map.base().as_ptr() as usize;
        let slabs = region.mapped_bytes() / self.slab_bytes;
        self.usage.region_bytes += region.mapped_bytes() as u64;
        let addresses = (0..slabs).rev().map(|slab| start + slab * self.slab_bytes);
        self.free.extend(addresses);
        let at = self.chunks.partition_point(|chunk| chunk.start < start);
        self.chunks.insert(
            at,
            Chunk {
                region,
                start,
                slabs: vec![UNUSED; slabs],
                used_slabs: 0,
            },
        );
    }

    fn chunk_of(&self, address: usize) -> Option<usize> {
        let behind = self.chunks.partition_point(|chunk| chunk.start <= address);
        let at = behind.checked_sub(1)?;
        let chunk = &self.chunks[at];
        (address < chunk.start + chunk.slabs.len() * self.slab_bytes).then_some(at)
    }

    /// The slab at an address in it, its chunk, and where it begins.
    fn slab_of(&self, address: usize) -> Option<(usize, usize, usize)> {
        let chunk = self.chunk_of(address)?;
        let start = self.chunks[chunk].start;
        let slab = (address - start) / self.slab_bytes;
        Some((chunk, slab, start + slab * self.slab_bytes))
    }

    /// A block in a slab that is there already.
    fn take(&mut self, class: usize, block_bytes: usize) -> Option<NonNull<u8>> {
        if self.open.len() <= class {
            self.open.resize_with(class + 1, Vec::new);
        }
        if self.open[class].is_empty() {
            self.open_slab(class)?;
        }
        let (chunk, index, start) = self.slab_of(*self.open[class].last()?)?;
        let chunk = &mut self.chunks[chunk];
        let base = chunk.region.map.base();
        let slab = &mut chunk.slabs[index];
        let number = match slab.freed {
            NONE => slab.touched,
            freed => freed,
        };
        let offset = start - chunk.start + number as usize * block_bytes;
        // SAFETY: slabs of the chunk's table lie in its region, and blocks up to the number that fit in
        // their slab.
        let block = unsafe { base.add(offset) };
        if slab.freed == NONE {
            slab.touched += 1;
        } else {
            // SAFETY: the block was freed, so that its first bytes are the pool's, which wrote them.
            slab.freed = unsafe { block.cast::<u32>().read() };
        }
        slab.used += 1;
        if slab.used as usize == self.slab_bytes / block_bytes {
            slab.at = NONE;
            self.open[class].pop();
        }
        Some(block)
    }

    fn open_slab(&mut self, class: usize) -> Option<()> {
        let start = self.free.pop()?;
        let (chunk, index, _) = self.slab_of(start)?;
        let chunk = &mut self.chunks[chunk];
        chunk.used_slabs += 1;
        chunk.slabs[index] = Slab {
            class: class as u32,
            at: self.open[class].len() as u32,
            ..UNUSED
        };
        self.open[class].push(start);
        Some(())
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from [`Self::take`] with this class and size, and nobody uses it any more.
    unsafe fn give_back(&mut self, block: NonNull<u8>, class: usize, block_bytes: usize) {
        let found = self.slab_of(block.as_ptr() as usize);
        let (chunk_at, index, start) = found.expect("a block of this heap");
        let slab = &mut self.chunks[chunk_at].slabs[index];
        debug_assert_eq!(
            slab.class as usize, class,
            "freed with the size it was taken with"
        );
        let number = (block.as_ptr() as usize - start) / block_bytes;
        // SAFETY: the caller gives the block up; it has at least one unit, and is aligned to units.
        unsafe { block.cast::<u32>().write(slab.freed) };
        slab.freed = number as u32;
        slab.used -= 1;
        let at = slab.at;
        if slab.used == 0 {
            *slab = UNUSED;
            if at != NONE {
                self.close_slab(class, at as usize);
            }
            self.free.push(start);
            self.chunks[chunk_at].used_slabs -= 1;
            self.release(chunk_at);
        } else if at == NONE {
            slab.at = self.open[class].len() as u32;
            self.open[class].push(start);
        }
    }

    /// Takes a slab out of the list of open ones.
    fn close_slab(&mut self, class: usize, at: usize) {
        self.open[class].swap_remove(at);
        let Some(moved) = self.open[class].get(at).copied() else {
            return;
        };
        if let Some((chunk, index, _)) = self.slab_of(moved) {
            self.chunks[chunk].slabs[index].at = at as u32;
        }
    }

    /// Gives a chunk back that has no blocks, unless hardly any other slab is free.
    fn release(&mut self, at: usize) {
        let chunk = &self.chunks[at];
        let slabs = chunk.slabs.len();
        let spare = self.free.len().saturating_sub(slabs);
        if chunk.used_slabs > 0 || spare * 8 < slabs {
            return;
        }
        let addresses = chunk.start..chunk.start + slabs * self.slab_bytes;
        self.free.retain(|slab| !addresses.contains(slab));
        let chunk = self.chunks.remove(at);
        self.usage.region_bytes -= chunk.region.mapped_bytes() as u64;
    }
}

impl fmt::Debug for SlabHeap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("SlabHeap");
        fields
            .field("tier", &self.0.tier)
            .field("usage", &self.usage());
        fields.finish_non_exhaustive()
    }
}

// SAFETY: a block lies in a region that ends with the heap, and no other block has its bytes until it is
// freed. Sizes of classes are multiples of the alignments asked for, and slabs begin at multiples of
// cache lines (see `allocate`). Blocks do not move with the heap, whose regions are mapped.
unsafe impl Allocator for SlabHeap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // A size of whole lines is in a class of whole lines, and so with sixteen bytes.
        let bytes = layout.size().next_multiple_of(layout.align());
        if layout.align() > 64 || bytes > BLOCK_BYTES_MAX {
            return Err(AllocError);
        }
        let (class, block_bytes) = class_of(bytes);
        let mut pool = self.pool(bytes).ok_or(AllocError)?.lock();
        let block = match pool.take(class, block_bytes) {
            Some(block) => block,
            None => {
                self.grow(&mut pool).ok_or(AllocError)?;
                pool.take(class, block_bytes).ok_or(AllocError)?
            }
        };
        pool.usage.blocks += 1;
        pool.usage.block_bytes += layout.size() as u64;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let bytes = layout.size().next_multiple_of(layout.align());
        let (class, block_bytes) = class_of(bytes);
        let mut pool = self.pool(bytes).expect("a block of this heap").lock();
        // SAFETY: the caller says that the block came from here with this layout and is given up.
        unsafe { pool.give_back(block, class, block_bytes) };
        pool.usage.blocks -= 1;
        pool.usage.block_bytes -= layout.size() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_the_order_of_sizes_and_keep_alignments() {
        let mut before = (0, 8);
        for bytes in (8..=BLOCK_BYTES_MAX).step_by(8) {
            let (class, block_bytes) = class_of(bytes);
            assert!(
                block_bytes >= bytes && block_bytes * 8 <= bytes * 9 + 64,
                "{bytes}"
            );
            assert!(class == before.0 || class == before.0 + 1, "{bytes}");
            assert_eq!(class == before.0, block_bytes == before.1, "{bytes}");
            for align in [16, 64] {
                assert!(!bytes.is_multiple_of(align) || block_bytes.is_multiple_of(align));
            }
            before = (class, block_bytes);
        }
    }
}
