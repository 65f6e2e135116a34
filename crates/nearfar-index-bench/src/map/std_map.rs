//! The standard library's B-tree behind a lock: what a program has without any crate.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey, TestValue};

/// `RwLock<BTreeMap>`.
#[derive(Debug)]
pub struct LockedMap<K: TestKey + ?Sized, V> {
    map: RwLock<BTreeMap<K::Owned, V>>,
    value_bytes: usize,
}

impl<K: TestKey + ?Sized, V: TestValue> LockedMap<K, V> {
    /// An empty one with values of this size.
    pub fn new(value_bytes: usize) -> Self {
        Self {
            map: RwLock::new(BTreeMap::new()),
            value_bytes,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<K::Owned, V>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<K::Owned, V>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: TestKey + ?Sized, V: TestValue> OrderedMap<K> for LockedMap<K, V> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized, V: TestValue> Session<K> for &LockedMap<K, V> {
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        let value = V::of(value, self.value_bytes);
        self.write().insert(key.own(), value);
        Ok(())
    }

    fn get(&mut self, key: &K) -> Option<u64> {
        self.read().get(key).map(TestValue::word)
    }

    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        let value = V::of(value, self.value_bytes);
        let mut map = self.write();
        let slot = map.get_mut(key);
        Ok(slot.map(|slot| *slot = value).is_some())
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let map = self.read();
        let values = map.range::<K, _>((Included(from), Unbounded)).take(count);
        values.fold((0, 0), |(seen, sum), (_, value)| {
            (seen + 1, sum.wrapping_add(value.word()))
        })
    }

    fn remove(&mut self, key: &K) -> bool {
        self.write().remove(key).is_some()
    }
}
