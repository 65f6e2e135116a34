//! Guards: what a thread may be looking at is not freed.

use std::sync::atomic::{AtomicPtr, Ordering};

use seize::Guard as _;

use super::node_memory::NodeMemory;
use super::{OutOfMemory, Purpose};
use nearfar_memory::TierId;
use std::ptr::NonNull;

/// Keeps every block that was reachable when it was made, or became reachable since, from being
/// freed until it is dropped. It belongs to its thread.
#[derive(Debug)]
pub struct Guard<'m> {
    memory: &'m NodeMemory,
    inner: seize::LocalGuard<'m>,
}

impl<'m> Guard<'m> {
    pub(super) fn new(memory: &'m NodeMemory, inner: seize::LocalGuard<'m>) -> Self {
        Self { memory, inner }
    }

    /// The memory that the guard is of.
    #[must_use]
    pub fn memory(&self) -> &'m NodeMemory {
        self.memory
    }

    /// Loads a pointer to a block, which then stays valid as long as the guard.
    #[inline]
    pub fn load<T>(&self, pointer: &AtomicPtr<T>) -> *mut T {
        self.inner.protect(pointer, Ordering::Acquire)
    }

    /// A block on `tier`, or on the next farther one with room, or else a nearer one; and where it
    /// is.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    #[inline]
    pub fn allocate(
        &self,
        bytes: usize,
        tier: TierId,
        purpose: Purpose,
    ) -> Result<(NonNull<u8>, TierId), OutOfMemory> {
        self.memory.allocate_near_or_farther(bytes, tier, purpose)
    }

    /// Gives up a block that was taken out of the tree: it is freed when no guard is left that may
    /// have seen it.
    ///
    /// # Safety
    /// The block came from this memory with these `bytes`, `tier` and `purpose`, no thread can
    /// reach it any more but those that have guards already, and it is retired once.
    #[inline]
    pub unsafe fn retire(&self, block: NonNull<u8>, bytes: usize, tier: TierId, purpose: Purpose) {
        // SAFETY: the caller's promise is this function's.
        unsafe { self.memory.retire(&self.inner, block, bytes, tier, purpose) };
    }

    /// Hands what this thread has retired over to be freed as soon as nobody can see it.
    pub fn flush(&self) {
        self.inner.flush();
    }

    /// Lets go of what the guard has protected so far, and protects what is reachable now.
    pub fn refresh(&mut self) {
        self.inner.refresh();
    }
}
