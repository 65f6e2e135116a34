//! The tree with a probe that hears of every access.

use std::ops::ControlFlow;

use nearfar_model::Probe;

use super::insert::Existing;
use super::tree::Masstree;
use crate::context::Context;
use crate::error::TreeError;
use crate::key::Key;
use crate::value::TreeValue;

/// The operations of a [`Masstree`], each access of which a probe hears of.
#[derive(Debug)]
pub struct Probed<'t, 'p, V: TreeValue, P: Probe> {
    tree: &'t Masstree<V>,
    probe: &'p P,
}

impl<V: TreeValue> Masstree<V> {
    /// The same operations for a thread whose accesses `probe` hears of.
    ///
    /// ```
    /// use nearfar_model::Native;
    ///
    /// let tree = nearfar_index::Masstree::new();
    /// let probed = tree.probed(&Native);
    /// probed.insert("key", 1)?;
    /// assert_eq!(probed.get("key"), Some(1));
    /// # Ok::<(), nearfar_index::TreeError>(())
    /// ```
    #[must_use]
    pub fn probed<'t, 'p, P: Probe>(&'t self, probe: &'p P) -> Probed<'t, 'p, V, P> {
        Probed { tree: self, probe }
    }
}

impl<'t, 'p, V: TreeValue, P: Probe> Probed<'t, 'p, V, P> {
    fn context(&self) -> Context<'t, 'p, P> {
        Context::new(&self.tree.memory, self.probe)
    }

    /// As [`Masstree::get`].
    #[must_use]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        self.tree.get_in(&self.context(), key.key_bytes().as_ref())
    }

    /// As [`Masstree::get_batch`].
    pub fn get_batch<K: Key>(&self, keys: &[K], values: &mut Vec<Option<V>>) {
        self.tree.get_batch_in(&self.context(), keys, values);
    }

    /// As [`Masstree::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&self, key: &(impl Key + ?Sized), value: V) -> Result<Option<V>, TreeError> {
        let key = key.key_bytes();
        let context = self.context();
        self.tree
            .put(&context, key.as_ref(), value, Existing::Replace)
    }

    /// As [`Masstree::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update(
        &self,
        key: &(impl Key + ?Sized),
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let key = key.key_bytes();
        self.tree.update_in(&self.context(), key.as_ref(), change)
    }

    /// As [`Masstree::remove`].
    pub fn remove(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        let key = key.key_bytes();
        self.tree.remove_in(&self.context(), key.as_ref())
    }

    /// As [`Masstree::get_or_insert`].
    ///
    /// # Errors
    /// As there.
    pub fn get_or_insert(
        &self,
        key: &(impl Key + ?Sized),
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let key = key.key_bytes();
        let context = self.context();
        self.tree.put(&context, key.as_ref(), value, Existing::Keep)
    }

    /// As [`Masstree::scan`].
    pub fn scan(&self, from: &(impl Key + ?Sized), visit: impl FnMut(&[u8], V) -> ControlFlow<()>) {
        let from = from.key_bytes();
        let mut context = self.context();
        self.tree
            .scan_from::<P, false>(&mut context, from.as_ref(), visit);
    }

    /// As [`Masstree::scan_back`].
    pub fn scan_back(
        &self,
        from: &(impl Key + ?Sized),
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let mut context = self.context();
        self.tree
            .scan_from::<P, true>(&mut context, from.as_ref(), visit);
    }
}
