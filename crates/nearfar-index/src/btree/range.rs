//! Iterators over pairs in order.

use std::ops::{Bound, RangeBounds};
use std::vec;

use super::node::KeyRange;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::value::TreeValue;

/// The pairs of a range of keys, from both ends. It copies a leaf at a time and holds nothing of
/// the tree in between, so it may be kept for as long as one likes; what others change meanwhile
/// may or may not be seen.
#[derive(Debug)]
pub struct BPlusTreeRange<'t, V: TreeValue> {
    tree: &'t BPlusTree<V>,
    /// The keys between what the front and the back have copied.
    rest: Option<KeyRange>,
    front: vec::IntoIter<(u64, V)>,
    back: vec::IntoIter<(u64, V)>,
}

impl<V: TreeValue> BPlusTree<V> {
    /// The pairs of a range of keys, in order; none where it ends before it begins.
    ///
    /// ```
    /// use nearfar_index::BPlusTree;
    ///
    /// let tree: BPlusTree<u64> = (0..1000).map(|key| (key, key * 2)).collect();
    /// assert_eq!(tree.range(10..13).map(|(_, value)| value).sum::<u64>(), 20 + 22 + 24);
    /// assert_eq!(tree.range(..=10).next_back(), Some((10, 20)));
    /// ```
    pub fn range(&self, keys: impl RangeBounds<u64>) -> BPlusTreeRange<'_, V> {
        let low = match keys.start_bound() {
            Bound::Included(key) => Some(*key),
            Bound::Excluded(key) => key.checked_add(1),
            Bound::Unbounded => Some(u64::MIN),
        };
        let high = match keys.end_bound() {
            Bound::Included(key) => Some(*key),
            Bound::Excluded(key) => key.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let rest = low.zip(high).map(|(low, high)| KeyRange { low, high });
        BPlusTreeRange {
            tree: self,
            rest: rest.filter(|rest| rest.low <= rest.high),
            front: Vec::new().into_iter(),
            back: Vec::new().into_iter(),
        }
    }

    /// All pairs, in order.
    pub fn iter(&self) -> BPlusTreeRange<'_, V> {
        self.range(..)
    }

    /// The pair with the smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(u64, V)> {
        self.iter().next()
    }

    /// The pair with the largest key.
    #[must_use]
    pub fn last(&self) -> Option<(u64, V)> {
        self.iter().next_back()
    }
}

impl<V: TreeValue> BPlusTreeRange<'_, V> {
    /// The pairs of `rest` that lie in the leaf for `key`, and the keys of that leaf.
    fn copy_leaf(&self, key: u64, rest: KeyRange) -> (vec::IntoIter<(u64, V)>, KeyRange) {
        let context = Context::native(&self.tree.memory);
        let (pairs, range) = self.tree.leaf_pairs(&context, key);
        let wanted = pairs
            .into_iter()
            .filter(|(key, _)| (rest.low..=rest.high).contains(key))
            // SAFETY: the words were the tree's under this guard.
            .map(|(key, word)| (key, unsafe { V::from_word(word, &context) }))
            .collect::<Vec<_>>();
        (wanted.into_iter(), range)
    }
}

impl<V: TreeValue> Iterator for BPlusTreeRange<'_, V> {
    type Item = (u64, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.front.next() {
                return Some(pair);
            }
            let Some(rest) = self.rest.take() else {
                return self.back.next();
            };
            let (pairs, leaf) = self.copy_leaf(rest.low, rest);
            self.front = pairs;
            if leaf.high < rest.high {
                self.rest = Some(KeyRange {
                    low: leaf.high + 1,
                    ..rest
                });
            }
        }
    }
}

impl<V: TreeValue> DoubleEndedIterator for BPlusTreeRange<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.back.next_back() {
                return Some(pair);
            }
            let Some(rest) = self.rest.take() else {
                return self.front.next_back();
            };
            let (pairs, leaf) = self.copy_leaf(rest.high, rest);
            self.back = pairs;
            if leaf.low > rest.low {
                self.rest = Some(KeyRange {
                    high: leaf.low - 1,
                    ..rest
                });
            }
        }
    }
}

impl<V: TreeValue> std::iter::FusedIterator for BPlusTreeRange<'_, V> {}

impl<'t, V: TreeValue> IntoIterator for &'t BPlusTree<V> {
    type Item = (u64, V);
    type IntoIter = BPlusTreeRange<'t, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
