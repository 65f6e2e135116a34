//! The standard library's B-tree behind a lock: what a program has without any crate.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey};

/// `RwLock<BTreeMap>`.
#[derive(Debug)]
pub struct LockedMap<K: TestKey + ?Sized>(RwLock<BTreeMap<K::Owned, u64>>);

impl<K: TestKey + ?Sized> Default for LockedMap<K> {
    fn default() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }
}

impl<K: TestKey + ?Sized> LockedMap<K> {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<K::Owned, u64>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<K::Owned, u64>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: TestKey + ?Sized> OrderedMap<K> for LockedMap<K> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized> Session<K> for &LockedMap<K> {
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        self.write().insert(key.own(), value);
        Ok(())
    }

    fn get(&mut self, key: &K) -> Option<u64> {
        self.read().get(key).copied()
    }

    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        let mut map = self.write();
        let slot = map.get_mut(key);
        Ok(slot.map(|slot| *slot = value).is_some())
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let map = self.read();
        let values = map.range::<K, _>((Included(from), Unbounded)).take(count);
        values.fold((0, 0), |(seen, sum), (_, value)| {
            (seen + 1, sum.wrapping_add(*value))
        })
    }

    fn remove(&mut self, key: &K) -> bool {
        self.write().remove(key).is_some()
    }
}
