//! A node owned by a tree that locks.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use nearfar_memory::TierId;

use super::block::BLOCK_BYTES_MAX;
use super::{NodeMemory, OutOfMemory, Purpose};

/// A value in a block on a tier, as a `Box` is on the heap: for trees whose readers take locks, so
/// that a node can be freed where it is unlinked. Dropping it frees the block.
///
/// ```
/// use std::sync::Arc;
/// use nearfar_index::memory::{NodeBox, NodeMemory};
/// use nearfar_memory::TierId;
///
/// let memory = Arc::new(NodeMemory::platform_with_budgets(&[64, 4096]));
/// let far = memory.farthest();
/// let mut node = NodeBox::new(&memory, [1_u64; 8], TierId::NEAR)?;
/// let refused = NodeBox::new_on(&memory, [2_u64; 8], TierId::NEAR);
/// assert!(refused.is_err(), "the near tier is full");
/// node.move_to(far)?;
/// assert_eq!((node.tier(), node[0]), (far, 1));
/// assert_eq!(memory.ledger(TierId::NEAR).used_bytes(), 0);
/// # Ok::<(), nearfar_index::memory::OutOfMemory>(())
/// ```
pub struct NodeBox<T> {
    block: NonNull<T>,
    tier: TierId,
    memory: Arc<NodeMemory>,
    owns: PhantomData<T>,
}

// SAFETY: a box owns its value, which may be sent and shared as the value itself may.
unsafe impl<T: Send> Send for NodeBox<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for NodeBox<T> {}

impl<T> NodeBox<T> {
    /// Bytes of the block.
    const BYTES: usize = {
        // Blocks of any size are aligned to 8 bytes at least.
        assert!(align_of::<T>() <= 8 && size_of::<T>() <= BLOCK_BYTES_MAX);
        size_of::<T>()
    };

    /// Puts a value on a tier, or farther where that is full.
    ///
    /// # Errors
    /// [`OutOfMemory`]: no tier has room.
    pub fn new(memory: &Arc<NodeMemory>, value: T, tier: TierId) -> Result<Self, OutOfMemory> {
        let allocated = memory.allocate_near_or_farther(Self::BYTES, tier, Purpose::Node)?;
        Ok(Self::fill(memory, value, allocated))
    }

    /// Puts a value on exactly this tier.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the tier has no room.
    pub fn new_on(memory: &Arc<NodeMemory>, value: T, tier: TierId) -> Result<Self, OutOfMemory> {
        let block = Self::block_on(memory, tier)?;
        Ok(Self::fill(memory, value, (block, tier)))
    }

    fn block_on(memory: &NodeMemory, tier: TierId) -> Result<NonNull<u8>, OutOfMemory> {
        let bytes = Self::BYTES;
        let block = memory.allocate_on(bytes, tier, Purpose::Node);
        block.ok_or(OutOfMemory { bytes, tier })
    }

    fn fill(memory: &Arc<NodeMemory>, value: T, (block, tier): (NonNull<u8>, TierId)) -> Self {
        let block = block.cast::<T>();
        // SAFETY: the block has room for the value, is aligned to it (see `BYTES`), and is nobody
        // else's.
        unsafe { block.write(value) };
        Self {
            block,
            tier,
            memory: Arc::clone(memory),
            owns: PhantomData,
        }
    }

    /// Where the value lies.
    #[must_use]
    pub fn tier(&self) -> TierId {
        self.tier
    }

    /// Bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> usize {
        Self::BYTES
    }

    /// Moves the value to exactly this tier.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the tier has no room; the value stays where it is.
    pub fn move_to(&mut self, tier: TierId) -> Result<(), OutOfMemory> {
        let block = Self::block_on(&self.memory, tier)?.cast::<T>();
        // SAFETY: both blocks hold a `T`, the new one is nobody else's, and the old value is not
        // used or dropped again.
        unsafe { block.copy_from_nonoverlapping(self.block, 1) };
        self.free();
        (self.block, self.tier) = (block, tier);
        Ok(())
    }

    /// Frees the block, whose value is gone.
    fn free(&mut self) {
        let block = self.block.cast::<u8>();
        // SAFETY: the block came from this memory as described, only this box knew of it, and its
        // callers give it up.
        unsafe {
            self.memory
                .free(block, Self::BYTES, self.tier, Purpose::Node)
        };
    }
}

impl<T> Deref for NodeBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the box owns its value, which lives as long.
        unsafe { self.block.as_ref() }
    }
}

impl<T> DerefMut for NodeBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the box is borrowed alone.
        unsafe { self.block.as_mut() }
    }
}

impl<T> Drop for NodeBox<T> {
    fn drop(&mut self) {
        // SAFETY: the box owns its value, and drops it once.
        unsafe { self.block.drop_in_place() };
        self.free();
    }
}

impl<T: fmt::Debug> fmt::Debug for NodeBox<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("NodeBox");
        fields
            .field("tier", &self.tier)
            .field("value", &**self)
            .finish()
    }
}
