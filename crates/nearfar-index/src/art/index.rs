//! The map as an ordered index.

use std::ops::{Bound, ControlFlow};

use nearfar_model::Probe;

use super::Art;
use super::children::Direction;
use super::insert::Present;
use crate::context::Context;
use crate::error::TreeError;
use crate::index::OrderedIndex;
use crate::key::Key;
use crate::value::TreeValue;

impl<V: TreeValue, K: Key + ?Sized> OrderedIndex<K> for Art<V> {
    type Value = V;
    type StoredKey = [u8];

    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.get_in(key.key_bytes().as_ref(), &context)
    }

    #[inline]
    fn insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        let bytes = key.key_bytes();
        self.insert_in(bytes.as_ref(), value, Present::Replace, &context)
    }

    #[inline]
    fn get_or_insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        let bytes = key.key_bytes();
        self.insert_in(bytes.as_ref(), value, Present::Keep, &context)
    }

    #[inline]
    fn update_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        self.update_in(key.key_bytes().as_ref(), change, &context)
    }

    #[inline]
    fn remove_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.remove_in(key.key_bytes().as_ref(), &context)
    }

    #[inline]
    fn scan_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let from = Bound::Included(from.as_ref());
        self.scan_in(from, Direction::Forward, probe, visit);
    }

    #[inline]
    fn scan_back_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let from = Bound::Included(from.as_ref());
        self.scan_in(from, Direction::Backward, probe, visit);
    }

    fn get_batch_probed<P: Probe>(&self, probe: &P, keys: &[&K], values: &mut Vec<Option<V>>) {
        self.get_batch_in(keys, values, &Context::new(&self.memory, probe));
    }
}
