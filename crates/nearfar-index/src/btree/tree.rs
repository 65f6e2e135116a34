//! The map: how it is made, its plain interface, and its end.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicPtr;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::geometry::Geometry;
use super::node::{Header, Node};
use super::options::{BPlusTreeError, BPlusTreeOptions};
use crate::context::Context;
use crate::count::Count;
use crate::error::TreeError;
use crate::lock::OptimisticLock;
use crate::memory::{NodeMemory, OutOfMemory, Purpose};
use crate::placement::{Frontend, NewNode};
use crate::value::TreeValue;

/// A concurrent ordered map from 64-bit keys to values of a word, or bytes beside the leaf.
///
/// Any number of threads may use it concurrently through a shared reference.
///
/// ```
/// use nearfar_index::BPlusTree;
///
/// let tree = BPlusTree::new();
/// assert_eq!(tree.insert(7, 70)?, None);
/// assert_eq!(tree.insert(3, 30)?, None);
/// assert_eq!(tree.insert(7, 71)?, Some(70));
/// assert_eq!(tree.get(7), Some(71));
/// assert_eq!(tree.update(3, |value: u64| value + 1)?, Some(31));
/// assert_eq!(tree.range(..).collect::<Vec<_>>(), [(3, 31), (7, 71)]);
/// assert_eq!(tree.remove(3), Some(31));
/// assert_eq!(tree.len(), 1);
/// # Ok::<(), nearfar_index::TreeError>(())
/// ```
pub struct BPlusTree<V: TreeValue> {
    /// Protects `root`, as the lock of a parent does its children.
    pub(super) root_lock: OptimisticLock,
    pub(super) root: AtomicPtr<Header>,
    pub(super) geometry: Geometry,
    pub(super) frontend: Frontend,
    pub(super) memory: NodeMemory,
    pub(super) keys: Count,
    values: PhantomData<V>,
}

impl<V: TreeValue> BPlusTree<V> {
    /// An empty tree in the platform's memory.
    ///
    /// # Panics
    /// When the process has no memory for a node.
    #[must_use]
    pub fn new() -> Self {
        Self::with_memory(NodeMemory::platform(), Frontend::all_near())
            .expect("memory for the first node")
    }

    /// An empty tree in `memory`, whose tiers `frontend` chooses from.
    ///
    /// # Errors
    /// [`BPlusTreeError::OutOfMemory`]: no tier has room for the root.
    pub fn with_memory(memory: NodeMemory, frontend: Frontend) -> Result<Self, BPlusTreeError> {
        Self::with_options(memory, frontend, BPlusTreeOptions::default())
    }

    /// An empty tree with nodes of a size of one's choice.
    ///
    /// ```
    /// use nearfar_index::memory::NodeMemory;
    /// use nearfar_index::placement::Frontend;
    /// use nearfar_index::{BPlusTree, BPlusTreeOptions};
    ///
    /// let options = |node_bytes| BPlusTreeOptions { node_bytes, ..Default::default() };
    /// let with = |options| {
    ///     BPlusTree::<u64>::with_options(NodeMemory::platform(), Frontend::all_near(), options)
    /// };
    /// assert_eq!(with(options(512))?.node_bytes(), 512);
    /// assert!(with(options(1000)).is_err());
    /// # Ok::<(), nearfar_index::BPlusTreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`BPlusTreeError::NodeBytes`], [`BPlusTreeError::OutOfMemory`].
    pub fn with_options(
        memory: NodeMemory,
        frontend: Frontend,
        options: BPlusTreeOptions,
    ) -> Result<Self, BPlusTreeError> {
        let tree = Self {
            root_lock: OptimisticLock::new(),
            root: AtomicPtr::default(),
            geometry: options.geometry()?,
            frontend,
            memory,
            keys: Count::default(),
            values: PhantomData,
        };
        let context = Context::native(&tree.memory);
        let root = tree.new_node(&context, tree.node_at(0, 0, TierId::NEAR), 0, 0)?;
        tree.root
            .store(root.as_ptr(), std::sync::atomic::Ordering::Release);
        drop(context);
        Ok(tree)
    }

    /// Bytes of a node.
    #[must_use]
    pub fn node_bytes(&self) -> usize {
        self.geometry.bytes()
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

    /// The number of keys: exact when nobody inserts or removes meanwhile.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.get()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn native(&self) -> Context<'_, 'static> {
        Context::native(&self.memory)
    }

    /// The value of a key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<V> {
        self.get_in(&self.native(), key)
    }

    /// Whether a key is there.
    #[inline]
    #[must_use]
    pub fn contains_key(&self, key: u64) -> bool {
        self.contains_in(&self.native(), key)
    }

    /// Sets the value of a key, and returns the one before.
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`]: the tree is as it was.
    #[inline]
    pub fn insert(&self, key: u64, value: V) -> Result<Option<V>, TreeError> {
        Ok(self.insert_in(&self.native(), key, value)?)
    }

    /// Returns the value of a key, or sets it if there is none, in one step: of several threads
    /// that try, one sets it.
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`]: the tree is as it was.
    #[inline]
    pub fn get_or_insert(&self, key: u64, value: V) -> Result<Option<V>, TreeError> {
        Ok(self.get_or_insert_in(&self.native(), key, value)?)
    }

    /// Changes the value of a key in one step, and returns the new one; `None` where the key is
    /// not there. Where others write at the same moment, `change` is called again with the value
    /// that is there then.
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`]: the value is as it was.
    #[inline]
    pub fn update(&self, key: u64, change: impl FnMut(V) -> V) -> Result<Option<V>, TreeError> {
        Ok(self.update_in(&self.native(), key, change)?)
    }

    /// Takes a key out, and returns its value.
    #[inline]
    pub fn remove(&self, key: u64) -> Option<V> {
        self.remove_in(&self.native(), key)
    }

    /// Visits the keys from `from` on, in ascending order, until `visit` breaks off. Each pair was
    /// in the tree when it was visited or shortly before.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use nearfar_index::BPlusTree;
    ///
    /// let tree: BPlusTree<u64> = (0..100).map(|key| (key, key * key)).collect();
    /// let mut sum = 0;
    /// tree.scan(90, |key, square| {
    ///     sum += square;
    ///     if key < 92 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// });
    /// assert_eq!(sum, 90 * 90 + 91 * 91 + 92 * 92);
    /// ```
    #[inline]
    pub fn scan(&self, from: u64, visit: impl FnMut(u64, V) -> ControlFlow<()>) {
        self.scan_in(&mut self.native(), from, visit);
    }

    /// Visits the keys from `from` down, in descending order, until `visit` breaks off.
    #[inline]
    pub fn scan_back(&self, from: u64, visit: impl FnMut(u64, V) -> ControlFlow<()>) {
        self.scan_back_in(&mut self.native(), from, visit);
    }

    /// Looks many keys up together, so that their waits for memory overlap; `values` gets one entry
    /// per key, in order, behind what it holds.
    ///
    /// ```
    /// use nearfar_index::BPlusTree;
    ///
    /// let tree: BPlusTree<u64> = [(1, 10), (2, 20)].into_iter().collect();
    /// let mut values = Vec::new();
    /// tree.get_batch(&[2, 3, 1], &mut values);
    /// assert_eq!(values, [Some(20), None, Some(10)]);
    /// ```
    pub fn get_batch(&self, keys: &[u64], values: &mut Vec<Option<V>>) {
        self.get_batch_in(&self.native(), keys, values);
    }

    /// What a new node at `level` and `height` is.
    pub(super) fn node_at(&self, level: u32, height: u8, parent: TierId) -> NewNode {
        NewNode {
            level,
            is_leaf: height == 0,
            parent,
            bytes: self.geometry.bytes(),
        }
    }

    /// Makes an empty node where the frontend wants it.
    pub(super) fn new_node<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        node: NewNode,
        height: u8,
        uses: u16,
    ) -> Result<Node<'g>, OutOfMemory> {
        let wanted = self.frontend.tier_for(node);
        let (block, tier) = context
            .guard
            .allocate(self.geometry.bytes(), wanted, Purpose::Node)?;
        // SAFETY: the block is fresh, of that size, and stays until it is freed by `free_node` or,
        // once published, retired and out of the guard's sight.
        Ok(unsafe { Node::create(block, &self.geometry, height, tier, uses) })
    }

    /// Frees a node that was never published, or whose tree nobody can reach any more.
    ///
    /// # Safety
    /// Nobody else can reach the node, and it is not used any more.
    pub(super) unsafe fn free_node(&self, node: Node<'_>) {
        let (block, tier) = (node.block(), node.tier());
        // SAFETY: the caller's promise; the size is that of every node.
        unsafe {
            self.memory
                .free(block, self.geometry.bytes(), tier, Purpose::Node);
        }
    }

    /// Gives up a node that was taken out of the tree.
    ///
    /// # Safety
    /// As [`crate::memory::Guard::retire`].
    pub(super) unsafe fn retire_node<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        node: Node<'_>,
    ) {
        let bytes = self.geometry.bytes();
        // SAFETY: the caller's promise; the size is that of every node.
        unsafe {
            context
                .guard
                .retire(node.block(), bytes, node.tier(), Purpose::Node);
        }
    }

    /// Frees a node and all below it.
    ///
    /// # Safety
    /// Nobody can reach the node any more.
    unsafe fn free_below(&self, node: Node<'_>) {
        if node.height() == 0 {
            if !V::INLINE {
                for (_, word) in node.pairs() {
                    // SAFETY: the word was the leaf's alone, and the leaf ends here.
                    unsafe { V::free_word(word, &self.memory) };
                }
            }
        } else {
            for index in 0..=node.count() {
                // SAFETY: nobody else can reach the node, nor then its children.
                unsafe { self.free_below(node.child_of_locked(index)) };
            }
        }
        // SAFETY: as above.
        unsafe { self.free_node(node) };
    }
}

impl<V: TreeValue> Drop for BPlusTree<V> {
    fn drop(&mut self) {
        if let Some(root) = std::ptr::NonNull::new(*self.root.get_mut()) {
            // SAFETY: the tree's nodes have its geometry, and nobody else has the tree any more.
            unsafe { self.free_below(Node::new(root, &self.geometry)) };
        }
    }
}

impl<V: TreeValue> Default for BPlusTree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: TreeValue + fmt::Debug> fmt::Debug for BPlusTree<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// Panics when the process has no memory for a node; use [`BPlusTree::insert`] to be told.
impl<V: TreeValue> Extend<(u64, V)> for BPlusTree<V> {
    fn extend<I: IntoIterator<Item = (u64, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value).expect("memory for the pairs");
        }
    }
}

/// Panics when the process has no memory for a node; use [`BPlusTree::insert`] to be told.
impl<V: TreeValue> FromIterator<(u64, V)> for BPlusTree<V> {
    fn from_iter<I: IntoIterator<Item = (u64, V)>>(pairs: I) -> Self {
        let mut tree = Self::new();
        tree.extend(pairs);
        tree
    }
}
