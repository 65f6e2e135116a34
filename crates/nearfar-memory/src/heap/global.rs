//! The global allocator that follows the thread's tier.
//!
//! All heaps of the global allocator lie in one window of address space, one slot per tier, so that
//! a block's tier follows from its address:
//!
//! ```text
//! base          base + slot     base + 2 slots
//! | near, if mimalloc | tier 1 ......... | tier 2 ......... |      everything else: the platform's
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::HeapError;
use super::arena::ARENA_ALIGN;
use super::blocks::Heap;
use super::near::{self, NearHeap};
use super::space::{Space, map_for_heaps, reserve_bytes};
use super::thread_tier::ThreadTier;
use super::tier_heap::{Exhaustion, HeapOptions};
use crate::system::MemorySystem;
use crate::tier::{MAX_TIERS, TierId};

/// Which heaps the global allocator is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GlobalHeaps {
    /// What serves the near tier, and every tier without a heap.
    pub near: NearHeap,
    /// Ask for transparent huge pages on the other tiers.
    pub huge_pages: bool,
}

/// A global allocator that takes blocks from the heap of the thread's tier ([`ThreadTier`]).
///
/// Until [`Self::install`], and on a tier without a heap, it is the platform's allocator. A block may
/// be freed on any thread and under any tier. A block that is resized stays on its own tier,
/// whichever the thread's is. A block that its tier has no room for is taken from the platform's
/// allocator instead, since few programs survive a failed allocation; the tier counts it
/// ([`TierUsage::fallbacks`](crate::TierUsage::fallbacks)).
///
/// ```no_run
/// use nearfar_memory::NearfarAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: NearfarAllocator = NearfarAllocator;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct NearfarAllocator;

/// The heap of each tier; null where there is none. Heaps live for ever.
static HEAPS: [AtomicPtr<Heap>; MAX_TIERS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_TIERS];
/// Where the window begins, its size and that of a slot as a power of two. Until the size is
/// written, which comes last, no block lies in the window.
static WINDOW_BASE: AtomicUsize = AtomicUsize::new(0);
static WINDOW_BYTES: AtomicUsize = AtomicUsize::new(0);
static SLOT_SHIFT: AtomicUsize = AtomicUsize::new(0);

impl NearfarAllocator {
    /// Gives every tier that the kernel can allocate on its heap in the global allocator, for the
    /// rest of the process's life, each reserving address space of its tier's capacity. DAX devices get
    /// none.
    ///
    /// A tier stays without a heap where its budget has no room for an empty heap's records, where
    /// the process may not reserve the address space (`vm.overcommit_memory` of 2, `RLIMIT_AS`) or
    /// bind it; the log says so.
    ///
    /// To be called at the start of the program: with [`NearHeap::Platform`], threads that already
    /// run keep what the platform's allocator gave them. It has no effect on allocations in a
    /// program that has another global allocator.
    ///
    /// # Errors
    /// [`HeapError::Installed`] after the first time.
    pub fn install(system: &Arc<MemorySystem>, heaps: GlobalHeaps) -> Result<(), HeapError> {
        static INSTALLED: Mutex<bool> = Mutex::new(false);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *installed, true) {
            return Err(HeapError::Installed);
        }
        let wanted: Vec<(TierId, bool)> = system
            .tiers()
            .filter(|(_, info)| info.has_nodes())
            .filter_map(|(tier, _)| match (tier, heaps.near) {
                (TierId::NEAR, NearHeap::Platform) => None,
                (TierId::NEAR, NearHeap::Mimalloc { huge_pages }) => Some((tier, huge_pages)),
                _ => Some((tier, heaps.huge_pages)),
            })
            .collect();
        install_heaps(system, &wanted);
        // As was asked for, or since there is no address space for another.
        if HEAPS[TierId::NEAR.index()]
            .load(Ordering::Relaxed)
            .is_null()
        {
            near::keep_freed_memory();
        }
        Ok(())
    }
}

fn install_heaps(system: &Arc<MemorySystem>, wanted: &[(TierId, bool)]) {
    let reserve = |tier: TierId| reserve_bytes(system, tier, HeapOptions::default());
    let Some(largest) = wanted
        .iter()
        .map(|(tier, _)| *tier)
        .max_by_key(|tier| reserve(*tier))
    else {
        return;
    };
    let slot_bytes = reserve(largest).next_power_of_two();
    let last = wanted
        .iter()
        .map(|(tier, _)| tier.index())
        .max()
        .unwrap_or(0);
    let window_bytes = slot_bytes.saturating_mul(last + 1);
    let map = match map_for_heaps(system, largest, window_bytes, ARENA_ALIGN) {
        Ok(map) => Arc::new(map),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what queries allocate is not put on tiers");
            return;
        }
    };
    SLOT_SHIFT.store(slot_bytes.trailing_zeros() as usize, Ordering::Relaxed);
    WINDOW_BASE.store(map.addresses().start, Ordering::Relaxed);
    // Pairs with the load in `heap_of`: whoever sees the size sees the other two.
    WINDOW_BYTES.store(window_bytes, Ordering::Release);
    // The window stays mapped even if no heap comes to lie in it, since it has been announced.
    std::mem::forget(Arc::clone(&map));
    for &(tier, huge_pages) in wanted {
        let start = tier.index() * slot_bytes;
        let range = start..start + reserve(tier);
        let options = HeapOptions {
            huge_pages,
            ..HeapOptions::default()
        };
        let heap = Space::new(system, tier, Arc::clone(&map), range, options)
            .and_then(|space| Heap::new(system, tier, Exhaustion::Spill, space));
        match heap {
            // Pairs with the loads of the allocator below.
            Ok(heap) => HEAPS[tier.index()].store(Box::into_raw(Box::new(heap)), Ordering::Release),
            // What a small budget is for.
            Err(error @ HeapError::Arena { .. }) => tracing::debug!(%error, "a tier has no heap"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "what queries allocate is not put on a tier");
            }
        }
    }
}

/// The heap that the thread's tier has, if any.
#[inline]
fn current_heap() -> Option<&'static Heap> {
    // Pairs with the store in `install_heaps`.
    let heap = HEAPS[ThreadTier::current().index()].load(Ordering::Acquire);
    // SAFETY: the pointer is null or of a heap that was leaked when it was stored.
    unsafe { heap.as_ref() }
}

/// The heap that `block` lies in, if it lies in the window.
#[inline]
fn heap_of(block: *mut u8) -> Option<&'static Heap> {
    // Pairs with the store in `install_heaps`.
    let window_bytes = WINDOW_BYTES.load(Ordering::Acquire);
    let offset = (block as usize).wrapping_sub(WINDOW_BASE.load(Ordering::Relaxed));
    if offset >= window_bytes {
        return None;
    }
    // Pairs with the store in `install_heaps`.
    let heap = HEAPS[offset >> SLOT_SHIFT.load(Ordering::Relaxed)].load(Ordering::Acquire);
    // SAFETY: as in `current_heap`.
    unsafe { heap.as_ref() }
}

#[inline]
fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some(heap) = current_heap() else {
        // SAFETY: the caller of the allocator says that the size is not zero.
        return unsafe {
            if zeroed {
                System.alloc_zeroed(layout)
            } else {
                System.alloc(layout)
            }
        };
    };
    let block = heap.allocate(layout, zeroed);
    if block.is_null() {
        heap.fall_back(layout, zeroed)
    } else {
        block
    }
}

// Not to be inlined into the program, which may be built for size where this crate is built for speed.
// SAFETY: blocks come from a heap that lives for ever or from the platform's allocator, with the
// size and alignment asked for; which of the two follows from the address, so that each is freed and
// resized where it came from. Nothing here panics or allocates through the global allocator, but for
// the making of an arena, which does so under the near tier and behind a lock that is only tried.
unsafe impl GlobalAlloc for NearfarAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate(layout, true)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match heap_of(block) {
            // SAFETY: the caller says that the block is live and has this layout.
            Some(heap) => unsafe { heap.free_own(block, layout) },
            // SAFETY: as above; blocks outside of the window are the platform's.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Some(heap) = heap_of(block) else {
            // SAFETY: the caller says that the block is live, has this layout, and that the new size
            // is one; blocks outside of the window are the platform's.
            return unsafe { System.realloc(block, layout, bytes) };
        };
        // SAFETY: as above; the block lies in the heap.
        let resized = unsafe { heap.resize_own(block, layout, bytes) };
        if !resized.is_null() {
            return resized;
        }
        // SAFETY: the caller says that size and alignment make a layout.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let moved = heap.fall_back(new, false);
        if !moved.is_null() {
            // SAFETY: both blocks are live, distinct and at least as long as is copied.
            unsafe {
                moved.copy_from_nonoverlapping(block, layout.size().min(bytes));
                heap.free_own(block, layout);
            }
        }
        moved
    }
}
