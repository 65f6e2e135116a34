//! The B+tree.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::{BPlusTree, BPlusTreeOptions, ProbedBPlusTree};
use nearfar_model::Probe;

use super::words_of;
use crate::map::{
    MapError, MemorySource, OpenError, OrderedMap, OwnValue, PlacedMap, Session, own_bytes,
};

/// Our B+tree.
pub struct BPlusTreeMap<V: OwnValue = u64> {
    tree: Arc<BPlusTree<V>>,
    value_bytes: usize,
}

impl<V: OwnValue> BPlusTreeMap<V> {
    /// An empty one with nodes and values of these sizes.
    pub fn new(
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
        Ok(Self {
            tree: Arc::new(tree),
            value_bytes,
        })
    }
}

struct BPlusTreeSession<'s, V: OwnValue, P: Probe> {
    view: ProbedBPlusTree<'s, 's, V, P>,
    value_bytes: usize,
    keys: Vec<u64>,
    values: Vec<Option<V>>,
}

impl<V: OwnValue> OrderedMap<u64> for BPlusTreeMap<V> {
    fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<u64> + 's {
        BPlusTreeSession {
            view: self.tree.probed(probe),
            value_bytes: self.value_bytes,
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    fn own_bytes(&self) -> Option<u64> {
        Some(own_bytes(self.tree.memory()))
    }
}

impl<V: OwnValue> PlacedMap<u64> for BPlusTreeMap<V> {
    type Tree = BPlusTree<V>;

    fn tree(&self) -> &Arc<Self::Tree> {
        &self.tree
    }
}

impl<V: OwnValue, P: Probe> Session<u64> for BPlusTreeSession<'_, V, P> {
    #[inline]
    fn insert(&mut self, key: &u64, value: u64) -> Result<(), MapError> {
        self.view.insert(*key, V::of(value, self.value_bytes))?;
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &u64) -> Option<u64> {
        self.view.get(*key).map(|value| value.word())
    }

    #[inline]
    fn update(&mut self, key: &u64, value: u64) -> Result<bool, MapError> {
        let value = |_| V::of(value, self.value_bytes);
        Ok(self.view.update(*key, value)?.is_some())
    }

    fn scan(&mut self, from: &u64, count: usize) -> (usize, u64) {
        let (mut seen, mut sum) = (0, 0_u64);
        self.view.scan(*from, |_, value| {
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
    fn remove(&mut self, key: &u64) -> bool {
        self.view.remove(*key).is_some()
    }

    fn get_batch(&mut self, keys: &[&u64], values: &mut Vec<Option<u64>>) {
        self.keys.clear();
        self.keys.extend(keys.iter().map(|key| **key));
        self.values.clear();
        self.view.get_batch(&self.keys, &mut self.values);
        words_of(&self.values, values);
    }
}
