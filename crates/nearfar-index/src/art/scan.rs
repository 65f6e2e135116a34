//! Walks over leaves in order of their keys, both ways.
//!
//! A walk keeps its way on a stack of its own, since a tree can be as deep as a key is long. It
//! is not a snapshot: each key is seen as it was at some moment of the walk, and a key that is
//! there all the time is seen.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering::SeqCst;

use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Target};
use super::children::Direction;
use super::leaf::Leaf;
use super::node::{Kind, Node};
use crate::context::Context;
use crate::value::TreeValue;

/// Leaves that are visited under one guard: what others retire meanwhile is not freed.
const LEAVES_PER_GUARD: usize = 1024;
/// Children of a node that are asked for before they are visited.
const CHILDREN_AHEAD: u8 = 6;

/// A node on the way, with what is still to be visited of it.
#[derive(Debug)]
struct Frame<'g> {
    node: Node<'g>,
    /// Bytes of the path down to the node's children, less the byte of the child.
    path_bytes: usize,
    next: Next,
    ahead: Ahead,
}

/// The children of a large node that were asked for and not visited yet.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    /// How many.
    children: u8,
    /// Where to look for the next one to ask for; `None` where the next to visit is that one.
    next: Option<Next>,
}

impl<'g> Frame<'g> {
    fn new(node: Node<'g>, path_bytes: usize, next: Next) -> Self {
        Self {
            node,
            path_bytes,
            next,
            ahead: Ahead::default(),
        }
    }

    /// Asks for children that come after the one that is visited now, so that a walk does not wait
    /// for each of them in turn.
    #[inline]
    fn ask_ahead<P: Probe>(&mut self, direction: Direction, context: &Context<'_, '_, P>) {
        if matches!(self.node.kind(), Kind::Small5 | Kind::Small16) {
            return;
        }
        self.ahead.children = self.ahead.children.saturating_sub(1);
        while self.ahead.children < CHILDREN_AHEAD {
            let Next::Byte(from) = self.ahead.next.unwrap_or(self.next) else {
                return;
            };
            let found = self.node.next(from, direction, context);
            self.ahead.next =
                Some(found.map_or(Next::Nothing, |(byte, _)| Next::after(byte, direction)));
            let Some((_, child)) = found else {
                return;
            };
            context.prefetch(child.address(), CHILD_HEAD_BYTES);
            self.ahead.children += 1;
        }
    }
}

/// What is asked for of a child: most leaves, and the beginning of a node.
const CHILD_HEAD_BYTES: usize = 16;

#[derive(Debug, Clone, Copy)]
enum Next {
    End,
    Byte(u8),
    Nothing,
}

impl Next {
    fn first(direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::End,
            Direction::Backward => Self::Byte(u8::MAX),
        }
    }

    fn after(byte: u8, direction: Direction) -> Self {
        let next = match direction {
            Direction::Forward => byte.checked_add(1),
            Direction::Backward => byte.checked_sub(1),
        };
        match (next, direction) {
            (Some(byte), _) => Self::Byte(byte),
            (None, Direction::Forward) => Self::Nothing,
            (None, Direction::Backward) => Self::End,
        }
    }

    fn after_end(direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::Byte(0),
            Direction::Backward => Self::Nothing,
        }
    }
}

/// A way through the tree.
pub(super) struct Walk<'g, 'c, P: Probe> {
    context: &'g Context<'c, 'c, P>,
    direction: Direction,
    /// The bytes on the way to the next leaf.
    pub(super) path: Vec<u8>,
    frames: Vec<Frame<'g>>,
    /// A leaf at the beginning.
    first: Option<Leaf<'g>>,
}

impl<'g, 'c, P: Probe> Walk<'g, 'c, P> {
    /// A walk that begins at the leaf where the key of `from` is or would be. That leaf may have
    /// keys that lie before it.
    pub(super) fn new(
        root: Child,
        from: Bound<&[u8]>,
        direction: Direction,
        context: &'g Context<'c, 'c, P>,
    ) -> Self {
        let mut walk = Self {
            context,
            direction,
            path: Vec::with_capacity(64),
            frames: Vec::with_capacity(16),
            first: None,
        };
        match from {
            Bound::Unbounded => walk.enter(root),
            Bound::Included(key) | Bound::Excluded(key) => walk.seek(root, key),
        }
        walk
    }

    fn seek(&mut self, root: Child, key: &[u8]) {
        let mut child = root;
        let mut rest = key;
        loop {
            // SAFETY: children are read from slots under the guard of the context.
            let node = match unsafe { child.target() } {
                Target::Nothing => return,
                Target::Leaf(leaf) => {
                    self.first = Some(leaf);
                    return;
                }
                Target::Plain(node) | Target::Prefixed(node) => node,
            };
            let prefix = node.prefix();
            let Some(below) = rest.strip_prefix(prefix) else {
                // All of the node lies on one side of the key.
                if (prefix > rest) == (self.direction == Direction::Forward) {
                    self.enter(child);
                }
                return;
            };
            self.path.extend_from_slice(prefix);
            let path_bytes = self.path.len();
            let next = below
                .first()
                .map_or(Next::End, |byte| Next::after(*byte, self.direction));
            self.frames.push(Frame::new(node, path_bytes, next));
            let Some((byte, below)) = below.split_first() else {
                return;
            };
            self.path.push(*byte);
            child = node.child(*byte, self.context);
            rest = below;
        }
    }

    /// Begins with a child whose byte is on the path.
    fn enter(&mut self, child: Child) {
        // SAFETY: children are read from slots under the guard of the context.
        match unsafe { child.target() } {
            Target::Nothing => {}
            Target::Leaf(leaf) => self.first = Some(leaf),
            Target::Plain(node) | Target::Prefixed(node) => {
                self.path.extend_from_slice(node.prefix());
                let next = Next::first(self.direction);
                self.frames.push(Frame::new(node, self.path.len(), next));
            }
        }
    }

    /// The next leaf; [`Self::path`] leads to it.
    #[inline]
    pub(super) fn next_leaf(&mut self) -> Option<Leaf<'g>> {
        loop {
            if let Some(leaf) = self.first.take() {
                return Some(leaf);
            }
            let direction = self.direction;
            let frame = self.frames.last_mut()?;
            self.path.truncate(frame.path_bytes);
            let child = match frame.next {
                Next::Nothing => None,
                Next::End => {
                    frame.next = Next::after_end(direction);
                    let slot = frame.node.end_slot();
                    slot.map(|slot| Child::load(slot, &self.context.guard))
                }
                Next::Byte(from) => {
                    let found = frame.node.next(from, direction, self.context);
                    if let Some((byte, child)) = found {
                        frame.next = Next::after(byte, direction);
                        frame.ask_ahead(direction, self.context);
                        self.path.push(byte);
                        Some(child)
                    } else {
                        frame.next = match direction {
                            Direction::Forward => Next::Nothing,
                            Direction::Backward => Next::End,
                        };
                        continue;
                    }
                }
            };
            match child {
                Some(child) => self.enter(child),
                None if matches!(frame.next, Next::Nothing) => {
                    self.frames.pop();
                }
                None => {}
            }
        }
    }

    /// Nodes above the leaf that was visited last.
    pub(super) fn level(&self) -> u32 {
        self.frames.len() as u32
    }
}

/// Whether a walk from `from` includes a key.
fn is_within(key: &[u8], from: Bound<&[u8]>, direction: Direction) -> bool {
    match (from, direction) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(from), Direction::Forward) => key >= from,
        (Bound::Excluded(from), Direction::Forward) => key > from,
        (Bound::Included(from), Direction::Backward) => key <= from,
        (Bound::Excluded(from), Direction::Backward) => key < from,
    }
}

impl<V: TreeValue> Art<V> {
    /// Visits keys and their values in a direction, under as many guards as it takes.
    pub(super) fn scan_in<P: Probe>(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        probe: &P,
        mut visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let mut last: Option<Vec<u8>> = None;
        let mut is_first = true;
        loop {
            let context = Context::new(&self.memory, probe);
            let from = last.as_deref().map_or(from, Bound::Excluded);
            match self.scan_some(from, direction, &context, &mut is_first, &mut visit) {
                ControlFlow::Continue(Some(reached)) => last = Some(reached),
                ControlFlow::Continue(None) | ControlFlow::Break(()) => return,
            }
        }
    }

    /// Visits keys of so many leaves; gives the last key where there may be more.
    fn scan_some<P: Probe>(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        context: &Context<'_, '_, P>,
        is_first: &mut bool,
        visit: &mut impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) -> ControlFlow<(), Option<Vec<u8>>> {
        let root = Child::load(&self.root, &context.guard);
        let mut walk = Walk::new(root, from, direction, context);
        // Only the first leaf can have keys on the wrong side.
        let mut from = from;
        let mut leaves = 0;
        while let Some(leaf) = walk.next_leaf() {
            let mut key = std::mem::take(&mut walk.path);
            let path_bytes = key.len();
            context.follow(leaf.base().as_ptr(), leaf.bytes());
            self.frontend
                .scan_leaf(leaf.counter(), is_first, context.probe);
            let count = leaf.count();
            let mut is_any = false;
            for index in 0..count {
                let index = match direction {
                    Direction::Forward => index,
                    Direction::Backward => count - 1 - index,
                };
                if !leaf.is_live(index) {
                    continue;
                }
                key.truncate(path_bytes);
                key.extend_from_slice(leaf.suffix(index));
                if !is_within(&key, from, direction) {
                    continue;
                }
                is_any = true;
                let word = leaf.value(index).load(SeqCst);
                // SAFETY: a word of this tree's memory, read under the guard.
                visit(&key, unsafe { V::from_word(word, context) })?;
            }
            from = Bound::Unbounded;
            leaves += 1;
            if leaves >= LEAVES_PER_GUARD && is_any {
                return ControlFlow::Continue(Some(key));
            }
            walk.path = key;
        }
        ControlFlow::Continue(None)
    }
}
