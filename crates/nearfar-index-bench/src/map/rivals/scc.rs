//! `scc`: a B+tree whose entries never change, read without locks.

use nearfar_model::Probe;
use scc::{Guard, TreeIndex};

use crate::map::{MapError, OrderedMap, Session, TestKey};

/// The tree of the crate `scc`.
pub struct SccCrate<K: TestKey + ?Sized>(TreeIndex<K::Owned, u64>);

impl<K: TestKey + ?Sized> Default for SccCrate<K> {
    fn default() -> Self {
        Self(TreeIndex::new())
    }
}

struct SccSession<'s, K: TestKey + ?Sized> {
    tree: &'s TreeIndex<K::Owned, u64>,
    guard: Guard,
}

impl<K: TestKey + ?Sized> OrderedMap<K> for SccCrate<K> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        SccSession::<K> {
            tree: &self.0,
            guard: Guard::new(),
        }
    }
}

impl<K: TestKey + ?Sized> Session<K> for SccSession<'_, K> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        // A key that is there already makes no difference to who inserts new ones only.
        let _ = self.tree.insert_sync(key.own(), value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.tree.peek(key, &self.guard).copied()
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        self.tree.upsert_sync(key.own(), value);
        Ok(true)
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let entries = self.tree.range::<K, _>(from, &self.guard).take(count);
        entries.fold((0, 0), |(seen, sum), (_, value)| {
            (seen + 1, sum.wrapping_add(*value))
        })
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.tree.remove_sync(key)
    }
}
