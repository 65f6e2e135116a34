//! The tree and its interface.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use super::handle::{At, Kind, free_node};
use super::insert::{Existing, KEY_BYTES_MAX};
use super::node::Node;
use super::record::{Record, pointer_to_word};
use super::slice::{LAYER, SUFFIX};
use crate::context::Context;
use crate::count::Count;
use crate::error::TreeError;
use crate::key::Key;
use crate::lock::OptimisticLock;
use crate::memory::NodeMemory;
use crate::placement::Frontend;
use crate::value::TreeValue;

/// The pointer to the root, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Anchor {
    pub(super) lock: OptimisticLock,
    /// Null until the first key comes.
    pub(super) root: AtomicPtr<Node>,
}

/// The height of the whole trie, which takes a walk to find out, kept until it may be another one.
#[derive(Debug, Default)]
pub(super) struct Height {
    /// Roots of layers that came or went.
    changes: AtomicU64,
    /// The height that was found last, and above it, the changes until then.
    found: AtomicU64,
}

const HEIGHT_BITS: u32 = 16;

impl Height {
    /// A root of a layer came or went, as everybody can see by now.
    pub(super) fn may_change(&self) {
        self.changes.fetch_add(1, Release);
    }

    /// The height, which `find` finds out if need be.
    pub(super) fn get(&self, find: impl FnOnce() -> u32) -> u32 {
        // Changes that come in the middle of the walk make what it finds void.
        let changes = self.changes.load(Acquire) << HEIGHT_BITS;
        let found = self.found.load(Relaxed);
        let height = found & ((1 << HEIGHT_BITS) - 1);
        if height > 0 && found - height == changes {
            return height as u32;
        }
        let height = find();
        self.found.store(changes | u64::from(height), Relaxed);
        height
    }
}

/// A concurrent ordered map from byte strings to values: a trie of B+trees over slices of eight
/// bytes (Mao, Kohler, Morris: Cache Craftiness for Fast Multicore Key-Value Storage, EuroSys 2012).
///
/// All operations take `&self`, from any number of threads. Keys are byte strings of at most
/// [`Masstree::KEY_BYTES_MAX`] bytes, or anything that is a [`Key`]; values are [`TreeValue`]s.
///
/// ```
/// use nearfar_index::Masstree;
///
/// let tree = Masstree::new();
/// tree.insert("near", 80)?;
/// tree.insert("far", 200)?;
/// assert_eq!(tree.insert("far", 250)?, Some(200));
/// assert_eq!(tree.get("far"), Some(250));
/// assert_eq!(tree.remove("near"), Some(80));
/// assert_eq!(tree.len(), 1);
/// # Ok::<(), nearfar_index::TreeError>(())
/// ```
pub struct Masstree<V: TreeValue> {
    pub(super) anchor: Anchor,
    pub(super) frontend: Frontend,
    pub(super) count: Count,
    pub(super) height: Height,
    pub(super) memory: NodeMemory,
    values: PhantomData<V>,
}

impl<V: TreeValue> Masstree<V> {
    /// The longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = KEY_BYTES_MAX;

    /// An empty tree on the platform's memory.
    #[must_use]
    pub fn new() -> Self {
        Self::with_memory(NodeMemory::platform(), Frontend::all_near())
    }

    /// An empty tree on this memory, whose nodes lie where `frontend` says. It takes no memory
    /// until the first key comes.
    #[must_use]
    pub fn with_memory(memory: NodeMemory, frontend: Frontend) -> Self {
        Self {
            anchor: Anchor {
                lock: OptimisticLock::new(),
                root: AtomicPtr::new(std::ptr::null_mut()),
            },
            frontend,
            count: Count::default(),
            height: Height::default(),
            memory,
            values: PhantomData,
        }
    }

    /// The memory of the nodes.
    #[must_use]
    pub fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    /// What the tree asks when it allocates.
    #[must_use]
    pub fn frontend(&self) -> &Frontend {
        &self.frontend
    }

    /// The number of keys: exact when nobody writes meanwhile.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.get()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        let context = Context::native(&self.memory);
        self.get_in(&context, key.key_bytes().as_ref())
    }

    /// Whether a key is there.
    #[inline]
    #[must_use]
    pub fn contains_key(&self, key: &(impl Key + ?Sized)) -> bool {
        self.get(key).is_some()
    }

    /// Looks up many keys together, and appends what they have to `values`, in order.
    ///
    /// Lookups take turns while their nodes are on the way from memory, which makes this several
    /// times as fast as [`Self::get`] where the tree is much larger than the cache.
    ///
    /// ```
    /// let tree: nearfar_index::Masstree<u64> = (0..100_u64).map(|n| (n, n * n)).collect();
    /// let mut values = Vec::new();
    /// tree.get_batch(&[7_u64, 700, 9], &mut values);
    /// assert_eq!(values, [Some(49), None, Some(81)]);
    /// ```
    pub fn get_batch<K: Key>(&self, keys: &[K], values: &mut Vec<Option<V>>) {
        let context = Context::native(&self.memory);
        self.get_batch_in(&context, keys, values);
    }

    /// Sets the value of a key and returns the one it had.
    ///
    /// # Errors
    /// [`TreeError`]: there is no memory, or the key is too long. The tree is as it was.
    #[inline]
    pub fn insert(&self, key: &(impl Key + ?Sized), value: V) -> Result<Option<V>, TreeError> {
        let context = Context::native(&self.memory);
        let key = key.key_bytes();
        self.put(&context, key.as_ref(), value, Existing::Replace)
    }

    /// Adds a key unless it is there: returns the value that it has already.
    ///
    /// ```
    /// let tree = nearfar_index::Masstree::new();
    /// assert_eq!(tree.get_or_insert("key", 1)?, None);
    /// assert_eq!(tree.get_or_insert("key", 2)?, Some(1));
    /// # Ok::<(), nearfar_index::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn get_or_insert(
        &self,
        key: &(impl Key + ?Sized),
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::native(&self.memory);
        let key = key.key_bytes();
        self.put(&context, key.as_ref(), value, Existing::Keep)
    }

    /// Sets the value of a key to what `change` makes of it, and returns that; `None` where the key
    /// is not there. Nobody else's change comes in between: `change` is called again if one did.
    ///
    /// ```
    /// let tree = nearfar_index::Masstree::new();
    /// tree.insert("count", 1)?;
    /// assert_eq!(tree.update("count", |count| count + 1)?, Some(2));
    /// assert_eq!(tree.update("other", |count| count + 1)?, None);
    /// # Ok::<(), nearfar_index::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`]: there is no memory for the new value. The old one stays.
    #[inline]
    pub fn update(
        &self,
        key: &(impl Key + ?Sized),
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::native(&self.memory);
        self.update_in(&context, key.key_bytes().as_ref(), change)
    }

    /// Takes a key out and returns its value.
    #[inline]
    pub fn remove(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        let context = Context::native(&self.memory);
        self.remove_in(&context, key.key_bytes().as_ref())
    }
}

impl<V: TreeValue> Default for Masstree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: TreeValue> Drop for Masstree<V> {
    fn drop(&mut self) {
        let mut nodes = vec![*self.anchor.root.get_mut()];
        while let Some(node) = nodes.pop() {
            if node.is_null() {
                continue;
            }
            // SAFETY: nobody else has the tree any more; each node is in one place of it.
            match unsafe { At::<Node>::new(node) }.kind() {
                Kind::Leaf(leaf) => {
                    for entry in leaf.entries() {
                        match entry.class {
                            LAYER => nodes.push(entry.word),
                            // SAFETY: as above; the class says what the word is.
                            SUFFIX => unsafe { self.free_record(entry.word) },
                            // SAFETY: as above.
                            _ => unsafe { V::free_word(pointer_to_word(entry.word), &self.memory) },
                        }
                    }
                }
                Kind::Inner(inner) => {
                    nodes.extend((0..=inner.count()).map(|at| inner.child(at).load(Relaxed)));
                }
            }
            // SAFETY: as above.
            unsafe { free_node(node, &self.memory) };
        }
    }
}

impl<V: TreeValue> Masstree<V> {
    /// Frees a record with its value.
    ///
    /// # Safety
    /// The word is a record's, which nobody can reach.
    pub(super) unsafe fn free_record(&self, word: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe {
            let value = Record::of(word).value.load(Relaxed);
            V::free_word(pointer_to_word(value), &self.memory);
            Record::free(word, &self.memory);
        }
    }
}

impl<V: TreeValue> fmt::Debug for Masstree<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Masstree")
            .field("len", &self.len())
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: TreeValue> Extend<(K, V)> for Masstree<V> {
    /// Inserts all.
    ///
    /// # Panics
    /// Where [`Masstree::insert`] fails.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            if let Err(error) = self.insert(key.borrow(), value) {
                panic!("{error}");
            }
        }
    }
}

impl<K: Key, V: TreeValue> FromIterator<(K, V)> for Masstree<V> {
    /// A tree on the platform's memory.
    ///
    /// # Panics
    /// As [`Extend::extend`].
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut tree = Self::new();
        tree.extend(pairs);
        tree
    }
}
