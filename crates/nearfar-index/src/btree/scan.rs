//! Scans: visits of keys in order, from leaf to leaf.

use std::array;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use nearfar_model::Probe;

use super::geometry::{GROUP_KEYS, Geometry, WORD_BYTES};
use super::node::{KeyRange, Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::Version;
use crate::value::TreeValue;

/// Pairs that are read and validated together, then handed out: as many as stay in registers.
const PAIRS_AT_ONCE: usize = 4;

/// Pairs between two looks at what to ask for.
const BLOCK_PAIRS: usize = 4 * PAIRS_AT_ONCE;

/// Pairs that a scan asks for ahead of those that it reads, in its leaf and the next.
const AHEAD_PAIRS: usize = 2 * BLOCK_PAIRS;

/// Pairs that a scan asks for around where it is likely to begin, and how many of them lie before.
const LIKELY_PAIRS: usize = 48;
const LIKELY_PAIRS_BEFORE: usize = 12;

/// The share of a leaf's slots that is taken in most trees: between splits, from a half to all.
const LIKELY_FILL_PERCENT: usize = 70;

/// Leaves that a scan visits under one guard, so that what others retire meanwhile can be freed.
pub(super) const LEAVES_PER_GUARD: usize = 64;

/// A leaf, and what the way to it says of its neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'g> {
    pub(super) leaf: Node<'g>,
    version: Version,
    /// The keys that the leaf is responsible for.
    pub(super) range: KeyRange,
    /// Nodes above the leaf.
    pub(super) level: u32,
    parent: Option<Parent<'g>>,
}

#[derive(Debug, Clone, Copy)]
struct Parent<'g> {
    node: Node<'g>,
    version: Version,
    /// The leaf's index.
    index: usize,
    range: KeyRange,
}

impl Cursor<'_> {
    /// Whether everything read in the leaf is of one state.
    pub(super) fn validate<P: Probe>(&self, context: &Context<'_, '_, P>) -> bool {
        self.leaf.validate(self.version, context).is_ok()
    }
}

impl<'g> Cursor<'g> {
    /// The pairs from `first` on, if the leaf is as it was.
    #[inline(always)]
    fn read<const PAIRS: usize, P: Probe>(
        &self,
        first: usize,
        context: &Context<'_, '_, P>,
    ) -> Result<[(u64, u64); PAIRS], Restart> {
        let (keys, values) = (self.leaf.keys(), self.leaf.values());
        let keys = keys.get(first..first + PAIRS).ok_or(Restart)?;
        let values = values.get(first..first + PAIRS).ok_or(Restart)?;
        // Words of values may point to blocks: the order is that of `Node::load_value`.
        let pairs = array::from_fn(|at| (keys[at].load(Relaxed), values[at].load(SeqCst)));
        self.leaf.validate(self.version, context)?;
        Ok(pairs)
    }

    /// Asks for the first pairs of the next leaf, if it has the same parent.
    #[inline(always)]
    fn prefetch_next<P: Probe>(&self, context: &'g Context<'_, '_, P>) {
        if let Some(parent) = &self.parent
            && parent.index < parent.node.count()
            && let Ok(next) = parent.node.child(parent.index + 1, parent.version, context)
        {
            next.prefetch_first(context);
            next.prefetch_pairs::<AHEAD_PAIRS, P>(0, context);
        }
    }
}

/// Where a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    /// Takes the `count` numbers out of a range that come first, or all.
    #[inline(always)]
    fn take(self, rest: &mut Range<usize>, count: usize) -> Range<usize> {
        let count = count.min(rest.len());
        match self {
            Self::Up => {
                rest.start += count;
                rest.start - count..rest.start
            }
            Self::Down => {
                rest.end -= count;
                rest.end..rest.end + count
            }
        }
    }
}

impl KeyRange {
    /// The key next to the range.
    fn beyond(self, direction: Direction) -> Option<u64> {
        beyond(
            match direction {
                Direction::Up => self.high,
                Direction::Down => self.low,
            },
            direction,
        )
    }
}

/// The next key.
fn beyond(key: u64, direction: Direction) -> Option<u64> {
    match direction {
        Direction::Up => key.checked_add(1),
        Direction::Down => key.checked_sub(1),
    }
}

/// Hands pairs out that were validated, and says where a scan goes on behind them.
#[inline(always)]
fn hand_out<const PAIRS: usize, V: TreeValue, P: Probe>(
    pairs: [(u64, u64); PAIRS],
    context: &Context<'_, '_, P>,
    next: &mut Option<u64>,
    direction: Direction,
    visit: &mut impl FnMut(u64, V) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let nth = |turn: usize| match direction {
        Direction::Up => pairs[turn],
        Direction::Down => pairs[PAIRS - 1 - turn],
    };
    *next = beyond(nth(PAIRS - 1).0, direction);
    for (key, word) in (0..PAIRS).map(nth) {
        // SAFETY: the word was the key's when the leaf was validated, under this guard.
        visit(key, unsafe { V::from_word(word, context) })?;
    }
    ControlFlow::Continue(())
}

impl<V: TreeValue> BPlusTree<V> {
    #[inline]
    pub(super) fn scan_in<P: Probe>(
        &self,
        context: &mut Context<'_, '_, P>,
        from: u64,
        visit: impl FnMut(u64, V) -> ControlFlow<()>,
    ) {
        self.scan_towards(context, from, Direction::Up, visit);
    }

    #[inline]
    pub(super) fn scan_back_in<P: Probe>(
        &self,
        context: &mut Context<'_, '_, P>,
        from: u64,
        visit: impl FnMut(u64, V) -> ControlFlow<()>,
    ) {
        self.scan_towards(context, from, Direction::Down, visit);
    }

    #[inline(always)]
    fn scan_towards<P: Probe>(
        &self,
        context: &mut Context<'_, '_, P>,
        from: u64,
        direction: Direction,
        mut visit: impl FnMut(u64, V) -> ControlFlow<()>,
    ) {
        let mut next = Some(from);
        let mut is_first = true;
        while let Some(from) = next {
            next = self.scan_leaves(context, from, direction, &mut is_first, &mut visit);
            if next.is_some() {
                context.guard.refresh();
            }
        }
    }

    /// Visits some leaves; returns the key to go on with, if there is more.
    #[inline(always)]
    fn scan_leaves<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        from: u64,
        direction: Direction,
        is_first: &mut bool,
        visit: &mut impl FnMut(u64, V) -> ControlFlow<()>,
    ) -> Option<u64> {
        let mut next = Some(from);
        let mut cursor = None;
        for _ in 0..LEAVES_PER_GUARD {
            let here = self.next_cursor(context, cursor, next?, direction);
            let counter = here.leaf.counter();
            self.frontend.scan_leaf(counter, is_first, context.probe);
            match self.scan_leaf(context, &here, &mut next, direction, visit) {
                Ok(ControlFlow::Continue(())) => {
                    next = here.range.beyond(direction);
                    cursor = Some(here);
                }
                Ok(ControlFlow::Break(())) => return None,
                Err(Restart) => cursor = None,
            }
        }
        next
    }

    /// Visits the pairs of a leaf from `next` on, which moves along.
    #[inline(always)]
    fn scan_leaf<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        cursor: &Cursor<'g>,
        next: &mut Option<u64>,
        direction: Direction,
        visit: &mut impl FnMut(u64, V) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Restart> {
        let leaf = cursor.leaf;
        let Some(from) = *next else {
            return Ok(ControlFlow::Break(()));
        };
        // The pairs to visit.
        let mut rest = match direction {
            Direction::Up if from == cursor.range.low => 0..leaf.count(),
            Direction::Up => leaf.rank_and_prefetch(from, context)..leaf.count(),
            Direction::Down => 0..leaf.rank(from, context),
        };
        let mut has_asked = direction == Direction::Down;
        while !rest.is_empty() {
            if direction == Direction::Up {
                let ahead = rest.start + AHEAD_PAIRS;
                if ahead < rest.end {
                    leaf.prefetch_pairs::<BLOCK_PAIRS, P>(ahead, context);
                } else if !has_asked {
                    has_asked = true;
                    cursor.prefetch_next(context);
                }
            }
            let block = direction.take(&mut rest, BLOCK_PAIRS);
            leaf.report_stream(block.start, block.end, context);
            let end = self.scan_block(context, cursor, block, next, direction, visit)?;
            if end.is_break() {
                return Ok(end);
            }
        }
        leaf.validate(cursor.version, context)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Visits some pairs of a leaf.
    #[inline(always)]
    fn scan_block<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        cursor: &Cursor<'g>,
        mut block: Range<usize>,
        next: &mut Option<u64>,
        direction: Direction,
        visit: &mut impl FnMut(u64, V) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Restart> {
        while block.len() >= PAIRS_AT_ONCE {
            let first = direction.take(&mut block, PAIRS_AT_ONCE).start;
            let pairs = cursor.read::<PAIRS_AT_ONCE, P>(first, context)?;
            if hand_out(pairs, context, next, direction, visit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        while !block.is_empty() {
            let first = direction.take(&mut block, 1).start;
            let pair = cursor.read::<1, P>(first, context)?;
            if hand_out(pair, context, next, direction, visit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The leaf for `key`, which is next to the leaf before, if there is one.
    #[inline(always)]
    fn next_cursor<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        before: Option<Cursor<'g>>,
        key: u64,
        direction: Direction,
    ) -> Cursor<'g> {
        let neighbor = before.and_then(|before| self.neighbor(context, before, direction));
        neighbor.unwrap_or_else(|| self.seek(context, key))
    }

    /// The leaf next to another, if both are the same node's, and that has not changed.
    #[inline(always)]
    fn neighbor<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        cursor: Cursor<'g>,
        direction: Direction,
    ) -> Option<Cursor<'g>> {
        let parent = cursor.parent?;
        let index = match direction {
            Direction::Up => parent.index + 1,
            Direction::Down => parent.index.checked_sub(1)?,
        };
        if index > parent.node.count() {
            return None;
        }
        let range = parent.node.narrow(index, parent.range);
        let (leaf, version) = self
            .child(context, parent.node, parent.version, index)
            .ok()?;
        Some(Cursor {
            leaf,
            version,
            range,
            level: cursor.level,
            parent: Some(Parent { index, ..parent }),
        })
    }

    /// The leaf for `key`.
    #[inline]
    pub(super) fn seek<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: u64,
    ) -> Cursor<'g> {
        loop {
            if let Ok(cursor) = self.try_seek(context, key) {
                return cursor;
            }
        }
    }

    #[inline(always)]
    fn try_seek<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: u64,
    ) -> Result<Cursor<'g>, Restart> {
        let (mut node, mut version, _) = self.root(context)?;
        let level = u32::from(node.height());
        let mut range = KeyRange::ALL;
        let mut parent = None;
        for height in (0..level).rev() {
            let index = node.rank(key, context);
            self.frontend.use_inner(node.counter(), context.probe);
            parent = Some(Parent {
                node,
                version,
                index,
                range,
            });
            range = node.narrow(index, range);
            if height == 0 {
                node.prefetch_leaf_near(index, key, range, context);
            }
            (node, version) = self.child(context, node, version, index)?;
        }
        Ok(Cursor {
            leaf: node,
            version,
            range,
            level,
            parent,
        })
    }

    /// The leaf above another, or the first.
    pub(super) fn seek_up<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        before: Option<Cursor<'g>>,
        key: u64,
    ) -> Cursor<'g> {
        self.next_cursor(context, before, key, Direction::Up)
    }

    /// The pairs of the leaf for `key`, and the keys that it is responsible for.
    pub(super) fn leaf_pairs<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
    ) -> (Vec<(u64, u64)>, KeyRange) {
        loop {
            let cursor = self.seek(context, key);
            let leaf = cursor.leaf;
            let mut pairs = vec![(0, 0); leaf.count()];
            leaf.copy_pairs(0, &mut pairs, context);
            if leaf.validate(cursor.version, context).is_ok() {
                self.frontend.use_leaf(leaf.counter(), context.probe);
                return (pairs, cursor.range);
            }
        }
    }
}

impl Node<'_> {
    /// The number of keys below `key`, of a leaf that is scanned from there: all that the scan
    /// needs first is asked for immediately.
    #[inline(always)]
    fn rank_and_prefetch<P: Probe>(self, key: u64, context: &Context<'_, '_, P>) -> usize {
        let Some(below) = key.checked_sub(1) else {
            return 0;
        };
        let group = self.group_of(below);
        let start = self.geometry().group_start(group);
        self.prefetch_pairs::<{ AHEAD_PAIRS + GROUP_KEYS }, P>(start, context);
        self.rank_in_group(group, below, context)
    }

    /// Asks for what a scan from `key` on is likely to read first of the leaf at `index`, before
    /// anything of it is known but its `range` of keys: in a leaf that is filled as most are, whose
    /// keys lie evenly. So the scan waits for memory once where it would twice.
    #[inline(always)]
    fn prefetch_leaf_near<P: Probe>(
        self,
        index: usize,
        key: u64,
        range: KeyRange,
        context: &Context<'_, '_, P>,
    ) {
        let geometry = self.geometry();
        let likely_count = geometry.leaf_capacity() * LIKELY_FILL_PERCENT / 100;
        // Both numbers keep their first 32 bits, so that the product below has room.
        let (width, before) = (
            range.high.wrapping_sub(range.low),
            key.wrapping_sub(range.low),
        );
        let shift = u64::BITS.saturating_sub(u32::BITS + width.leading_zeros());
        let share = before.min(width) >> shift;
        let rank = share * likely_count as u64 / ((width >> shift) + 1);
        let first = (rank as usize).saturating_sub(LIKELY_PAIRS_BEFORE);
        let leaf = self.child_address(index);
        context.prefetch(leaf, geometry.first_slot_word() * WORD_BYTES);
        prefetch_pairs::<LIKELY_PAIRS, P>(leaf, geometry, first, context);
    }

    /// Copies the pairs from `first` on: to be validated.
    #[inline(always)]
    fn copy_pairs<P: Probe>(
        self,
        first: usize,
        pairs: &mut [(u64, u64)],
        context: &Context<'_, '_, P>,
    ) {
        self.report_stream(first, first + pairs.len(), context);
        let keys = self.keys().iter().skip(first);
        let values = self.values().iter().skip(first);
        for (pair, (key, value)) in pairs.iter_mut().zip(keys.zip(values)) {
            // As `load_value`.
            *pair = (key.load(Relaxed), value.load(SeqCst));
        }
    }

    /// Asks for so many pairs from `first` on.
    #[inline(always)]
    fn prefetch_pairs<const PAIRS: usize, P: Probe>(
        self,
        first: usize,
        context: &Context<'_, '_, P>,
    ) {
        prefetch_pairs::<PAIRS, P>(self.word_address(0), self.geometry(), first, context);
    }

    /// Reports a read of the slots `from..to`, in order.
    pub(super) fn report_stream<P: Probe>(
        self,
        from: usize,
        to: usize,
        context: &Context<'_, '_, P>,
    ) {
        let geometry = self.geometry();
        for first in [geometry.first_key_word(), geometry.first_slot_word()] {
            let bytes = to.saturating_sub(from) * WORD_BYTES;
            context
                .probe
                .stream(self.word_address(first + from).addr(), bytes);
        }
    }
}

/// Asks for pairs of the leaf at an address, which need not be one. Lines behind the leaf's end may
/// be among them: asking is cheaper than counting.
#[inline(always)]
fn prefetch_pairs<const PAIRS: usize, P: Probe>(
    leaf: *const u8,
    geometry: &Geometry,
    first: usize,
    context: &Context<'_, '_, P>,
) {
    for word in [geometry.first_key_word(), geometry.first_slot_word()] {
        let address = leaf.wrapping_add((word + first) * WORD_BYTES);
        context.prefetch_words::<PAIRS>(address);
    }
}
