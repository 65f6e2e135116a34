//! `scc`: a B+tree whose entries never change, read without locks.

use nearfar_model::Probe;
use scc::{Guard, TreeIndex};

use crate::map::{MapError, OrderedMap, Session, TestKey, TestValue};

/// The tree of the crate `scc`.
pub struct SccCrate<K: TestKey + ?Sized, V> {
    tree: TreeIndex<K::Owned, V>,
    value_bytes: usize,
}

impl<K: TestKey + ?Sized, V> SccCrate<K, V> {
    /// An empty one with values of this size.
    pub fn new(value_bytes: usize) -> Self {
        Self {
            tree: TreeIndex::new(),
            value_bytes,
        }
    }
}

struct SccSession<'s, K: TestKey + ?Sized, V> {
    tree: &'s TreeIndex<K::Owned, V>,
    value_bytes: usize,
    guard: Guard,
}

impl<K: TestKey + ?Sized, V: TestValue> OrderedMap<K> for SccCrate<K, V> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        SccSession::<K, V> {
            tree: &self.tree,
            value_bytes: self.value_bytes,
            guard: Guard::new(),
        }
    }
}

impl<K: TestKey + ?Sized, V: TestValue> Session<K> for SccSession<'_, K, V> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        // A key that is there already makes no difference to who inserts new ones only.
        let _ = self
            .tree
            .insert_sync(key.own(), V::of(value, self.value_bytes));
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.tree.peek(key, &self.guard).map(TestValue::word)
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        self.tree
            .upsert_sync(key.own(), V::of(value, self.value_bytes));
        Ok(true)
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let entries = self.tree.range::<K, _>(from, &self.guard).take(count);
        entries.fold((0, 0), |(seen, sum), (_, value)| {
            (seen + 1, sum.wrapping_add(value.word()))
        })
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.tree.remove_sync(key)
    }
}
