//! Iterators over ranges of keys.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow};

use nearfar_model::Native;

use super::Art;
use super::children::Direction;
use crate::key::Key;
use crate::value::TreeValue;

/// Items that are copied at first, and at most.
const CHUNK_FIRST: usize = 8;
const CHUNK_MAX: usize = 256;

/// The bytes of a bound.
pub(super) fn bytes_of<K: Key>(bound: Bound<&K>) -> Bound<Vec<u8>> {
    bound.map(|key| key.key_bytes().as_ref().to_vec())
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The keys of a range and their values, in order; made by [`Art::range`] and its like.
///
/// Items are copied some at a time, so what it gives is not older than the last copy.
pub struct ArtRange<'t, V: TreeValue> {
    tree: &'t Art<V>,
    /// What was not copied yet lies between these.
    front: Bound<Vec<u8>>,
    back: Bound<Vec<u8>>,
    /// Copied from the front, in order.
    front_items: VecDeque<(Vec<u8>, V)>,
    /// Copied from the back, in reverse order.
    back_items: VecDeque<(Vec<u8>, V)>,
    chunk: usize,
}

impl<'t, V: TreeValue> ArtRange<'t, V> {
    pub(super) fn new(tree: &'t Art<V>, front: Bound<Vec<u8>>, back: Bound<Vec<u8>>) -> Self {
        Self {
            tree,
            front,
            back,
            front_items: VecDeque::new(),
            back_items: VecDeque::new(),
            chunk: CHUNK_FIRST,
        }
    }

    /// Copies the next items of a direction.
    fn fill(&mut self, direction: Direction) {
        let (from, to) = match direction {
            Direction::Forward => (&self.front, &self.back),
            Direction::Backward => (&self.back, &self.front),
        };
        let items = match direction {
            Direction::Forward => &mut self.front_items,
            Direction::Backward => &mut self.back_items,
        };
        let chunk = self.chunk;
        self.chunk = (2 * chunk).min(CHUNK_MAX);
        self.tree
            .scan_in(as_slice(from), direction, &Native, |key, value| {
                let is_inside = match (to, direction) {
                    (Bound::Unbounded, _) => true,
                    (Bound::Included(to), Direction::Forward) => key <= to.as_slice(),
                    (Bound::Excluded(to), Direction::Forward) => key < to.as_slice(),
                    (Bound::Included(to), Direction::Backward) => key >= to.as_slice(),
                    (Bound::Excluded(to), Direction::Backward) => key > to.as_slice(),
                };
                if !is_inside {
                    return ControlFlow::Break(());
                }
                items.push_back((key.to_vec(), value));
                if items.len() < chunk {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        // Fewer than asked for: nothing is left between the bounds.
        let reached = items.back().map(|(key, _)| Bound::Excluded(key.clone()));
        let is_all = items.len() < chunk;
        let from = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        if let Some(reached) = reached {
            *from = reached;
        }
        if is_all {
            self.front = Bound::Excluded(Vec::new());
            self.back = Bound::Excluded(Vec::new());
        }
    }

    fn is_copied(&self) -> bool {
        matches!(&self.back, Bound::Excluded(key) if key.is_empty())
    }
}

impl<V: TreeValue> Iterator for ArtRange<'_, V> {
    type Item = (Vec<u8>, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front_items.is_empty() && !self.is_copied() {
            self.fill(Direction::Forward);
        }
        self.front_items
            .pop_front()
            .or_else(|| self.back_items.pop_back())
    }
}

impl<V: TreeValue> DoubleEndedIterator for ArtRange<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back_items.is_empty() && !self.is_copied() {
            self.fill(Direction::Backward);
        }
        self.back_items
            .pop_front()
            .or_else(|| self.front_items.pop_back())
    }
}

impl<V: TreeValue> FusedIterator for ArtRange<'_, V> {}

impl<V: TreeValue> fmt::Debug for ArtRange<'_, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ArtRange")
            .field("front", &self.front)
            .field("back", &self.back)
            .finish_non_exhaustive()
    }
}
