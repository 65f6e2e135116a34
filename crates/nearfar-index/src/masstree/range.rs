//! Iterators in order.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow, RangeBounds};

use nearfar_model::Probe;

use super::scan::{Cursor, Limit};
use super::slice::advance_past;
use super::tree::Masstree;
use crate::context::Context;
use crate::key::Key;
use crate::value::TreeValue;

/// Pairs that an iterator takes from the tree in one step.
const BATCH: usize = 32;

/// Keys and values in order, from both ends.
///
/// It keeps no part of the tree from being changed or freed: it takes some pairs at a time. Keys that
/// are there all the while come once; those that come or go meanwhile may or may not.
pub struct MasstreeRange<'t, V: TreeValue> {
    tree: &'t Masstree<V>,
    /// What is between the two has not been taken yet, until `is_done`.
    front: Cursor,
    back: Cursor,
    is_done: bool,
    /// Taken from the front, in order.
    first: VecDeque<(Vec<u8>, V)>,
    /// Taken from the back, in order.
    last: VecDeque<(Vec<u8>, V)>,
}

impl<V: TreeValue> fmt::Debug for MasstreeRange<'_, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Range")
            .field("front", &self.front)
            .field("back", &self.back)
            .finish_non_exhaustive()
    }
}

impl<'t, V: TreeValue> MasstreeRange<'t, V> {
    fn new(tree: &'t Masstree<V>, front: Cursor, back: Cursor) -> Self {
        Self {
            tree,
            front,
            back,
            is_done: false,
            first: VecDeque::new(),
            last: VecDeque::new(),
        }
    }

    fn take_front(&mut self) {
        let (back, first) = (&self.back, &mut self.first);
        let mut is_full = false;
        let mut context = Context::native(&self.tree.memory);
        let mut visit = |key: &[u8], value| {
            let is_out = match back.limit {
                Limit::Included => key > back.key.as_slice(),
                Limit::Excluded => key >= back.key.as_slice(),
                Limit::Prefixed => false,
            };
            if is_out {
                return ControlFlow::Break(());
            }
            first.push_back((key.to_vec(), value));
            is_full = first.len() == BATCH;
            match is_full {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        self.tree
            .scan_in::<_, false>(&mut context, &mut self.front, &mut visit);
        self.is_done = !is_full;
    }

    fn take_back(&mut self) {
        let (front, last) = (&self.front, &mut self.last);
        let mut is_full = false;
        let mut context = Context::native(&self.tree.memory);
        let mut visit = |key: &[u8], value| {
            let is_out = match front.limit {
                Limit::Included => key < front.key.as_slice(),
                _ => key <= front.key.as_slice(),
            };
            if is_out {
                return ControlFlow::Break(());
            }
            last.push_front((key.to_vec(), value));
            is_full = last.len() == BATCH;
            match is_full {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        self.tree
            .scan_in::<_, true>(&mut context, &mut self.back, &mut visit);
        self.is_done = !is_full;
    }
}

impl<V: TreeValue> Iterator for MasstreeRange<'_, V> {
    type Item = (Vec<u8>, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.first.is_empty() && !self.is_done {
            self.take_front();
        }
        self.first.pop_front().or_else(|| self.last.pop_front())
    }
}

impl<V: TreeValue> DoubleEndedIterator for MasstreeRange<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.last.is_empty() && !self.is_done {
            self.take_back();
        }
        self.last.pop_back().or_else(|| self.first.pop_back())
    }
}

impl<V: TreeValue> FusedIterator for MasstreeRange<'_, V> {}

/// The cursors of a range between two keys.
fn lower(bound: Bound<&[u8]>) -> Cursor {
    match bound {
        Bound::Included(key) => Cursor::new(key, Limit::Included),
        Bound::Excluded(key) => Cursor::new(key, Limit::Excluded),
        Bound::Unbounded => Cursor::new(&[], Limit::Included),
    }
}

fn upper(bound: Bound<&[u8]>) -> Cursor {
    match bound {
        Bound::Included(key) => Cursor::new(key, Limit::Included),
        Bound::Excluded(key) => Cursor::new(key, Limit::Excluded),
        Bound::Unbounded => Cursor::new(&[], Limit::Prefixed),
    }
}

impl<V: TreeValue> Masstree<V> {
    /// The keys between two bounds and their values, in order.
    ///
    /// ```
    /// let tree: nearfar_index::Masstree<u64> = (0..100_u64).map(|n| (n, n * n)).collect();
    /// let squares: Vec<u64> = tree.range(3_u64..6).map(|(_, square)| square).collect();
    /// assert_eq!(squares, [9, 16, 25]);
    /// assert_eq!(tree.range(90_u64..).next_back().unwrap().1, 99 * 99);
    /// ```
    #[must_use]
    pub fn range<K: Key>(&self, range: impl RangeBounds<K>) -> MasstreeRange<'_, V> {
        let start = range.start_bound().map(Key::key_bytes);
        let end = range.end_bound().map(Key::key_bytes);
        let front = lower(start.as_ref().map(AsRef::as_ref));
        MasstreeRange::new(self, front, upper(end.as_ref().map(AsRef::as_ref)))
    }

    /// The keys that begin with `prefix` and their values, in order.
    ///
    /// ```
    /// let tree = nearfar_index::Masstree::new();
    /// for (number, name) in ["far", "farther", "near"].iter().enumerate() {
    ///     tree.insert(name, number)?;
    /// }
    /// let far: Vec<_> = tree.prefix("far").map(|(key, _)| key).collect();
    /// assert_eq!(far, [b"far".to_vec(), b"farther".to_vec()]);
    /// # Ok::<(), nearfar_index::TreeError>(())
    /// ```
    #[must_use]
    pub fn prefix(&self, prefix: &(impl Key + ?Sized)) -> MasstreeRange<'_, V> {
        let bytes = prefix.key_bytes();
        let mut end = bytes.as_ref().to_vec();
        let back = match advance_past(&mut end) {
            true => upper(Bound::Excluded(&end)),
            false => upper(Bound::Unbounded),
        };
        MasstreeRange::new(self, lower(Bound::Included(bytes.as_ref())), back)
    }

    /// All keys and values, in order.
    #[must_use]
    pub fn iter(&self) -> MasstreeRange<'_, V> {
        MasstreeRange::new(self, lower(Bound::Unbounded), upper(Bound::Unbounded))
    }

    /// The least key and its value.
    #[must_use]
    pub fn first(&self) -> Option<(Vec<u8>, V)> {
        let mut found = None;
        self.scan(&[][..], |key, value| {
            found = Some((key.to_vec(), value));
            ControlFlow::Break(())
        });
        found
    }

    /// The greatest key and its value.
    #[must_use]
    pub fn last(&self) -> Option<(Vec<u8>, V)> {
        let mut found = None;
        let mut context = Context::native(&self.memory);
        let mut cursor = upper(Bound::Unbounded);
        let mut visit = |key: &[u8], value| {
            found = Some((key.to_vec(), value));
            ControlFlow::Break(())
        };
        self.scan_in::<_, true>(&mut context, &mut cursor, &mut visit);
        found
    }

    /// Visits keys and values upwards from `from` on, until the visitor breaks off.
    ///
    /// This is the fastest way to read many: nothing is copied but the key. Every few leaves, the
    /// scan lets go of what it has passed, so that it may take as long as it likes.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// let tree: nearfar_index::Masstree<u64> = (0..100_u64).map(|n| (n, n)).collect();
    /// let mut sum = 0;
    /// tree.scan(&10_u64, |_key, value| {
    ///     sum += value;
    ///     if value < 12 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// });
    /// assert_eq!(sum, 10 + 11 + 12);
    /// ```
    #[inline]
    pub fn scan(&self, from: &(impl Key + ?Sized), visit: impl FnMut(&[u8], V) -> ControlFlow<()>) {
        let mut context = Context::native(&self.memory);
        self.scan_from::<_, false>(&mut context, from.key_bytes().as_ref(), visit);
    }

    /// As [`Self::scan`], downwards from `from` on.
    #[inline]
    pub fn scan_back(
        &self,
        from: &(impl Key + ?Sized),
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let mut context = Context::native(&self.memory);
        self.scan_from::<_, true>(&mut context, from.key_bytes().as_ref(), visit);
    }

    #[inline]
    pub(super) fn scan_from<P: Probe, const BACK: bool>(
        &self,
        context: &mut Context<'_, '_, P>,
        from: &[u8],
        mut visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let mut cursor = Cursor::new(from, Limit::Included);
        self.scan_in::<P, BACK>(context, &mut cursor, &mut visit);
    }
}

impl<'t, V: TreeValue> IntoIterator for &'t Masstree<V> {
    type Item = (Vec<u8>, V);
    type IntoIter = MasstreeRange<'t, V>;

    fn into_iter(self) -> MasstreeRange<'t, V> {
        self.iter()
    }
}
