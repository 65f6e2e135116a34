//! What a slot holds: nothing, a leaf or an inner node, told apart by the low bits of the pointer.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::leaf::Leaf;
use super::node::{Kind, Node};
use crate::memory::Guard;

/// Blocks are aligned to this, so the bits below are free for the tag.
const ALIGN: usize = 8;
const TAG_MASK: usize = ALIGN - 1;

const LEAF: usize = 0;
const SMALL_5: usize = 1;
const SMALL_16: usize = 2;
const INDEXED: usize = 3;
const DIRECT: usize = 4;
/// As the two above, with a prefix. A lookup need not touch the headers of those without.
const INDEXED_PREFIXED: usize = 5;
const DIRECT_PREFIXED: usize = 6;
const TINY_LEAF: usize = 7;

/// A word of a node that points to a child.
pub(super) type Slot = AtomicPtr<u8>;

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child(*mut u8);

/// What a [`Child`] is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'g> {
    /// No child.
    Nothing,
    /// A leaf.
    Leaf(Leaf<'g>),
    /// An inner node without a prefix.
    Plain(Node<'g>),
    /// An inner node that may have a prefix.
    Prefixed(Node<'g>),
}

impl Child {
    /// No child.
    pub(super) const NOTHING: Self = Self(std::ptr::null_mut());

    /// Reads a slot. What it holds stays valid as long as the guard.
    #[inline(always)]
    pub(super) fn load(slot: &Slot, guard: &Guard<'_>) -> Self {
        Self(guard.load(slot))
    }

    /// Reads a slot whose writers are kept out, or for a hint; in the order of the guard's loads.
    #[inline]
    pub(super) fn load_alone(slot: &Slot) -> Self {
        Self(slot.load(Ordering::SeqCst))
    }

    /// Publishes this child: whoever reads it from the slot sees all that was written to it before.
    #[inline]
    pub(super) fn store(self, slot: &Slot) {
        slot.store(self.0, Ordering::Release);
    }

    /// A leaf.
    #[inline]
    pub(super) fn leaf(leaf: Leaf<'_>) -> Self {
        let tag = if leaf.is_tiny() { TINY_LEAF } else { LEAF };
        Self(leaf.base().as_ptr().map_addr(|addr| addr | tag))
    }

    /// An inner node.
    #[inline]
    pub(super) fn node(node: Node<'_>) -> Self {
        let is_prefixed = node.prefix_bytes() > 0;
        let tag = match node.kind() {
            Kind::Small5 => SMALL_5,
            Kind::Small16 => SMALL_16,
            Kind::Indexed if is_prefixed => INDEXED_PREFIXED,
            Kind::Indexed => INDEXED,
            Kind::Direct if is_prefixed => DIRECT_PREFIXED,
            Kind::Direct => DIRECT,
        };
        Self(node.base().as_ptr().map_addr(|addr| addr | tag))
    }

    #[inline(always)]
    pub(super) fn is_nothing(self) -> bool {
        self.0.is_null()
    }

    /// The address of the block.
    #[inline(always)]
    pub(super) fn address(self) -> *const u8 {
        self.0.map_addr(|addr| addr & !TAG_MASK)
    }

    /// What it is.
    ///
    /// # Safety
    /// It came from a slot under a guard that lives for `'g`, or was made in this operation and is
    /// not freed during `'g`.
    #[inline(always)]
    pub(super) unsafe fn target<'g>(self) -> Target<'g> {
        let tag = self.0.addr() & TAG_MASK;
        let Some(base) = NonNull::new(self.0.map_addr(|addr| addr & !TAG_MASK)) else {
            return Target::Nothing;
        };
        // SAFETY: the tag was put there for what the block is, and the caller says that it lives.
        unsafe {
            match tag {
                LEAF => Target::Leaf(Leaf::at(base, false)),
                TINY_LEAF => Target::Leaf(Leaf::at(base, true)),
                DIRECT => Target::Plain(Node::at(base, Kind::Direct)),
                INDEXED => Target::Plain(Node::at(base, Kind::Indexed)),
                SMALL_5 => Target::Prefixed(Node::at(base, Kind::Small5)),
                SMALL_16 => Target::Prefixed(Node::at(base, Kind::Small16)),
                INDEXED_PREFIXED => Target::Prefixed(Node::at(base, Kind::Indexed)),
                _ => Target::Prefixed(Node::at(base, Kind::Direct)),
            }
        }
    }
}
