//! A heap on one tier.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator, Layout};

use super::HeapError;
use super::blocks::Heap;
use super::space::Space;
use crate::system::MemorySystem;
use crate::tier::TierId;

/// What a heap does when its tier has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exhaustion {
    /// Fail the allocation.
    #[default]
    Refuse,
    /// Take the block from the platform's allocator instead, and count it
    /// ([`TierUsage::fallbacks`](crate::TierUsage::fallbacks)).
    Spill,
}

/// How a heap is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapOptions {
    /// Address space to reserve, which bounds the heap; the tier's capacity by default, and on a DAX
    /// device what is left of its budget. It is rounded up to 32 MiB. Only what is used is charged to
    /// the budget, but on a DAX device all of it.
    pub reserve_bytes: Option<usize>,
    /// What to do when the tier has no room.
    pub exhaustion: Exhaustion,
    /// Ask for transparent huge pages.
    pub huge_pages: bool,
    /// Let the kernel's automatic balancing move pages to the tier's nodes (Linux 6.9), as
    /// [`KernelTiering`](crate::kernel_tiering::KernelTiering) has it do. All of them are charged to the tier, wherever
    /// they are. A DAX device's do not move.
    pub kernel_moves: bool,
}

/// A general-purpose heap on one tier, for containers that take an allocator.
///
/// Clones share the heap; it ends with the last of them, so that a block never outlives its heap.
/// Blocks may be freed on any thread. Its bytes (blocks, free or not, and mimalloc's records) are
/// charged to the tier's budget in steps of 64 KiB; freed memory is kept for the next block until a
/// budget runs out or [`Self::trim`] is called. Pages come from the tier's nodes as long as these
/// have memory, and then from others, still charged to the tier.
///
/// On a DAX device ([`TierBackend::Dax`](crate::TierBackend::Dax)) a heap takes all that it reserves when
/// it is made, and it is charged then. Its part of the device stays charged when the heap has ended, and
/// goes to the next heap of this tier that reserves as much, or does not say how much: the allocator never
/// gives up an arena.
#[derive(Clone)]
pub struct TierHeap {
    heap: Arc<Heap>,
}

impl fmt::Debug for TierHeap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TierHeap")
            .field("tier", &self.heap.tier())
            .finish_non_exhaustive()
    }
}

impl TierHeap {
    /// A heap on `tier`.
    ///
    /// # Errors
    /// [`HeapError`]: no memory nodes, no address space, a budget too small for an empty heap's
    /// records (about 1/500 of what is reserved, at most 25 MiB at first).
    pub fn new(
        system: &Arc<MemorySystem>,
        tier: TierId,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        let space = Space::retired_or_new(system, tier, options)?;
        Ok(Self {
            heap: Arc::new(Heap::new(system, tier, options.exhaustion, space)?),
        })
    }

    /// The tier of the heap.
    #[must_use]
    pub fn tier(&self) -> TierId {
        self.heap.tier()
    }

    /// The addresses of the heap's own memory.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.heap.addresses()
    }

    /// Whether `address` lies in the heap's own memory, as opposed to that of a spilled block.
    #[must_use]
    pub fn contains(&self, address: *const u8) -> bool {
        self.heap.contains(address)
    }

    /// Gives freed memory that no thread holds on to back to the tier. Affects all tier heaps.
    pub fn trim(&self) {
        self.heap.collect();
    }
}

// SAFETY: blocks come from the heap's own mimalloc heaps or from the platform's allocator and stay
// valid until they are freed, or until the last clone of the handle is dropped; which of the two a
// block came from follows from its address, so any clone can free it, on any thread.
unsafe impl Allocator for TierHeap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.heap.allocate_slice(layout, false)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.heap.allocate_slice(layout, true)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller says that the block is live, came from here and has this layout.
            unsafe { self.heap.free(block.as_ptr(), layout) };
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller says that the block is live, came from here and has the old layout.
        unsafe { self.heap.resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as in `grow`.
        unsafe { self.heap.resize(block, old, new) }
    }
}
