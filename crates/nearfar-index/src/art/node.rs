//! Inner nodes: their layout, birth and end.
//!
//! ```text
//! byte 0      8       10       12     13    14    16
//! | lock     | count | prefix | tier | end | used | keys or index | slots | end slot? | prefix? |
//! ```
//!
//! | kind | keys | slots | bytes |
//! |---|---|---|---|
//! | `Small5` | 5 in order, a word | 5 | 64 |
//! | `Small16` | 16 in order, two words | 16 | 160 |
//! | `Indexed` | a byte for each of 256: slot number plus one | 46 | 640 |
//! | `Direct` | none: the byte is the slot's number | 256 | 2064 |
//!
//! The *end slot* holds the leaf of the key that ends at this node. Only nodes that need one have
//! it. The prefix, the bytes that all keys below share after those on the way here, never changes,
//! nor does the kind: a node that needs another one is replaced by a copy.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::child::{Child, Slot};
use crate::context::Context;
use crate::lock::{Obsolete, OptimisticLock};
use crate::memory::{NodeMemory, OutOfMemory, Purpose};

/// How a node finds a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Small5,
    Small16,
    Indexed,
    Direct,
}

/// Bytes before keys or slots.
pub(super) const HEADER_BYTES: usize = 16;
/// Slots of an indexed node: as many as make it 640 bytes, a size that allocators have.
pub(super) const INDEXED_SLOTS: usize = 46;

impl Kind {
    /// The most children, without the end.
    pub(super) const fn capacity(self) -> usize {
        match self {
            Self::Small5 => 5,
            Self::Small16 => 16,
            Self::Indexed => INDEXED_SLOTS,
            Self::Direct => 256,
        }
    }

    /// The smallest kind with room for `children`.
    pub(super) fn with_room(children: usize) -> Self {
        let kinds = [Self::Small5, Self::Small16, Self::Indexed];
        let fitting = kinds.into_iter().find(|kind| children <= kind.capacity());
        fitting.unwrap_or(Self::Direct)
    }

    /// The kind that a node with `children` left should have: a smaller one only where there is
    /// room to grow again.
    pub(super) fn after_removal(self, children: usize) -> Self {
        let smaller = Self::with_room(children + children / 4 + 1);
        if smaller.capacity() < self.capacity() {
            smaller
        } else {
            self
        }
    }

    /// Bytes of keys or index.
    const fn keys_bytes(self) -> usize {
        match self {
            Self::Small5 => 8,
            Self::Small16 => 16,
            Self::Indexed => 256,
            Self::Direct => 0,
        }
    }

    pub(super) const fn slots_at(self) -> usize {
        HEADER_BYTES + self.keys_bytes()
    }

    /// Where the end slot stands, if there is one, and the prefix otherwise.
    const fn tail_at(self) -> usize {
        self.slots_at() + 8 * self.capacity()
    }
}

const _: () = assert!(Kind::Small5.tail_at() == 64 && Kind::Small16.tail_at() == 160);
const _: () = assert!(Kind::Indexed.tail_at() == 640 && Kind::Direct.tail_at() == 2064);

#[repr(C)]
pub(super) struct Header {
    pub(super) lock: OptimisticLock,
    pub(super) count: AtomicU16,
    prefix_bytes: u16,
    tier: u8,
    has_end: bool,
    /// Slots of an indexed node that were ever used.
    pub(super) used: AtomicU8,
    _pad: u8,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// What a node is to be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    pub(super) kind: Kind,
    /// The parts of the prefix.
    pub(super) prefix: [&'a [u8]; 3],
    pub(super) has_end: bool,
}

impl Shape<'_> {
    fn prefix_bytes(&self) -> usize {
        self.prefix.iter().map(|part| part.len()).sum()
    }

    /// The size of such a node.
    pub(super) fn bytes(&self) -> usize {
        node_bytes(self.kind, self.has_end, self.prefix_bytes())
    }
}

fn node_bytes(kind: Kind, has_end: bool, prefix_bytes: usize) -> usize {
    let tail = 8 * usize::from(has_end) + prefix_bytes;
    (kind.tail_at() + tail).next_multiple_of(8)
}

/// An inner node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'g> {
    base: NonNull<u8>,
    kind: Kind,
    lives: PhantomData<&'g ()>,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base
    }
}

impl<'g> Node<'g> {
    /// The node at `base`.
    ///
    /// # Safety
    /// A node of this kind was made there by [`Node::allocate`], and is not freed during `'g`.
    #[inline(always)]
    pub(super) unsafe fn at(base: NonNull<u8>, kind: Kind) -> Self {
        Self {
            base,
            kind,
            lives: PhantomData,
        }
    }

    /// A node without children on `tier` or farther.
    pub(super) fn allocate<P: Probe>(
        shape: Shape<'_>,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Result<Self, OutOfMemory> {
        let (base, tier) = context.guard.allocate(shape.bytes(), tier, Purpose::Node)?;
        // SAFETY: the block has the bytes of the shape and is nobody else's.
        Ok(unsafe { Self::write(base, shape, tier, context) })
    }

    /// A node without children on `tier` exactly.
    pub(super) fn allocate_on<P: Probe>(
        shape: Shape<'_>,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Option<Self> {
        let memory = context.guard.memory();
        let base = memory.allocate_on(shape.bytes(), tier, Purpose::Node)?;
        // SAFETY: the block has the bytes of the shape and is nobody else's.
        Some(unsafe { Self::write(base, shape, tier, context) })
    }

    /// # Safety
    /// `base` is a block of `shape.bytes()` that nobody else knows.
    unsafe fn write<P: Probe>(
        base: NonNull<u8>,
        shape: Shape<'_>,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Self {
        let header = Header {
            lock: OptimisticLock::new(),
            count: AtomicU16::new(0),
            prefix_bytes: shape.prefix_bytes() as u16,
            tier: tier.index() as u8,
            has_end: shape.has_end,
            used: AtomicU8::new(0),
            _pad: 0,
        };
        let mut prefix_at = shape.kind.tail_at() + 8 * usize::from(shape.has_end);
        // SAFETY: all parts lie within the block, by `node_bytes`. Zeros are empty slots and keys.
        unsafe {
            base.add(HEADER_BYTES)
                .write_bytes(0, prefix_at - HEADER_BYTES);
            base.cast::<Header>().write(header);
            for part in shape.prefix {
                base.add(prefix_at)
                    .copy_from_nonoverlapping(NonNull::from(part).cast(), part.len());
                prefix_at += part.len();
            }
            context.probe.write(base.as_ptr().addr(), shape.bytes());
            Self::at(base, shape.kind)
        }
    }

    /// Frees a node that was never published, or whose tree nobody can reach any more.
    ///
    /// # Safety
    /// Nobody can reach it, and it is freed once. It came from `memory`.
    pub(super) unsafe fn free(self, memory: &NodeMemory) {
        // SAFETY: the caller's promise; size and tier are those of the allocation.
        unsafe { memory.free(self.base, self.bytes(), self.tier(), Purpose::Node) };
    }

    #[inline(always)]
    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        self.kind
    }

    #[inline(always)]
    pub(super) fn header(self) -> &'g Header {
        // SAFETY: the block begins with its header and lives for `'g` (`Node::at`).
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Children, without the end.
    #[inline]
    pub(super) fn count(self) -> usize {
        usize::from(self.header().count.load(Relaxed))
    }

    /// Where it lies.
    pub(super) fn tier(self) -> TierId {
        TierId::from_index(usize::from(self.header().tier)).unwrap_or(TierId::NEAR)
    }

    #[inline(always)]
    pub(super) fn prefix_bytes(self) -> usize {
        usize::from(self.header().prefix_bytes)
    }

    /// The bytes that all keys below share after those on the way here.
    #[inline]
    pub(super) fn prefix(self) -> &'g [u8] {
        let at = self.kind.tail_at() + 8 * usize::from(self.has_end());
        // SAFETY: the prefix lies at the end of the block, and nobody writes it any more.
        unsafe { slice::from_raw_parts(self.base.add(at).as_ptr(), self.prefix_bytes()) }
    }

    /// What is left of a key after the prefix; `None` where the key does not go on with it.
    #[inline(always)]
    pub(super) fn after_prefix(self, rest: &[u8]) -> Option<&[u8]> {
        // Most nodes have none.
        if self.prefix_bytes() == 0 {
            return Some(rest);
        }
        rest.strip_prefix(self.prefix())
    }

    /// Whether it has an end slot.
    pub(super) fn has_end(self) -> bool {
        self.header().has_end
    }

    /// The slot of the key that ends here.
    #[inline]
    pub(super) fn end_slot(self) -> Option<&'g Slot> {
        if !self.has_end() {
            return None;
        }
        // SAFETY: nodes that say so have the slot there; it is accessed as an atomic only.
        Some(unsafe { self.base.add(self.kind.tail_at()).cast::<Slot>().as_ref() })
    }

    /// Slot `index`, of those that the kind has.
    #[inline(always)]
    pub(super) fn slot(self, index: usize) -> &'g Slot {
        debug_assert!(index < self.kind.capacity(), "a slot of the node");
        // SAFETY: the kind has that slot; it is accessed as an atomic only.
        unsafe {
            self.base
                .add(self.kind.slots_at() + 8 * index)
                .cast::<Slot>()
                .as_ref()
        }
    }

    /// Word `index` of the keys or the index.
    #[inline(always)]
    pub(super) fn key_word(self, index: usize) -> &'g AtomicU64 {
        debug_assert!(8 * index < self.kind.keys_bytes(), "a word of the keys");
        // SAFETY: the kind has that word; it is accessed as an atomic only.
        unsafe {
            self.base
                .add(HEADER_BYTES + 8 * index)
                .cast::<AtomicU64>()
                .as_ref()
        }
    }

    /// Its size.
    pub(super) fn bytes(self) -> usize {
        node_bytes(self.kind, self.has_end(), self.prefix_bytes())
    }

    /// Takes the lock.
    pub(super) fn lock<P: Probe>(
        self,
        context: &'g Context<'_, '_, P>,
    ) -> Result<HeldNode<'g, P>, Obsolete> {
        context.lock(&self.header().lock)?;
        Ok(HeldNode {
            node: self,
            is_moved: false,
            context,
        })
    }
}

/// An inner node whose lock this thread holds: its children stand still.
#[derive(Debug)]
pub(super) struct HeldNode<'g, P: Probe> {
    node: Node<'g>,
    /// Whether something was changed that readers cannot see as a whole.
    is_moved: bool,
    context: &'g Context<'g, 'g, P>,
}

impl<'g, P: Probe> HeldNode<'g, P> {
    pub(super) fn node(&self) -> Node<'g> {
        self.node
    }

    /// Adds a child for a byte that has none; false where there is no room.
    pub(super) fn add(&mut self, byte: u8, child: Child) -> bool {
        self.is_moved |= matches!(self.node.kind(), Kind::Small5 | Kind::Small16);
        // SAFETY: this thread holds the lock.
        unsafe { self.node.add(byte, child) }
    }

    /// Removes the child of a byte.
    pub(super) fn remove(&mut self, byte: u8) {
        self.is_moved |= matches!(self.node.kind(), Kind::Small5 | Kind::Small16);
        // SAFETY: this thread holds the lock.
        unsafe { self.node.remove(byte) };
    }

    /// Gives up a node that was taken out of the tree: nobody locks it again.
    pub(super) fn retire(self) {
        let (node, context) = (self.node, self.context);
        std::mem::forget(self);
        context.unlock_obsolete(&node.header().lock);
        // SAFETY: the holder has unlinked it, and only one thread can have held it for that.
        unsafe {
            context
                .guard
                .retire(node.base, node.bytes(), node.tier(), Purpose::Node);
        }
    }
}

impl<P: Probe> Drop for HeldNode<'_, P> {
    #[inline]
    fn drop(&mut self) {
        let lock = &self.node.header().lock;
        if self.is_moved {
            self.context.unlock(lock);
        } else {
            self.context.unlock_unchanged(lock);
        }
    }
}
