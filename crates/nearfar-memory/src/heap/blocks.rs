//! Blocks of one heap: mimalloc's heaps over the arenas of one space.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use allocator_api2::alloc::AllocError;
use libmimalloc_sys as mimalloc;

use super::HeapError;
use super::arena::{self, ARENA_BYTES_MAX, Arena};
use super::space::Space;
use super::thread_ends;
use super::thread_tier::ThreadTier;
use super::tier_heap::Exhaustion;
use crate::collection;
use crate::heap_counters::HeapCounters;
use crate::system::MemorySystem;
use crate::tier::TierId;

/// As which mimalloc aligns blocks of as many bytes and more, unasked; smaller ones as the largest power of two that
/// they have room for, eight at least.
const BLOCK_ALIGN: usize = 16;

/// The heap behind a [`TierHeap`](super::TierHeap), or one of the global allocator's.
pub(super) struct Heap {
    system: Arc<MemorySystem>,
    tier: TierId,
    /// Those of the tier.
    counters: Arc<HeapCounters>,
    exhaustion: Exhaustion,
    /// mimalloc's heaps, one per arena, filled from the front; null where there is none yet.
    heaps: Box<[AtomicPtr<mimalloc::mi_heap_t>]>,
    /// The one of them that served the last allocation; null while the heap is made or dropped.
    active: AtomicPtr<mimalloc::mi_heap_t>,
    /// Bytes that were free and yet not given back when memory was last collected.
    futile_bytes: AtomicU64,
    /// The addresses of the heap.
    addresses: Range<usize>,
    /// Whether all of its space is charged already.
    is_prepaid: bool,
    /// Where the arenas lie; empty only while the heap is dropped.
    space: Mutex<Option<Space>>,
}

// SAFETY: mimalloc's heaps may be used from any thread; the raw pointers are handles.
unsafe impl Send for Heap {}
// SAFETY: as above; heaps are added under a lock and published by an atomic store.
unsafe impl Sync for Heap {}

impl Heap {
    pub(super) fn new(
        system: &Arc<MemorySystem>,
        tier: TierId,
        exhaustion: Exhaustion,
        space: Space,
    ) -> Result<Self, HeapError> {
        arena::set_options();
        thread_ends::watch().map_err(|errno| HeapError::ThreadEnds { errno })?;
        let base = space.map.addresses().start;
        let reserve_bytes = space.range.len();
        let adopted = space
            .arenas
            .iter()
            .take_while(|arena| arena.adopt(system, tier))
            .count();
        let heap = Self {
            system: Arc::clone(system),
            tier,
            counters: Arc::clone(system.heap_counters(tier)),
            exhaustion,
            heaps: (0..space.arenas_max())
                .map(|_| AtomicPtr::default())
                .collect(),
            active: AtomicPtr::default(),
            futile_bytes: AtomicU64::new(0),
            addresses: base + space.range.start..base + space.range.end,
            is_prepaid: space.is_prepaid(),
            space: Mutex::new(None),
        };
        let complete = adopted == space.arenas.len()
            && space
                .arenas
                .iter()
                .zip(&heap.heaps)
                .all(|(arena, slot)| publish(arena, slot));
        let is_new = space.arenas.is_empty();
        heap.space
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(space);
        if complete && (!is_new || heap.add_arena()) {
            let first = heap.heaps[0].load(Ordering::Acquire);
            heap.active.store(first, Ordering::Release);
            return Ok(heap);
        }
        Err(HeapError::Arena {
            tier: system.info(tier).name.clone(),
            reserve_bytes,
            available_bytes: system.ledger().available_bytes(tier),
        })
    }

    /// The tier of the heap.
    pub(super) fn tier(&self) -> TierId {
        self.tier
    }

    /// The addresses of the heap.
    pub(super) fn addresses(&self) -> Range<usize> {
        self.addresses.clone()
    }

    /// Whether `address` lies in the heap.
    pub(super) fn contains(&self, address: *const u8) -> bool {
        self.addresses.contains(&(address as usize))
    }

    /// A block of `layout`, or null when the tier has no room.
    #[inline]
    pub(super) fn allocate(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        // Pairs with the stores of it, which come after the heap was made.
        let active = self.active.load(Ordering::Acquire);
        // SAFETY: the heap is null or live as long as `self`.
        let mut block = unsafe { allocate_in(active, layout, zeroed) };
        if block.is_null() {
            block = self.allocate_slowly(active, layout, zeroed);
        }
        if !block.is_null() {
            self.counters.allocated(layout.size());
        }
        block
    }

    #[cold]
    fn allocate_slowly(
        &self,
        active: *mut mimalloc::mi_heap_t,
        layout: Layout,
        zeroed: bool,
    ) -> *mut u8 {
        // Pairs with the store in `publish`, which comes after the heap was made.
        let heap_at = |index: usize| self.heaps[index].load(Ordering::Acquire);
        let anywhere = || {
            let count = self.heaps.len();
            let first = (0..count).find(|index| heap_at(*index) == active);
            let all = (0..count).map(|turn| heap_at((first.unwrap_or(0) + turn) % count));
            // SAFETY: the heaps are null or live as long as `self`.
            let mut blocks = all.map(|heap| (heap, unsafe { allocate_in(heap, layout, zeroed) }));
            let (heap, block) = blocks.find(|(_, block)| !block.is_null())?;
            self.active.store(heap, Ordering::Release);
            Some(block)
        };
        let block = if self.heaps.len() > 1 {
            anywhere()
        } else {
            None
        };
        block
            .or_else(|| {
                if self.collect_for(layout.size()) {
                    anywhere()
                } else {
                    None
                }
            })
            .or_else(|| {
                if self.may_grow(layout.size()) && self.add_arena() {
                    anywhere()
                } else {
                    None
                }
            })
            .unwrap_or(std::ptr::null_mut())
    }

    /// Gives freed memory back if there is enough of it that was not tried in vain before.
    fn collect_for(&self, bytes: usize) -> bool {
        let needed = self
            .futile_bytes
            .load(Ordering::Relaxed)
            .saturating_add(bytes as u64);
        if self.free_bytes() < needed {
            return false;
        }
        self.collect();
        self.futile_bytes
            .store(self.free_bytes(), Ordering::Relaxed);
        true
    }

    /// Bytes charged to the tier's heaps that are in no block.
    fn free_bytes(&self) -> u64 {
        let charged = self.system.ledger().state(self.tier).heap_bytes;
        charged.saturating_sub(self.counters.live_bytes())
    }

    /// Gives back what this thread or no thread holds on to.
    pub(super) fn collect(&self) {
        for heap in &self.heaps {
            // Pairs with the store in `publish`.
            let heap = heap.load(Ordering::Acquire);
            if !heap.is_null() {
                // SAFETY: the heap is live as long as `self`.
                collection::collect_by(|| unsafe { mimalloc::mi_heap_collect(heap, true) });
            }
        }
    }

    /// Whether the budget has room for another arena's records and for a block beside them.
    fn may_grow(&self, bytes: usize) -> bool {
        if self.is_prepaid {
            return true;
        }
        let records = (ARENA_BYTES_MAX / 256) as u64;
        self.system.ledger().available_bytes(self.tier) >= records.saturating_add(bytes as u64)
    }

    /// Adds an arena, if there is address space for one and no thread is at it already (this one
    /// may be, since making an arena allocates).
    fn add_arena(&self) -> bool {
        let Ok(mut space) = self.space.try_lock() else {
            return false;
        };
        let Some(space) = space.as_mut() else {
            return false;
        };
        let Some(range) = space.next_arena() else {
            return false;
        };
        let _near = ThreadTier::enter(TierId::NEAR);
        let owner = (!space.is_prepaid()).then(|| (Arc::clone(&self.system), self.tier));
        let Some(arena) = Arena::create(&space.map, range, owner) else {
            return false;
        };
        space.arenas.push(arena);
        publish(arena, &self.heaps[space.arenas.len() - 1])
    }

    /// As [`Self::allocate`], with the exhaustion policy, for `Allocator`.
    pub(super) fn allocate_slice(
        &self,
        layout: Layout,
        zeroed: bool,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let dangling = NonNull::without_provenance(
                std::num::NonZeroUsize::new(layout.align()).ok_or(AllocError)?,
            );
            return Ok(NonNull::slice_from_raw_parts(dangling, 0));
        }
        let mut block = self.allocate(layout, zeroed);
        if block.is_null() && self.exhaustion == Exhaustion::Spill {
            block = self.fall_back(layout, zeroed);
        }
        let block = NonNull::new(block).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// A block of the platform's allocator in place of one of this heap; the size is not zero.
    #[cold]
    pub(super) fn fall_back(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        self.counters.fell_back(layout.size());
        // SAFETY: the layout's size is not zero.
        unsafe {
            if zeroed {
                System.alloc_zeroed(layout)
            } else {
                System.alloc(layout)
            }
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block is live, came from this heap or its fallback, and has this layout.
    pub(super) unsafe fn free(&self, block: *mut u8, layout: Layout) {
        if self.contains(block) {
            // SAFETY: blocks in the heap's range are mimalloc's; the caller says it is live.
            unsafe { self.free_own(block, layout) };
        } else {
            // SAFETY: all other blocks came from the platform's allocator.
            unsafe { System.dealloc(block, layout) };
        }
    }

    /// Frees a block that lies in the heap.
    ///
    /// # Safety
    /// The block is live, lies in this heap and has this layout.
    #[inline]
    pub(super) unsafe fn free_own(&self, block: *mut u8, layout: Layout) {
        self.counters.freed(layout.size());
        // SAFETY: the caller says so; mimalloc frees from any thread.
        unsafe { mimalloc::mi_free(block.cast()) };
    }

    /// Resizes a block that lies in the heap, within the heap; null when there is no room, the block
    /// being as before.
    ///
    /// # Safety
    /// The block is live, lies in this heap and has this layout; `bytes` is not zero and, rounded up
    /// to the layout's alignment, not above `isize::MAX`.
    pub(super) unsafe fn resize_own(
        &self,
        block: *mut u8,
        layout: Layout,
        bytes: usize,
    ) -> *mut u8 {
        let index = (block as usize - self.addresses.start) / ARENA_BYTES_MAX;
        // Pairs with the store in `publish`: the block came from this heap.
        let heap = self.heaps[index].load(Ordering::Acquire);
        // SAFETY: the caller says that the block is live and mimalloc's.
        let resized =
            unsafe { mimalloc::mi_heap_realloc_aligned(heap, block.cast(), bytes, layout.align()) };
        if !resized.is_null() {
            self.counters.allocated(bytes);
            self.counters.freed(layout.size());
            return resized.cast();
        }
        // SAFETY: the caller says that size and alignment make a layout.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let moved = self.allocate(new, false);
        if !moved.is_null() {
            // SAFETY: both blocks are live, distinct and at least as long as is copied.
            unsafe {
                moved.copy_from_nonoverlapping(block, layout.size().min(bytes));
                self.free_own(block, layout);
            }
        }
        moved
    }

    /// Resizes a block for `Allocator`, on its own tier where it has room.
    ///
    /// # Safety
    /// The block is live, came from this heap or its fallback, and has the old layout.
    pub(super) unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let in_place = old.size() > 0 && new.size() > 0 && old.align() == new.align();
        if in_place && self.contains(block.as_ptr()) {
            // SAFETY: checked above, and `new` is a layout.
            let resized = unsafe { self.resize_own(block.as_ptr(), old, new.size()) };
            if let Some(resized) = NonNull::new(resized) {
                return Ok(NonNull::slice_from_raw_parts(resized, new.size()));
            }
        }
        let moved = self.allocate_slice(new, false)?;
        // SAFETY: both blocks are live, distinct and at least as long as is copied.
        unsafe {
            let target = moved.cast::<u8>();
            target.copy_from_nonoverlapping(block, old.size().min(new.size()));
            if old.size() > 0 {
                self.free(block.as_ptr(), old);
            }
        }
        Ok(moved)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        *self.active.get_mut() = std::ptr::null_mut();
        for slot in &mut self.heaps {
            let heap = std::mem::take(slot.get_mut());
            if !heap.is_null() {
                // SAFETY: no handle is left, so that no block may be used any more.
                unsafe { thread_ends::destroy_heap(heap) };
            }
        }
        collection::collect();
        let space = self
            .space
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(space) = space {
            space.retire();
        }
    }
}

/// A block of `layout` of one of mimalloc's heaps, or null where that has no room or is null.
///
/// # Safety
/// The heap is null or live.
#[inline]
unsafe fn allocate_in(heap: *mut mimalloc::mi_heap_t, layout: Layout, zeroed: bool) -> *mut u8 {
    if heap.is_null() {
        return std::ptr::null_mut();
    }
    let (bytes, align) = (layout.size(), layout.align());
    let is_aligned = align <= BLOCK_ALIGN && align <= bytes;
    // A block of as many bytes is aligned as well, and no block with room for shifting it is needed.
    let padded_bytes = bytes.max(align);
    // SAFETY: the caller says that the heap is live; the layout's alignment is a power of two.
    let block = unsafe {
        match (is_aligned, zeroed) {
            (true, false) => mimalloc::mi_heap_malloc(heap, bytes),
            (true, true) => mimalloc::mi_heap_zalloc(heap, bytes),
            (false, false) => mimalloc::mi_heap_malloc_aligned(heap, padded_bytes, align),
            (false, true) => mimalloc::mi_heap_zalloc_aligned(heap, padded_bytes, align),
        }
    };
    block.cast()
}

/// Makes mimalloc's heap of `arena` and shows it to all threads.
fn publish(arena: &Arena, slot: &AtomicPtr<mimalloc::mi_heap_t>) -> bool {
    // SAFETY: the arena is live for ever; mimalloc makes at most one heap in it at a time.
    let heap = unsafe { mimalloc::mi_heap_new_in_arena(arena.id()) };
    slot.store(heap, Ordering::Release);
    !heap.is_null()
}
