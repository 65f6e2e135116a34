//! `crossbeam-skiplist`: a skip list without locks.

use std::ops::Bound::{Included, Unbounded};

use crossbeam_skiplist::SkipMap;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey};

/// The map of the crate `crossbeam-skiplist`.
pub struct SkiplistCrate<K: TestKey + ?Sized>(SkipMap<K::Owned, u64>);

impl<K: TestKey + ?Sized> Default for SkiplistCrate<K> {
    fn default() -> Self {
        Self(SkipMap::new())
    }
}

impl<K: TestKey + ?Sized> OrderedMap<K> for SkiplistCrate<K> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized> Session<K> for &SkiplistCrate<K> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        self.0.insert(key.own(), value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.0.get(key).map(|entry| *entry.value())
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        self.0.insert(key.own(), value);
        Ok(true)
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let entries = self
            .0
            .range::<K, _>((Included(from), Unbounded))
            .take(count);
        entries.fold((0, 0), |(seen, sum), entry| {
            (seen + 1, sum.wrapping_add(*entry.value()))
        })
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }
}
