//! Our trees as maps under test.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::{Art, BPlusTree, BPlusTreeOptions, Masstree, OrderedIndex, Probed, TreeValue};
use nearfar_memory::HeapError;
use nearfar_model::Probe;

use super::{
    MapError, MemorySource, OpenError, OrderedMap, PlacedMap, Session, TestKey, TestValue,
};

/// One of our trees, with values of one size.
pub struct TreeMap<T> {
    tree: Arc<T>,
    value_bytes: usize,
}

impl<T> TreeMap<T> {
    fn new(tree: T, value_bytes: usize) -> Self {
        Self {
            tree: Arc::new(tree),
            value_bytes,
        }
    }
}

impl<V: TreeValue> TreeMap<Art<V>> {
    /// An empty radix tree.
    pub(crate) fn art(source: &dyn MemorySource, value_bytes: usize) -> Result<Self, HeapError> {
        let (memory, frontend) = source.make()?;
        Ok(Self::new(Art::with_memory(memory, frontend), value_bytes))
    }
}

impl<V: TreeValue> TreeMap<Masstree<V>> {
    /// An empty Masstree.
    pub(crate) fn masstree(
        source: &dyn MemorySource,
        value_bytes: usize,
    ) -> Result<Self, HeapError> {
        let (memory, frontend) = source.make()?;
        let tree = Masstree::with_memory(memory, frontend);
        Ok(Self::new(tree, value_bytes))
    }
}

impl<V: TreeValue> TreeMap<BPlusTree<V>> {
    /// An empty B+tree with nodes of this size.
    pub(crate) fn btree(
        source: &dyn MemorySource,
        node_bytes: usize,
        value_bytes: usize,
    ) -> Result<Self, OpenError> {
        let (memory, frontend) = source.make()?;
        let options = BPlusTreeOptions {
            node_bytes,
            ..BPlusTreeOptions::default()
        };
        let tree = BPlusTree::with_options(memory, frontend, options)?;
        Ok(Self::new(tree, value_bytes))
    }
}

struct TreeSession<'s, T, V, P> {
    tree: Probed<'s, T, P>,
    value_bytes: usize,
    values: Vec<Option<V>>,
}

impl<K, T> OrderedMap<K> for TreeMap<T>
where
    K: TestKey + ?Sized,
    T: OrderedIndex<K, Value: TestValue>,
{
    fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<K> + 's {
        TreeSession::<_, T::Value, _> {
            tree: Probed::new(&*self.tree, probe),
            value_bytes: self.value_bytes,
            values: Vec::new(),
        }
    }

    fn own_bytes(&self) -> Option<u64> {
        Some(self.tree.used_bytes())
    }
}

impl<K, T> PlacedMap<K> for TreeMap<T>
where
    K: TestKey + ?Sized,
    T: OrderedIndex<K, Value: TestValue> + 'static,
{
    type Tree = T;

    fn tree(&self) -> &Arc<T> {
        &self.tree
    }
}

impl<K, T, V, P> Session<K> for TreeSession<'_, T, V, P>
where
    K: TestKey + ?Sized,
    T: OrderedIndex<K, Value = V>,
    V: TestValue,
    P: Probe,
{
    #[inline]
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
        self.tree.insert(key, V::of(value, self.value_bytes))?;
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &K) -> Option<u64> {
        self.tree.get(key).map(|value| value.word())
    }

    #[inline]
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
        let value = |_| V::of(value, self.value_bytes);
        Ok(self.tree.update(key, value)?.is_some())
    }

    fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
        let (mut seen, mut sum) = (0, 0_u64);
        self.tree.scan(from, |_, value| {
            seen += 1;
            sum = sum.wrapping_add(value.word());
            if seen < count {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        (seen, sum)
    }

    #[inline]
    fn remove(&mut self, key: &K) -> bool {
        self.tree.remove(key).is_some()
    }

    fn get_batch(&mut self, keys: &[&K], words: &mut Vec<Option<u64>>) {
        self.values.clear();
        self.tree.get_batch(keys, &mut self.values);
        words.clear();
        words.extend(self.values.iter().map(|value| Some(value.as_ref()?.word())));
    }
}
