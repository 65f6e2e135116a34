//! `bplustree`: a B+tree with optimistic locks.

use bplustree::BPlusTree;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey};

/// The tree of the crate `bplustree`.
pub struct BPlusTreeCrate<K: TestKey + ?Sized>(BPlusTree<K::Owned, u64>);

impl<K: TestKey + ?Sized> Default for BPlusTreeCrate<K> {
    fn default() -> Self {
        Self(BPlusTree::new())
    }
}

impl<K: TestKey + ?Sized> OrderedMap<K> for BPlusTreeCrate<K> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized> Session<K> for &BPlusTreeCrate<K> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        self.0.insert(key.own(), value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.0.lookup(key, |value| *value)
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        Ok(self.0.insert(key.own(), value).is_some())
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let mut entries = self.0.raw_iter();
        entries.seek(from);
        let (mut seen, mut sum) = (0, 0_u64);
        while seen < count
            && let Some((_, value)) = entries.next()
        {
            seen += 1;
            sum = sum.wrapping_add(*value);
        }
        (seen, sum)
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }
}
