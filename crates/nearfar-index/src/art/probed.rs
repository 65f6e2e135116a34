//! The map as seen by a probe.

use std::fmt;
use std::ops::{Bound, ControlFlow};

use nearfar_model::Probe;

use super::Art;
use super::children::Direction;
use super::insert::Present;
use crate::context::Context;
use crate::error::TreeError;
use crate::key::Key;
use crate::value::TreeValue;

/// An [`Art`] whose operations tell a probe what they access; made by [`Art::probed`].
#[derive(Clone, Copy)]
pub struct ProbedArt<'t, V: TreeValue, P: Probe> {
    pub(super) tree: &'t Art<V>,
    pub(super) probe: &'t P,
}

impl<V: TreeValue, P: Probe> ProbedArt<'_, V, P> {
    #[inline]
    fn context(&self) -> Context<'_, '_, P> {
        Context::new(&self.tree.memory, self.probe)
    }

    /// As [`Art::get`].
    #[inline]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        self.tree.get_in(key.key_bytes().as_ref(), &self.context())
    }

    /// As [`Art::insert`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn insert(&self, key: &(impl Key + ?Sized), value: V) -> Result<Option<V>, TreeError> {
        let bytes = key.key_bytes();
        self.tree
            .insert_in(bytes.as_ref(), value, Present::Replace, &self.context())
    }

    /// As [`Art::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update(
        &self,
        key: &(impl Key + ?Sized),
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let bytes = key.key_bytes();
        self.tree.update_in(bytes.as_ref(), change, &self.context())
    }

    /// As [`Art::remove`].
    pub fn remove(&self, key: &(impl Key + ?Sized)) -> Option<V> {
        let bytes = key.key_bytes();
        self.tree.remove_in(bytes.as_ref(), &self.context())
    }

    /// As [`Art::scan`].
    pub fn scan(&self, from: &(impl Key + ?Sized), visit: impl FnMut(&[u8], V) -> ControlFlow<()>) {
        let from = from.key_bytes();
        let from = Bound::Included(from.as_ref());
        self.tree
            .scan_in(from, Direction::Forward, self.probe, visit);
    }

    /// As [`Art::get_batch`].
    pub fn get_batch<K: Key>(&self, keys: &[K], values: &mut Vec<Option<V>>) {
        self.tree.get_batch_in(keys, values, &self.context());
    }
}

impl<V: TreeValue, P: Probe> fmt::Debug for ProbedArt<'_, V, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProbedArt").finish_non_exhaustive()
    }
}
