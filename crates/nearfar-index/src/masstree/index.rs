//! The map as an ordered index.

use std::ops::ControlFlow;

use nearfar_model::Probe;

use super::insert::Existing;
use super::tree::Masstree;
use crate::context::Context;
use crate::error::TreeError;
use crate::index::OrderedIndex;
use crate::key::Key;
use crate::value::TreeValue;

impl<V: TreeValue, K: Key + ?Sized> OrderedIndex<K> for Masstree<V> {
    type Value = V;
    type StoredKey = [u8];

    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.get_in(&context, key.key_bytes().as_ref())
    }

    #[inline]
    fn insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        self.put(&context, key.key_bytes().as_ref(), value, Existing::Replace)
    }

    #[inline]
    fn get_or_insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        self.put(&context, key.key_bytes().as_ref(), value, Existing::Keep)
    }

    #[inline]
    fn update_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        self.update_in(&context, key.key_bytes().as_ref(), change)
    }

    #[inline]
    fn remove_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.remove_in(&context, key.key_bytes().as_ref())
    }

    #[inline]
    fn scan_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let mut context = Context::new(&self.memory, probe);
        self.scan_from::<P, false>(&mut context, from.as_ref(), visit);
    }

    #[inline]
    fn scan_back_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let from = from.key_bytes();
        let mut context = Context::new(&self.memory, probe);
        self.scan_from::<P, true>(&mut context, from.as_ref(), visit);
    }

    fn get_batch_probed<P: Probe>(&self, probe: &P, keys: &[&K], values: &mut Vec<Option<V>>) {
        let context = Context::new(&self.memory, probe);
        self.get_batch_in(&context, keys, values);
    }
}
