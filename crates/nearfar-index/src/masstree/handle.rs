//! Nodes as operations hold them: handles, locks, and the step from a pointer to its node.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::leaf::{LEAF_BYTES, Leaf};
use super::node::{INNER_BYTES, Inner, Node};
use crate::context::Context;
use crate::lock::{OptimisticLock, Version};
use crate::memory::{NodeMemory, OutOfMemory, Purpose};
use crate::placement::{Frontend, NewNode};
use crate::prefetch::{LINE_BYTES, prefetch_line};

/// Bytes of the larger kind of node: which one it is, is not known before it is there.
pub(super) const NODE_BYTES_MAX: usize = if INNER_BYTES > LEAF_BYTES {
    INNER_BYTES
} else {
    LEAF_BYTES
};

/// What was read is of no use: somebody wrote meanwhile. The operation begins again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restart;

/// Why a change was not made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failure {
    Restart,
    OutOfMemory(OutOfMemory),
}

impl From<Restart> for Failure {
    fn from(_: Restart) -> Self {
        Self::Restart
    }
}

impl From<OutOfMemory> for Failure {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// A node that is there as long as the guard that is borrowed for `'g`.
#[derive(Debug)]
pub(super) struct At<'g, N> {
    pointer: NonNull<N>,
    guard: PhantomData<&'g N>,
}

impl<N> Clone for At<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for At<'_, N> {}

impl<N> Deref for At<'_, N> {
    type Target = N;

    #[inline(always)]
    fn deref(&self) -> &N {
        self.get()
    }
}

impl<'g, N> At<'g, N> {
    /// # Safety
    /// The pointer came from [`Allocation`], and its node is not freed for `'g`.
    #[inline(always)]
    pub(super) unsafe fn new(pointer: *mut N) -> Self {
        Self {
            // SAFETY: the caller says that there is a node.
            pointer: unsafe { NonNull::new_unchecked(pointer) },
            guard: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn get(self) -> &'g N {
        // SAFETY: the node is there for `'g` (`Self::new`), and is changed by its atomics only.
        unsafe { self.pointer.as_ref() }
    }

    /// The pointer for others to find the node by.
    #[inline(always)]
    pub(super) fn pointer(self) -> *mut Node {
        self.pointer.as_ptr().cast()
    }
}

/// What a node is.
pub(super) enum Kind<'g> {
    Leaf(At<'g, Leaf>),
    Inner(At<'g, Inner>),
}

impl<'g> At<'g, Node> {
    #[inline(always)]
    pub(super) fn kind(self) -> Kind<'g> {
        // SAFETY: a node of height zero was made as a leaf, any other as an inner node
        // (`Allocation::leaf`, `Allocation::inner`).
        unsafe {
            if self.is_leaf() {
                Kind::Leaf(At::new(self.pointer.as_ptr().cast()))
            } else {
                Kind::Inner(At::new(self.pointer.as_ptr().cast()))
            }
        }
    }

    /// Gives up a node that was taken out of its tree: marks it as obsolete and leaves it to
    /// reclamation.
    ///
    /// # Safety
    /// `locked` is the node's lock. Nobody can reach the node any more but those that have guards
    /// already, and it is given up once.
    pub(super) unsafe fn retire<P: Probe>(
        self,
        locked: Locked<'_, P>,
        context: &Context<'_, '_, P>,
    ) {
        let (bytes, tier) = (bytes_of(&self), self.tier);
        context.probe.write(self.pointer.as_ptr().addr(), 8);
        locked.obsolete();
        let block = self.pointer.cast();
        // SAFETY: the caller's promise; size, tier and purpose are those of `Allocation`.
        unsafe { context.guard.retire(block, bytes, tier, Purpose::Node) };
    }
}

/// Bytes of a node's block.
pub(super) fn bytes_of(node: &Node) -> usize {
    if node.is_leaf() {
        LEAF_BYTES
    } else {
        INNER_BYTES
    }
}

/// Frees a node that nobody can reach.
///
/// # Safety
/// As [`NodeMemory::free`], for a node that came from [`Allocation`].
pub(super) unsafe fn free_node(node: *mut Node, memory: &NodeMemory) {
    // SAFETY: the node is there until it is freed here.
    let (bytes, tier) = unsafe { (bytes_of(&*node), (*node).tier) };
    if let Some(block) = NonNull::new(node.cast::<u8>()) {
        // SAFETY: the caller's promise; size, tier and purpose are those of `Allocation`.
        unsafe { memory.free(block, bytes, tier, Purpose::Node) };
    }
}

/// A node that is not in a tree yet; it is freed unless it is published.
#[derive(Debug)]
pub(super) struct Allocation<'m, N> {
    node: NonNull<N>,
    memory: &'m NodeMemory,
}

impl<'m> Allocation<'m, Leaf> {
    /// A leaf at `level` below a node on `parent`.
    pub(super) fn leaf<P: Probe>(
        context: &Context<'m, '_, P>,
        frontend: &Frontend,
        level: u32,
        parent: TierId,
        uses: u16,
    ) -> Result<Self, OutOfMemory> {
        let wanted = NewNode {
            level,
            is_leaf: true,
            parent,
            bytes: LEAF_BYTES,
        };
        let tier = frontend.tier_for(wanted);
        let (block, tier) = context.guard.allocate(LEAF_BYTES, tier, Purpose::Node)?;
        Ok(Self::make(block, Leaf::new(tier, uses), context))
    }

    /// A leaf on `tier` exactly.
    pub(super) fn leaf_on<P: Probe>(
        context: &Context<'m, '_, P>,
        tier: TierId,
        uses: u16,
    ) -> Option<Self> {
        let memory = context.guard.memory();
        let block = memory.allocate_on(LEAF_BYTES, tier, Purpose::Node)?;
        Some(Self::make(block, Leaf::new(tier, uses), context))
    }
}

impl<'m> Allocation<'m, Inner> {
    /// An inner node at `level` below a node on `parent`.
    pub(super) fn inner<P: Probe>(
        context: &Context<'m, '_, P>,
        frontend: &Frontend,
        level: u32,
        parent: TierId,
        height: u8,
    ) -> Result<Self, OutOfMemory> {
        let wanted = NewNode {
            level,
            is_leaf: false,
            parent,
            bytes: INNER_BYTES,
        };
        let tier = frontend.tier_for(wanted);
        let (block, tier) = context.guard.allocate(INNER_BYTES, tier, Purpose::Node)?;
        Ok(Self::make(block, Inner::new(tier, height), context))
    }

    /// An inner node on `tier` exactly.
    pub(super) fn inner_on<P: Probe>(
        context: &Context<'m, '_, P>,
        tier: TierId,
        height: u8,
    ) -> Option<Self> {
        let memory = context.guard.memory();
        let block = memory.allocate_on(INNER_BYTES, tier, Purpose::Node)?;
        Some(Self::make(block, Inner::new(tier, height), context))
    }
}

impl<'m, N> Allocation<'m, N> {
    fn make<P: Probe>(block: NonNull<u8>, node: N, context: &Context<'m, '_, P>) -> Self {
        let place = block.cast::<N>();
        // SAFETY: the block has room for the node, is aligned to it, and is nobody else's yet.
        unsafe { place.write(node) };
        context.probe.write(block.as_ptr().addr(), size_of::<N>());
        Self {
            node: place,
            memory: context.guard.memory(),
        }
    }

    /// The node's pointer, for others that are not published either.
    pub(super) fn pointer(&self) -> *mut Node {
        self.node.as_ptr().cast()
    }

    /// Leaves the node to the tree, and returns its pointer.
    pub(super) fn publish(self) -> *mut Node {
        let pointer = self.pointer();
        std::mem::forget(self);
        pointer
    }
}

impl<N> Deref for Allocation<'_, N> {
    type Target = N;

    fn deref(&self) -> &N {
        // SAFETY: the node was made in `Self::make` and is freed in `drop` only.
        unsafe { self.node.as_ref() }
    }
}

impl<N> Drop for Allocation<'_, N> {
    fn drop(&mut self) {
        // SAFETY: it came from `Self::make` and was not published.
        unsafe { free_node(self.pointer(), self.memory) };
    }
}

/// The holder of a lock, which lets go of it as if nothing had been written unless it is told
/// otherwise.
#[derive(Debug)]
pub(super) struct Locked<'l, P: Probe> {
    lock: &'l OptimisticLock,
    context: &'l Context<'l, 'l, P>,
}

impl<'l, P: Probe> Locked<'l, P> {
    /// Takes the lock if nobody wrote since `version`.
    #[inline]
    pub(super) fn new(
        lock: &'l OptimisticLock,
        version: Version,
        context: &'l Context<'_, '_, P>,
    ) -> Result<Self, Restart> {
        if context.try_lock(lock, version) {
            Ok(Self { lock, context })
        } else {
            Err(Restart)
        }
    }

    /// Lets go after something was written that readers must not mix with what was there before.
    #[inline]
    pub(super) fn changed(self) {
        self.context.unlock(self.lock);
        std::mem::forget(self);
    }

    fn obsolete(self) {
        self.context.unlock_obsolete(self.lock);
        std::mem::forget(self);
    }
}

impl<P: Probe> Drop for Locked<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.context.unlock_unchanged(self.lock);
    }
}

/// Goes from a pointer to its node: the pointer was loaded from what `lock` protects since
/// `version`. What is read in the node means something if the version that comes back is validated
/// afterwards; the key sought then belongs below the node. Its `bytes` say
/// how much of it is still to be asked for.
#[inline(always)]
pub(super) fn enter<'g, P: Probe>(
    context: &'g Context<'_, '_, P>,
    pointer: *mut Node,
    lock: &OptimisticLock,
    version: Version,
    bytes: usize,
) -> Result<(At<'g, Node>, Version), Restart> {
    if !lock.validate(version) {
        return Err(Restart);
    }
    prefetch_end(pointer, bytes, context);
    // SAFETY: the lock says that the pointer was in the tree after the guard was made, so the node
    // is not freed as long as the guard is there.
    let node = unsafe { At::new(pointer) };
    let lock_of_node = &node.get().lock;
    let own = lock_of_node.read(|| context.waiting(lock_of_node));
    let Ok(own) = own else {
        return Err(Restart);
    };
    // The node may have been split between the load of the pointer and that of its version.
    if !context.validate(lock, version) {
        return Err(Restart);
    }
    Ok((node, own))
}

/// Asks for those lines of a node whose addresses a search knows only once it has searched the
/// first two.
#[inline(always)]
fn prefetch_end<P: Probe>(node: *const Node, bytes: usize, context: &Context<'_, '_, P>) {
    let start = node.cast::<u8>();
    if bytes > 2 * LINE_BYTES {
        let end = start.addr() + 2 * LINE_BYTES;
        context.probe.prefetch(end, bytes - 2 * LINE_BYTES);
    }
    for line in 2..NODE_BYTES_MAX / LINE_BYTES {
        if line * LINE_BYTES < bytes {
            prefetch_line(start.wrapping_add(line * LINE_BYTES));
        }
    }
}
