//! The map as a model sees it.

use std::ops::ControlFlow;

use nearfar_model::Probe;

use super::tree::BPlusTree;
use crate::context::Context;
use crate::error::TreeError;
use crate::value::TreeValue;

/// A [`BPlusTree`] whose operations report what they access to a probe; made by
/// [`BPlusTree::probed`]. The operations are those of the tree.
#[derive(Debug)]
pub struct ProbedBPlusTree<'t, 'p, V: TreeValue, P: Probe> {
    tree: &'t BPlusTree<V>,
    probe: &'p P,
}

impl<V: TreeValue, P: Probe> Clone for ProbedBPlusTree<'_, '_, V, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: TreeValue, P: Probe> Copy for ProbedBPlusTree<'_, '_, V, P> {}

impl<'t, 'p, V: TreeValue, P: Probe> ProbedBPlusTree<'t, 'p, V, P> {
    pub(super) fn new(tree: &'t BPlusTree<V>, probe: &'p P) -> Self {
        Self { tree, probe }
    }

    fn context(&self) -> Context<'t, 'p, P> {
        Context::new(&self.tree.memory, self.probe)
    }

    /// The tree itself.
    #[must_use]
    pub fn tree(&self) -> &'t BPlusTree<V> {
        self.tree
    }

    /// See [`BPlusTree::get`].
    #[must_use]
    pub fn get(&self, key: u64) -> Option<V> {
        self.tree.get_in(&self.context(), key)
    }

    /// See [`BPlusTree::contains_key`].
    #[must_use]
    pub fn contains_key(&self, key: u64) -> bool {
        self.tree.contains_in(&self.context(), key)
    }

    /// See [`BPlusTree::insert`].
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`].
    pub fn insert(&self, key: u64, value: V) -> Result<Option<V>, TreeError> {
        Ok(self.tree.insert_in(&self.context(), key, value)?)
    }

    /// See [`BPlusTree::get_or_insert`].
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`].
    pub fn get_or_insert(&self, key: u64, value: V) -> Result<Option<V>, TreeError> {
        Ok(self.tree.get_or_insert_in(&self.context(), key, value)?)
    }

    /// See [`BPlusTree::update`].
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`].
    pub fn update(&self, key: u64, change: impl FnMut(V) -> V) -> Result<Option<V>, TreeError> {
        Ok(self.tree.update_in(&self.context(), key, change)?)
    }

    /// See [`BPlusTree::remove`].
    pub fn remove(&self, key: u64) -> Option<V> {
        self.tree.remove_in(&self.context(), key)
    }

    /// See [`BPlusTree::scan`].
    pub fn scan(&self, from: u64, visit: impl FnMut(u64, V) -> ControlFlow<()>) {
        self.tree.scan_in(&mut self.context(), from, visit);
    }

    /// See [`BPlusTree::scan_back`].
    pub fn scan_back(&self, from: u64, visit: impl FnMut(u64, V) -> ControlFlow<()>) {
        self.tree.scan_back_in(&mut self.context(), from, visit);
    }

    /// See [`BPlusTree::get_batch`].
    pub fn get_batch(&self, keys: &[u64], values: &mut Vec<Option<V>>) {
        self.tree.get_batch_in(&self.context(), keys, values);
    }
}
