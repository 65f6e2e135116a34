//! Blocks on tiers.

use std::alloc::Layout;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use nearfar_memory::{MAX_TIERS, TierHeap, TierId};
use seize::{Collector, Guard as _};

use super::account::{Account, TierLedger};
use super::block::{BLOCK_BYTES_MAX, Block, Purpose};
use super::reclaim::Guard;

/// Blocks that a thread retires before it looks whether some can be freed. Each look interrupts
/// the other processors, which must not weigh on every retirement.
const RETIRE_BATCH: usize = 256;

/// Entries that are added to a batch so that it can be handed over; with more threads active than
/// this, it may take several attempts.
const ACTIVE_THREADS_LIKELY: usize = 64;

/// A tier, and those behind it, have no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no memory for a node or value of {bytes} bytes on {tier} or farther: raise a budget, or remove \
     keys"
)]
pub struct OutOfMemory {
    /// The bytes that were asked for.
    pub bytes: usize,
    /// The tier where they were to be.
    pub tier: TierId,
}

/// Memory that blocks of a tier can come from: any allocator that threads share.
pub type BlockAllocator = Box<dyn Allocator + Send + Sync>;

/// Where blocks of one tier come from.
enum Source {
    /// The platform's allocator.
    Platform,
    /// A heap on the tier.
    Heap(TierHeap),
    /// An allocator of the caller's.
    Other(BlockAllocator),
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => formatter.write_str("Platform"),
            Self::Heap(heap) => formatter.debug_tuple("Heap").field(heap).finish(),
            Self::Other(_) => formatter.write_str("Other"),
        }
    }
}

/// What reclamation needs, at an address of its own: reclaimers get a pointer to the collector,
/// which is the first field, and find the rest from there.
#[repr(C)]
#[derive(Debug)]
struct Shared {
    collector: Collector,
    tiers: Box<[Tier]>,
}

#[derive(Debug)]
struct Tier {
    source: Source,
    account: Account,
}

/// Bytes that were taken for a block; given back on the way out without one, also where an
/// allocator panics.
struct Taken<'m> {
    account: &'m Account,
    bytes: u64,
    purpose: Purpose,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.account.give_back(self.bytes, self.purpose);
    }
}

/// Memory of nodes and values on tiers, near to far, with a budget for each.
///
/// ```
/// use nearfar_index::memory::{NodeMemory, Purpose};
/// use nearfar_memory::TierId;
///
/// let memory = NodeMemory::platform();
/// let guard = memory.enter();
/// let (block, tier) = guard.allocate(64, TierId::NEAR, Purpose::Node)?;
/// assert_eq!(memory.ledger(tier).node_bytes, 64);
/// // SAFETY: the block is nobody else's, and is what was asked for above.
/// unsafe { guard.retire(block, 64, tier, Purpose::Node) };
/// assert_eq!(memory.ledger(tier).retired_bytes, 64);
/// drop(guard);
/// memory.quiesce();
/// assert_eq!(memory.ledger(tier).used_bytes(), 0);
/// # Ok::<(), nearfar_index::memory::OutOfMemory>(())
/// ```
#[derive(Debug)]
pub struct NodeMemory {
    shared: NonNull<Shared>,
}

// SAFETY: `Shared` is owned by this handle alone and is itself `Send` and `Sync` (asserted below).
unsafe impl Send for NodeMemory {}
// SAFETY: as above.
unsafe impl Sync for NodeMemory {}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Shared>();
};

impl NodeMemory {
    /// One tier without a budget, from the platform's allocator.
    #[must_use]
    pub fn platform() -> Self {
        Self::new(vec![(Source::Platform, u64::MAX >> 1)])
    }

    /// Tiers from the platform's allocator with budgets, near to far, for tests of placement where
    /// there is one kind of memory.
    ///
    /// # Panics
    /// Without a budget, or with more than [`MAX_TIERS`].
    #[must_use]
    pub fn platform_with_budgets(budgets_bytes: &[u64]) -> Self {
        let tiers = budgets_bytes.iter();
        Self::new(tiers.map(|bytes| (Source::Platform, *bytes)).collect())
    }

    /// Heaps on tiers, near to far, each with the most bytes that this memory may take of it.
    ///
    /// # Panics
    /// Without a heap, or with more than [`MAX_TIERS`].
    #[must_use]
    pub fn on_heaps(heaps: Vec<(TierHeap, u64)>) -> Self {
        let tiers = heaps.into_iter();
        Self::new(
            tiers
                .map(|(heap, bytes)| (Source::Heap(heap), bytes))
                .collect(),
        )
    }

    /// Tiers from allocators of the caller's, near to far, each with the most bytes that this memory
    /// may take of it. Addresses must be below 2⁴⁷, as those of user space are.
    ///
    /// ```
    /// use allocator_api2::alloc::Global;
    /// use nearfar_index::memory::NodeMemory;
    ///
    /// let memory = NodeMemory::on_allocators(vec![(Box::new(Global), 1 << 20)]);
    /// assert_eq!(memory.tiers(), 1);
    /// ```
    ///
    /// # Panics
    /// Without an allocator, or with more than [`MAX_TIERS`].
    #[must_use]
    pub fn on_allocators(allocators: Vec<(BlockAllocator, u64)>) -> Self {
        let tiers = allocators.into_iter();
        Self::new(
            tiers
                .map(|(allocator, bytes)| (Source::Other(allocator), bytes))
                .collect(),
        )
    }

    fn new(tiers: Vec<(Source, u64)>) -> Self {
        assert!(
            (1..=MAX_TIERS).contains(&tiers.len()),
            "a memory has from one to {MAX_TIERS} tiers"
        );
        let tiers = tiers.into_iter().map(|(source, budget_bytes)| Tier {
            source,
            account: Account::new(budget_bytes),
        });
        let shared = Box::into_raw(Box::new(Shared {
            collector: Collector::new().batch_size(RETIRE_BATCH),
            tiers: tiers.collect(),
        }));
        // For `reclaim`, which has the address only.
        shared.expose_provenance();
        Self {
            shared: NonNull::new(shared).expect("a box is somewhere"),
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: made in `new`, freed in `drop` only, and never written to but by its own atomics.
        unsafe { self.shared.as_ref() }
    }

    /// The number of tiers.
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.shared().tiers.len()
    }

    /// The farthest tier.
    #[must_use]
    pub fn farthest(&self) -> TierId {
        TierId::from_index(self.tiers() - 1).expect("there are no more than that")
    }

    /// What is taken of a tier; nothing of one that this memory does not have.
    #[must_use]
    pub fn ledger(&self, tier: TierId) -> TierLedger {
        let tier = self.shared().tiers.get(tier.index());
        tier.map_or_else(TierLedger::default, |tier| tier.account.ledger())
    }

    /// Bytes that are taken of all tiers together: of nodes, of values, and of what is retired.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let tiers = self.shared().tiers.iter();
        tiers.map(|tier| tier.account.ledger().used_bytes()).sum()
    }

    /// Sets the most bytes that may be taken of a tier. What is there already stays.
    pub fn set_budget(&self, tier: TierId, budget_bytes: u64) {
        if let Some(tier) = self.shared().tiers.get(tier.index()) {
            tier.account.set_budget(budget_bytes);
        }
    }

    /// The addresses of a tier's blocks, where they have some of their own.
    #[must_use]
    pub fn addresses(&self, tier: TierId) -> Option<Range<usize>> {
        match &self.shared().tiers.get(tier.index())?.source {
            Source::Platform | Source::Other(_) => None,
            Source::Heap(heap) => Some(heap.addresses()),
        }
    }

    /// Begins an operation of this thread.
    #[inline]
    pub fn enter(&self) -> Guard<'_> {
        Guard::new(self, self.shared().collector.enter())
    }

    /// A block of at least `bytes` on `tier` exactly, or `None` where that has no room.
    #[inline]
    pub fn allocate_on(&self, bytes: usize, tier: TierId, purpose: Purpose) -> Option<NonNull<u8>> {
        assert!(bytes <= BLOCK_BYTES_MAX, "a block of {bytes} bytes");
        let block = Block::new(bytes, tier, purpose);
        let tier = self.shared().tiers.get(tier.index())?;
        if !tier.account.try_take(block.bytes as u64, purpose) {
            return None;
        }
        let unused = Taken {
            account: &tier.account,
            bytes: block.bytes as u64,
            purpose,
        };
        let address = tier.source.allocate(block.layout())?;
        std::mem::forget(unused);
        Some(address)
    }

    /// A block on `tier`, or on the next farther one with room, or else a nearer one; and where it
    /// is.
    ///
    /// # Errors
    /// [`OutOfMemory`]: no tier has room.
    #[inline]
    pub(super) fn allocate_near_or_farther(
        &self,
        bytes: usize,
        tier: TierId,
        purpose: Purpose,
    ) -> Result<(NonNull<u8>, TierId), OutOfMemory> {
        let wanted = tier.index();
        let order = (wanted..self.tiers()).chain((0..wanted.min(self.tiers())).rev());
        for index in order {
            let tier = TierId::from_index(index).expect("a tier of this memory");
            if let Some(block) = self.allocate_on(bytes, tier, purpose) {
                return Ok((block, tier));
            }
        }
        Err(OutOfMemory { bytes, tier })
    }

    /// Frees a block that was never published.
    ///
    /// # Safety
    /// The block came from this memory with these `bytes`, `tier` and `purpose`, nobody else knows
    /// of it, and it is freed once.
    pub unsafe fn free(&self, block: NonNull<u8>, bytes: usize, tier: TierId, purpose: Purpose) {
        let description = Block::new(bytes, tier, purpose);
        let tier = &self.shared().tiers[tier.index()];
        // SAFETY: the layout follows from the size, as at the allocation.
        unsafe { tier.source.free(block, description.layout()) };
        tier.account.give_back(description.bytes as u64, purpose);
    }

    /// As [`Guard::retire`], whose promise it needs.
    #[inline]
    pub(super) unsafe fn retire(
        &self,
        guard: &seize::LocalGuard<'_>,
        block: NonNull<u8>,
        bytes: usize,
        tier: TierId,
        purpose: Purpose,
    ) {
        let description = Block::new(bytes, tier, purpose);
        let account = &self.shared().tiers[tier.index()].account;
        account.retire(description.bytes as u64, purpose);
        let tagged = description.tag(block.as_ptr());
        // SAFETY: the caller has unlinked the block; `reclaim` takes the tagged pointer apart.
        unsafe { guard.defer_retire(tagged, reclaim) };
    }

    /// Frees what this thread has retired and nobody can see any more.
    ///
    /// What other threads have retired since they last filled a batch stays with them.
    pub fn quiesce(&self) {
        let guard = self.shared().collector.enter();
        // A batch is handed over once it has an entry for every active thread.
        for _ in 0..ACTIVE_THREADS_LIKELY {
            // SAFETY: `nothing` ignores its pointer.
            unsafe { guard.defer_retire(NonNull::<u8>::dangling().as_ptr(), nothing) };
        }
        guard.flush();
    }
}

impl Drop for NodeMemory {
    fn drop(&mut self) {
        let shared = self.shared.as_ptr();
        // SAFETY: no guard is left, since guards borrow `self`; the tree that owned the blocks has
        // given up all that it had.
        unsafe { (*shared).collector.reclaim_all() };
        // SAFETY: made by `Box::into_raw` in `new`, and freed once.
        drop(unsafe { Box::from_raw(shared) });
    }
}

/// Reclaims nothing.
unsafe fn nothing(_pointer: *mut u8, _collector: &Collector) {}

/// Frees a retired block.
///
/// # Safety
/// `tagged` comes from [`Block::tag`] for a block of the memory whose collector this is, and nobody
/// can see the block.
unsafe fn reclaim(tagged: *mut u8, collector: &Collector) {
    let (address, block) = Block::untag(tagged);
    // SAFETY: the collector is the first field of a `Shared` whose provenance was exposed, and
    // which lives as long as the collector.
    let shared = unsafe {
        &*std::ptr::with_exposed_provenance::<Shared>(std::ptr::from_ref(collector).addr())
    };
    let tier = &shared.tiers[block.tier.index()];
    if let Some(address) = NonNull::new(address) {
        // SAFETY: the block came from this source with this layout, and is freed once.
        unsafe { tier.source.free(address, block.layout()) };
    }
    tier.account.reclaim(block.bytes as u64);
}

impl Source {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self {
            // SAFETY: blocks have at least one unit.
            Self::Platform => NonNull::new(unsafe { std::alloc::alloc(layout) }),
            Self::Heap(heap) => heap.allocate(layout).ok().map(NonNull::cast),
            Self::Other(allocator) => allocator.allocate(layout).ok().map(NonNull::cast),
        }
    }

    /// # Safety
    /// The block is live and came from here with this layout.
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        match self {
            // SAFETY: the caller says so.
            Self::Platform => unsafe { std::alloc::dealloc(block.as_ptr(), layout) },
            // SAFETY: the caller says so.
            Self::Heap(heap) => unsafe { heap.deallocate(block, layout) },
            // SAFETY: the caller says so.
            Self::Other(allocator) => unsafe { allocator.deallocate(block, layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tier_sends_blocks_farther_and_says_where() {
        let memory = NodeMemory::platform_with_budgets(&[128, 64]);
        let guard = memory.enter();
        let far = TierId::from_index(1).unwrap();
        let mut blocks = Vec::new();
        for expected in [TierId::NEAR, TierId::NEAR, far] {
            let (block, tier) = guard.allocate(64, TierId::NEAR, Purpose::Node).unwrap();
            assert_eq!(tier, expected);
            blocks.push((block, tier));
        }
        let error = guard.allocate(64, TierId::NEAR, Purpose::Node).unwrap_err();
        assert_eq!((error.bytes, error.tier), (64, TierId::NEAR));
        for (block, tier) in blocks {
            // SAFETY: never published, and as it was allocated.
            unsafe { memory.free(block, 64, tier, Purpose::Node) };
        }
        assert_eq!(memory.ledger(TierId::NEAR).used_bytes(), 0);
    }

    #[test]
    fn retired_blocks_count_until_they_are_free() {
        let memory = NodeMemory::platform_with_budgets(&[64]);
        let looking = memory.enter();
        let (block, tier) = looking.allocate(50, TierId::NEAR, Purpose::Value).unwrap();
        assert_eq!(memory.ledger(tier).value_bytes, 56, "in whole units");
        // SAFETY: as it was allocated, and nobody else knows of it.
        unsafe { looking.retire(block, 50, tier, Purpose::Value) };
        memory.quiesce();
        assert_eq!(
            memory.ledger(tier).retired_bytes,
            56,
            "somebody may be looking"
        );
        assert!(memory.allocate_on(64, tier, Purpose::Node).is_none());
        drop(looking);
        memory.quiesce();
        assert_eq!(memory.ledger(tier).used_bytes(), 0);
    }

    #[test]
    fn a_single_block_is_freed_while_others_are_active_on_later_blocks() {
        let memory = NodeMemory::platform();
        let (block, tier) = {
            let guard = memory.enter();
            guard.allocate(64, TierId::NEAR, Purpose::Node).unwrap()
        };
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let guard = memory.enter();
            // SAFETY: as it was allocated, and nobody else knows of it.
            unsafe { guard.retire(block, 64, tier, Purpose::Node) };
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut guard = memory.enter();
                    barrier.wait();
                    barrier.wait();
                    guard.refresh();
                    barrier.wait();
                    barrier.wait();
                });
            }
            barrier.wait();
            drop(guard);
            memory.quiesce();
            assert_eq!(
                memory.ledger(tier).retired_bytes,
                64,
                "they may have seen it"
            );
            barrier.wait();
            barrier.wait();
            memory.quiesce();
            assert_eq!(
                memory.ledger(tier).retired_bytes,
                0,
                "they look at later blocks only"
            );
            barrier.wait();
        });
    }

    #[test]
    fn what_is_retired_at_the_end_is_freed_with_the_memory() {
        let memory = NodeMemory::platform();
        let guard = memory.enter();
        for _ in 0..10 {
            let (block, tier) = guard.allocate(4096, TierId::NEAR, Purpose::Node).unwrap();
            // SAFETY: as it was allocated, and nobody else knows of it.
            unsafe { guard.retire(block, 4096, tier, Purpose::Node) };
        }
    }
}
