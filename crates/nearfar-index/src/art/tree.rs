//! The map and its interface.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use nearfar_model::Native;

use super::build::free_subtree;
use super::child::{Child, Slot};
use super::children::Direction;
use super::insert::{KEY_BYTES_MAX, Present};
use super::range::{ArtRange, bytes_of};
use crate::context::Context;
use crate::count::Count;
use crate::error::TreeError;
use crate::key::Key;
use crate::lock::OptimisticLock;
use crate::memory::NodeMemory;
use crate::placement::Frontend;
use crate::value::TreeValue;

/// A concurrent ordered map from byte strings to values: an adaptive radix tree.
///
/// All methods take `&self` and can be called from many threads. Lookups take no lock. A lookup,
/// an insertion or a removal happens at one moment between its call and its return; a scan sees
/// each key as it was at some moment of the scan.
///
/// ```
/// use nearfar_index::Art;
///
/// let ages = Art::new();
/// ages.insert("Ada", 36_u64)?;
/// ages.insert("Grace", 85)?;
/// assert_eq!(ages.insert("Ada", 37)?, Some(36));
/// assert_eq!(ages.get("Ada"), Some(37));
/// assert_eq!(ages.update("Grace", |age| age + 1)?, Some(86));
/// let names: Vec<_> = ages.range("B"..).map(|(name, _)| name).collect();
/// assert_eq!(names, [b"Grace"]);
/// assert_eq!(ages.remove("Ada"), Some(37));
/// assert_eq!(ages.len(), 1);
/// # Ok::<(), nearfar_index::TreeError>(())
/// ```
pub struct Art<V: TreeValue> {
    pub(super) root: Slot,
    /// Keeps other writers from `root`, as a node's lock does from its slots.
    pub(super) root_lock: OptimisticLock,
    pub(super) count: Count,
    pub(super) frontend: Frontend,
    pub(super) memory: NodeMemory,
    pub(super) values: PhantomData<V>,
}

impl<V: TreeValue> Art<V> {
    /// The longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = KEY_BYTES_MAX;

    /// An empty map in ordinary memory.
    #[must_use]
    pub fn new() -> Self {
        Self::with_memory(NodeMemory::platform(), Frontend::all_near())
    }

    /// An empty map in `memory`, whose new nodes lie where `frontend` says. It takes no memory
    /// until the first key comes.
    ///
    /// ```
    /// use nearfar_index::Art;
    /// use nearfar_index::memory::NodeMemory;
    /// use nearfar_index::placement::{Allocation, Frontend, Tracking};
    ///
    /// let memory = NodeMemory::platform_with_budgets(&[1 << 20, 1 << 30]);
    /// let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
    /// let map = Art::with_memory(memory, frontend);
    /// map.insert(&7_u32, 49_u64)?;
    /// # Ok::<(), nearfar_index::TreeError>(())
    /// ```
    #[must_use]
    pub fn with_memory(memory: NodeMemory, frontend: Frontend) -> Self {
        Self {
            root: AtomicPtr::default(),
            root_lock: OptimisticLock::new(),
            count: Count::default(),
            frontend,
            memory,
            values: PhantomData,
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        self.get_in(key.key_bytes().as_ref(), &Context::native(&self.memory))
    }

    /// Whether a key is there.
    pub fn contains_key(&self, key: &(impl Key + ?Sized)) -> bool {
        let context = Context::native(&self.memory);
        let bytes = key.key_bytes();
        let found = self.leaf_of(bytes.as_ref(), &context);
        found.is_some_and(|(leaf, rest)| leaf.find(rest).is_some())
    }

    /// Gives a key a value, and returns the one that it had.
    ///
    /// # Errors
    /// [`TreeError`]; the map is as it was.
    #[inline]
    pub fn insert(&self, key: &(impl Key + ?Sized), value: V) -> Result<Option<V>, TreeError> {
        self.insert_in(
            key.key_bytes().as_ref(),
            value,
            Present::Replace,
            &Context::native(&self.memory),
        )
    }

    /// Gives a key a value if it has none, and returns the one that it has already, at one
    /// moment: of many threads that do so, one gets `None`.
    ///
    /// # Errors
    /// [`TreeError`]; the map is as it was.
    pub fn get_or_insert(
        &self,
        key: &(impl Key + ?Sized),
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::native(&self.memory);
        self.insert_in(key.key_bytes().as_ref(), value, Present::Keep, &context)
    }

    /// Changes the value of a key, and returns the new one; `None` where the key is not there.
    ///
    /// `change` is called again where somebody else has changed the value meanwhile, so that no
    /// change is lost. It may use the map.
    ///
    /// # Errors
    /// [`TreeError`]: no memory for the new value. The map is as it was.
    pub fn update(
        &self,
        key: &(impl Key + ?Sized),
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        self.update_in(
            key.key_bytes().as_ref(),
            change,
            &Context::native(&self.memory),
        )
    }

    /// Removes a key, and returns its value.
    pub fn remove(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        self.remove_in(key.key_bytes().as_ref(), &Context::native(&self.memory))
    }

    /// The first key and its value.
    pub fn first(&self) -> Option<(Vec<u8>, V)> {
        self.iter().next()
    }

    /// The last key and its value.
    pub fn last(&self) -> Option<(Vec<u8>, V)> {
        self.iter().next_back()
    }

    /// The keys of a range in order, with their values, from both ends. It copies some at a time,
    /// and keeps no memory from being freed between two items.
    ///
    /// ```
    /// use nearfar_index::Art;
    ///
    /// let map: Art<u32> = (0..100_u16).map(|key| (key, u32::from(key))).collect();
    /// let values = map.range(10_u16..13).map(|(_, value)| value);
    /// assert_eq!(values.collect::<Vec<_>>(), [10, 11, 12]);
    /// assert_eq!(map.range(..=5_u16).next_back(), Some((vec![0, 5], 5)));
    /// ```
    pub fn range<K: Key>(&self, range: impl RangeBounds<K>) -> ArtRange<'_, V> {
        ArtRange::new(
            self,
            bytes_of(range.start_bound()),
            bytes_of(range.end_bound()),
        )
    }

    /// The keys that begin with some bytes, in order.
    ///
    /// ```
    /// use nearfar_index::Art;
    ///
    /// let map: Art<u8> = [("far", 1), ("farther", 2), ("fast", 3)].into_iter().collect();
    /// assert_eq!(map.prefix("far").count(), 2);
    /// ```
    pub fn prefix(&self, prefix: &(impl Key + ?Sized)) -> ArtRange<'_, V> {
        let prefix = prefix.key_bytes().as_ref().to_vec();
        let kept = prefix.iter().rposition(|byte| *byte != u8::MAX);
        let end = kept.map_or(Bound::Unbounded, |at| {
            let mut end = prefix[..=at].to_vec();
            end[at] += 1;
            Bound::Excluded(end)
        });
        ArtRange::new(self, Bound::Included(prefix), end)
    }

    /// All keys in order.
    pub fn iter(&self) -> ArtRange<'_, V> {
        ArtRange::new(self, Bound::Unbounded, Bound::Unbounded)
    }

    /// Calls `visit` with the keys from `from` on and their values, in order, until it breaks: the
    /// fastest way through many keys, since it copies none of them.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use nearfar_index::Art;
    ///
    /// let map: Art<u64> = (0..100_u64).map(|key| (key, key)).collect();
    /// let mut sum = 0;
    /// map.scan(&98_u64, |_, value| {
    ///     sum += value;
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(sum, 98 + 99);
    /// ```
    pub fn scan(&self, from: &(impl Key + ?Sized), visit: impl FnMut(&[u8], V) -> ControlFlow<()>) {
        let from = from.key_bytes();
        let from = Bound::Included(from.as_ref());
        self.scan_in(from, Direction::Forward, &Native, visit);
    }

    /// As [`Self::scan`], from `from` back to the first key.
    pub fn scan_back(
        &self,
        from: &(impl Key + ?Sized),
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let from = Bound::Included(from.as_ref());
        self.scan_in(from, Direction::Backward, &Native, visit);
    }

    /// Looks many keys up together, and appends their values: much faster than one by one where the
    /// map is larger than the caches, since the waits for memory overlap.
    ///
    /// ```
    /// use nearfar_index::Art;
    ///
    /// let map: Art<u64> = (0..100_u64).map(|key| (key, key)).collect();
    /// let mut values = Vec::new();
    /// map.get_batch(&[7_u64, 700], &mut values);
    /// assert_eq!(values, [Some(7), None]);
    /// ```
    pub fn get_batch<K: Key>(&self, keys: &[K], values: &mut Vec<Option<V>>) {
        self.get_batch_in(keys, values, &Context::native(&self.memory));
    }

    /// Keys; exact when nobody adds or removes some meanwhile.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.get()
    }

    /// Whether there are no keys; exact as [`Self::len`] is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the nodes and values.
    #[must_use]
    pub fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    /// What decides where new nodes go, and counts uses.
    #[must_use]
    pub fn frontend(&self) -> &Frontend {
        &self.frontend
    }
}

impl<V: TreeValue> Drop for Art<V> {
    fn drop(&mut self) {
        let root = Child::load_alone(&self.root);
        // SAFETY: nobody else has the tree, and all that is in it came from its memory.
        unsafe {
            free_subtree(root, &self.memory, |word| {
                if !V::INLINE {
                    V::free_word(word, &self.memory);
                }
            });
        }
        self.root.store(std::ptr::null_mut(), Relaxed);
    }
}

impl<V: TreeValue> Default for Art<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: TreeValue + fmt::Debug> fmt::Debug for Art<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self).finish()
    }
}

impl<V: TreeValue, K: Key> Extend<(K, V)> for Art<V> {
    /// # Panics
    /// Where [`Art::insert`] fails: when the memory has no room, or a key is too long.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            if let Err(error) = self.insert(&key, value) {
                panic!("{error}");
            }
        }
    }
}

impl<V: TreeValue, K: Key> FromIterator<(K, V)> for Art<V> {
    /// # Panics
    /// Where [`Art::insert`] fails: when the memory has no room, or a key is too long.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl<'t, V: TreeValue> IntoIterator for &'t Art<V> {
    type Item = (Vec<u8>, V);
    type IntoIter = ArtRange<'t, V>;

    fn into_iter(self) -> ArtRange<'t, V> {
        self.iter()
    }
}
