//! Scans: visits of keys in order, from leaf to leaf.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use nearfar_model::Probe;

use super::geometry::{GROUP_KEYS, WORD_BYTES};
use super::node::{KeyRange, Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::Version;
use crate::value::TreeValue;

/// Pairs that are copied and validated at once, then handed out.
const CHUNK_PAIRS: usize = 16;

/// Pairs that a scan asks for ahead of those that it copies, in its leaf and the next.
const AHEAD_PAIRS: usize = 2 * CHUNK_PAIRS;

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
    pub(super) fn validate(&self) -> bool {
        self.leaf.validate(self.version).is_ok()
    }
}

impl<'g> Cursor<'g> {
    /// Asks for the first pairs of the next leaf, if it has the same parent.
    #[inline(always)]
    fn prefetch_next<P: Probe>(&self, context: &'g Context<'_, '_, P>) {
        if let Some(parent) = &self.parent
            && parent.index < parent.node.count()
            && let Ok(next) = parent.node.child(parent.index + 1, parent.version, context)
        {
            next.prefetch_first(context);
            next.prefetch_pairs(0, AHEAD_PAIRS, context);
        }
    }
}

/// Where a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
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
        while let Some(from) = next {
            next = self.scan_leaves(context, from, direction, &mut visit);
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
        visit: &mut impl FnMut(u64, V) -> ControlFlow<()>,
    ) -> Option<u64> {
        let mut next = Some(from);
        let mut cursor = None;
        for _ in 0..LEAVES_PER_GUARD {
            let here = self.next_cursor(context, cursor, next?, direction);
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
        let mut chunk = [(0, 0); CHUNK_PAIRS];
        let Some(from) = *next else {
            return Ok(ControlFlow::Break(()));
        };
        // The pairs to visit.
        let (mut start, mut end) = match direction {
            Direction::Up if from == cursor.range.low => (0, leaf.count()),
            Direction::Up => (leaf.rank_and_prefetch(from, context), leaf.count()),
            Direction::Down => (0, leaf.rank(from, context)),
        };
        self.frontend.use_leaf(leaf.counter(), context.probe);
        let mut has_asked = direction == Direction::Down;
        loop {
            if direction == Direction::Up {
                let ahead = start + AHEAD_PAIRS;
                if ahead < end {
                    leaf.prefetch_pairs(ahead, CHUNK_PAIRS, context);
                } else if !has_asked {
                    has_asked = true;
                    cursor.prefetch_next(context);
                }
            }
            let count = end.saturating_sub(start).min(CHUNK_PAIRS);
            let first = match direction {
                Direction::Up => start,
                Direction::Down => end - count,
            };
            leaf.copy_pairs(first, &mut chunk[..count], context);
            leaf.validate(cursor.version)?;
            if count == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            for turn in 0..count {
                let (key, word) = match direction {
                    Direction::Up => chunk[turn],
                    Direction::Down => chunk[count - 1 - turn],
                };
                *next = beyond(key, direction);
                // SAFETY: the word was the key's when the leaf was validated, under this guard.
                if visit(key, unsafe { V::from_word(word, context) }).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            match direction {
                Direction::Up => start += count,
                Direction::Down => end -= count,
            }
        }
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
        for _ in 0..level {
            let index = node.rank(key, context);
            parent = Some(Parent {
                node,
                version,
                index,
                range,
            });
            range = node.narrow(index, range);
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
            if leaf.validate(cursor.version).is_ok() {
                self.frontend.use_leaf(leaf.counter(), context.probe);
                return (pairs, cursor.range);
            }
        }
    }
}

impl Node<'_> {
    /// The number of keys below `key`, of a leaf that is scanned from there: all that the scan
    /// needs first is asked for at once.
    #[inline(always)]
    fn rank_and_prefetch<P: Probe>(self, key: u64, context: &Context<'_, '_, P>) -> usize {
        let Some(below) = key.checked_sub(1) else {
            return 0;
        };
        let group = self.group_of(below);
        let start = self.geometry().group_start(group);
        self.prefetch_pairs(start, AHEAD_PAIRS + GROUP_KEYS, context);
        self.rank_in_group(group, below, context)
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

    /// Asks for pairs from `first` on, as far as there may be some.
    #[inline(always)]
    fn prefetch_pairs<P: Probe>(self, first: usize, count: usize, context: &Context<'_, '_, P>) {
        let geometry = self.geometry();
        let count = count.min(geometry.leaf_capacity().saturating_sub(first));
        for word in [geometry.first_key_word(), geometry.first_slot_word()] {
            context.prefetch(self.word_address(word + first), count * WORD_BYTES);
        }
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
