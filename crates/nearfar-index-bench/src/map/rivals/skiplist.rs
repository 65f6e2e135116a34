//! `crossbeam-skiplist`: a skip list without locks.

use std::ops::Bound::{Included, Unbounded};

use crossbeam_skiplist::SkipMap;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey, TestValue};

/// The map of the crate `crossbeam-skiplist`.
pub struct SkiplistCrate<K: TestKey + ?Sized, V> {
    map: SkipMap<K::Owned, V>,
    value_bytes: usize,
}

impl<K: TestKey + ?Sized, V> SkiplistCrate<K, V> {
    /// An empty one with values of this size.
    pub fn new(value_bytes: usize) -> Self {
        Self {
            map: SkipMap::new(),
            value_bytes,
        }
    }
}

impl<K: TestKey + ?Sized, V: TestValue> OrderedMap<K> for SkiplistCrate<K, V> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized, V: TestValue> Session<K> for &SkiplistCrate<K, V> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        let value = V::of(value, self.value_bytes);
        self.map.insert(key.own(), value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.map.get(key).map(|entry| entry.value().word())
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        let value = V::of(value, self.value_bytes);
        self.map.insert(key.own(), value);
        Ok(true)
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let entries = self
            .map
            .range::<K, _>((Included(from), Unbounded))
            .take(count);
        entries.fold((0, 0), |(seen, sum), entry| {
            (seen + 1, sum.wrapping_add(entry.value().word()))
        })
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.map.remove(key).is_some()
    }
}
