//! The map as an ordered index.

use std::ops::ControlFlow;

use nearfar_model::Probe;

use super::tree::BPlusTree;
use crate::context::Context;
use crate::error::TreeError;
use crate::index::OrderedIndex;
use crate::value::TreeValue;

impl<V: TreeValue> OrderedIndex<u64> for BPlusTree<V> {
    type Value = V;
    type StoredKey = u64;

    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get_probed<P: Probe>(&self, probe: &P, key: &u64) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.get_in(&context, *key)
    }

    #[inline]
    fn insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &u64,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        Ok(self.insert_in(&context, *key, value)?)
    }

    #[inline]
    fn get_or_insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &u64,
        value: V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        Ok(self.get_or_insert_in(&context, *key, value)?)
    }

    #[inline]
    fn update_probed<P: Probe>(
        &self,
        probe: &P,
        key: &u64,
        change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        let context = Context::new(&self.memory, probe);
        Ok(self.update_in(&context, *key, change)?)
    }

    #[inline]
    fn remove_probed<P: Probe>(&self, probe: &P, key: &u64) -> Option<V> {
        let context = Context::new(&self.memory, probe);
        self.remove_in(&context, *key)
    }

    #[inline]
    fn scan_probed<P: Probe>(
        &self,
        probe: &P,
        from: &u64,
        mut visit: impl FnMut(&u64, V) -> ControlFlow<()>,
    ) {
        let mut context = Context::new(&self.memory, probe);
        self.scan_in(&mut context, *from, |key, value| visit(&key, value));
    }

    #[inline]
    fn scan_back_probed<P: Probe>(
        &self,
        probe: &P,
        from: &u64,
        mut visit: impl FnMut(&u64, V) -> ControlFlow<()>,
    ) {
        let mut context = Context::new(&self.memory, probe);
        self.scan_back_in(&mut context, *from, |key, value| visit(&key, value));
    }

    fn get_batch_probed<P: Probe>(&self, probe: &P, keys: &[&u64], values: &mut Vec<Option<V>>) {
        let context = Context::new(&self.memory, probe);
        self.get_batch_in(&context, keys, values);
    }
}
