//! Nodes: what all begin with, and inner nodes.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::leaf::LEAF_BYTES;
use crate::context::Context;
use crate::lock::OptimisticLock;
use crate::placement::LeafCounter;

/// What every node begins with.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Node {
    pub(super) lock: OptimisticLock,
    /// Uses of the node, of an inner one only if all on the way are counted.
    pub(super) counter: LeafCounter,
    /// Where the node lies.
    pub(super) tier: TierId,
    /// Levels of this layer's tree below the node: zero for a leaf. It never changes.
    height: u8,
    /// Separators of an inner node.
    count: AtomicU32,
}

/// Separators that an inner node has at most.
pub(super) const INNER_WIDTH: usize = 22;

/// An inner node of one layer's B+tree: child `i` has the slices from separator `i - 1` on and
/// below separator `i`. Separators that are not in use are the greatest number, so that a search
/// need not know how many there are.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) node: Node,
    separators: [AtomicU64; INNER_WIDTH],
    children: [AtomicPtr<Node>; INNER_WIDTH + 1],
}

pub(super) const INNER_BYTES: usize = size_of::<Inner>().next_multiple_of(64);

const _: () = assert!(size_of::<Node>() == 16);

/// The most separators of a third of an inner node.
const THIRD: usize = 7;
/// The separators between the thirds.
const PIVOTS: [usize; 2] = [THIRD, 2 * THIRD];

const _: () = assert!(PIVOTS[1] + 1 + THIRD == INNER_WIDTH);

impl Node {
    pub(super) fn new(tier: TierId, height: u8, uses: u16) -> Self {
        Self {
            lock: OptimisticLock::new(),
            counter: LeafCounter::new(uses),
            tier,
            height,
            count: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn is_leaf(&self) -> bool {
        self.height == 0
    }

    pub(super) fn height(&self) -> u8 {
        self.height
    }

    /// Bytes of the nodes right below.
    #[inline(always)]
    pub(super) fn child_bytes(&self) -> usize {
        if self.height == 1 {
            LEAF_BYTES
        } else {
            INNER_BYTES
        }
    }
}

impl Inner {
    /// An inner node without children.
    pub(super) fn new(tier: TierId, height: u8) -> Self {
        debug_assert!(height > 0, "leaves have no height");
        Self {
            node: Node::new(tier, height, 0),
            separators: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            children: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// Puts the first two children in. Nobody knows of the node yet.
    pub(super) fn fill(&self, left: *mut Node, separator: u64, right: *mut Node) {
        self.children[0].store(left, Relaxed);
        self.insert(0, separator, right);
    }

    /// The number of separators, one less than of children.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.node.count.load(Relaxed) as usize).min(INNER_WIDTH)
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() == INNER_WIDTH
    }

    /// Which child has the slice, and whether it is the last one.
    ///
    /// Two separators tell in which third the slice belongs; within it, all are compared. Written
    /// so that it needs no branches, nor more comparisons in a row than there are levels in it.
    #[inline(always)]
    pub(super) fn position(&self, bits: u64) -> (usize, bool) {
        let is_below = |index: usize| self.separators[index].load(Relaxed) <= bits;
        let base = select_unpredictable(is_below(PIVOTS[0]), PIVOTS[0] + 1, 0);
        let base = select_unpredictable(is_below(PIVOTS[1]), PIVOTS[1] + 1, base);
        let mut position = base;
        for index in 0..THIRD {
            position = select_unpredictable(is_below(base + index), base + index + 1, position);
        }
        let count = self.count();
        (position.min(count), position >= count)
    }

    /// Reports to the probe what [`Self::position`] and the load of a child after it touch.
    #[inline(always)]
    pub(super) fn report_search<P: Probe>(&self, position: usize, context: &Context<'_, '_, P>) {
        let head = size_of::<Node>() + INNER_WIDTH * size_of::<u64>();
        context.follow(self, head);
        let child = std::ptr::from_ref(&self.children[position]);
        context.probe.read(child.addr(), size_of::<usize>());
    }

    /// Reports to the probe that entries were moved.
    pub(super) fn report_write<P: Probe>(&self, context: &Context<'_, '_, P>) {
        context
            .probe
            .write(std::ptr::from_ref(self).addr(), size_of::<Self>());
    }

    #[inline(always)]
    pub(super) fn child(&self, position: usize) -> &AtomicPtr<Node> {
        &self.children[position.min(INNER_WIDTH)]
    }

    /// The separator below the child at `position`, if there is one.
    pub(super) fn lower(&self, position: usize) -> Option<u64> {
        let below = position.checked_sub(1)?;
        Some(self.separators[below].load(Relaxed))
    }

    /// The separator above the child at `position`, if there is one.
    #[inline]
    pub(super) fn upper(&self, position: usize) -> Option<u64> {
        (position < self.count()).then(|| self.separators[position].load(Relaxed))
    }

    /// Puts a child behind the one at `position`. The lock is held, and there is room.
    pub(super) fn insert(&self, position: usize, separator: u64, child: *mut Node) {
        let count = self.count();
        debug_assert!(count < INNER_WIDTH);
        for index in (position..count).rev() {
            let moved = self.separators[index].load(Relaxed);
            self.separators[index + 1].store(moved, Relaxed);
            let moved = self.children[index + 1].load(Relaxed);
            self.children[index + 2].store(moved, Relaxed);
        }
        self.separators[position].store(separator, Relaxed);
        self.children[position + 1].store(child, Relaxed);
        self.node.count.store(count as u32 + 1, Relaxed);
    }

    /// Takes out the child at `position`, of at least two. The lock is held.
    pub(super) fn remove(&self, position: usize) {
        let count = self.count();
        debug_assert!(count > 0);
        // The first child goes with the separator above it, any other with the one below.
        for index in position.saturating_sub(1)..count {
            let moved = match index + 1 < count {
                true => self.separators[index + 1].load(Relaxed),
                false => u64::MAX,
            };
            self.separators[index].store(moved, Relaxed);
        }
        for index in position..count {
            let moved = self.children[index + 1].load(Relaxed);
            self.children[index].store(moved, Relaxed);
        }
        self.node.count.store(count as u32 - 1, Relaxed);
    }

    /// Moves the children behind `position` to `right`, which is empty, and returns the separator
    /// between the two. The lock is held.
    pub(super) fn split_off(&self, position: usize, right: &Self) -> u64 {
        let count = self.count();
        let separator = self.separators[position].swap_out();
        for index in position + 1..count {
            let moved = self.separators[index].swap_out();
            right.separators[index - position - 1].store(moved, Relaxed);
        }
        for index in position + 1..=count {
            let moved = self.children[index].load(Relaxed);
            right.children[index - position - 1].store(moved, Relaxed);
        }
        let moved = count - position - 1;
        right.node.count.store(moved as u32, Relaxed);
        self.node.count.store(position as u32, Relaxed);
        separator
    }

    /// Copies everything but the head from `other`, whose lock is held. Nobody knows of `self` yet.
    pub(super) fn copy_from(&self, other: &Self) {
        for (to, from) in self.separators.iter().zip(&other.separators) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in self.children.iter().zip(&other.children) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.node.count.store(other.count() as u32, Relaxed);
    }
}

/// A separator that is taken out of use.
trait SwapOut {
    fn swap_out(&self) -> u64;
}

impl SwapOut for AtomicU64 {
    fn swap_out(&self) -> u64 {
        let taken = self.load(Relaxed);
        self.store(u64::MAX, Relaxed);
        taken
    }
}
