//! `bplustree`: a B+tree with optimistic locks.

use bplustree::BPlusTree;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session, TestKey, TestValue};

/// The tree of the crate `bplustree`.
pub struct BPlusTreeCrate<K: TestKey + ?Sized, V> {
    tree: BPlusTree<K::Owned, V>,
    value_bytes: usize,
}

impl<K: TestKey + ?Sized, V: TestValue> BPlusTreeCrate<K, V> {
    /// An empty one with values of this size.
    pub fn new(value_bytes: usize) -> Self {
        Self {
            tree: BPlusTree::new(),
            value_bytes,
        }
    }
}

impl<K: TestKey + ?Sized, V: TestValue> OrderedMap<K> for BPlusTreeCrate<K, V> {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<K> + 's {
        self
    }
}

impl<K: TestKey + ?Sized, V: TestValue> Session<K> for &BPlusTreeCrate<K, V> {
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        self.tree.insert(key.own(), V::of(value, self.value_bytes));
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.tree.lookup(key, TestValue::word)
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        Ok(self
            .tree
            .insert(key.own(), V::of(value, self.value_bytes))
            .is_some())
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let mut entries = self.tree.raw_iter();
        entries.seek(from);
        let (mut seen, mut sum) = (0, 0_u64);
        while seen < count
            && let Some((_, value)) = entries.next()
        {
            seen += 1;
            sum = sum.wrapping_add(value.word());
        }
        (seen, sum)
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.tree.remove(key).is_some()
    }
}
