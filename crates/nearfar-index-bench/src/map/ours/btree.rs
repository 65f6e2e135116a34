//! The B+tree.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::{BPlusTree, BPlusTreeOptions, ProbedBPlusTree};
use nearfar_model::Probe;

use crate::map::{Ground, MapError, OpenError, OrderedMap, PlacedMap, Session, own_bytes};

/// Our B+tree.
pub struct BPlusTreeMap(Arc<BPlusTree<u64>>);

impl BPlusTreeMap {
    /// An empty one with nodes of this size.
    pub fn new(ground: &dyn Ground, node_bytes: usize) -> Result<Self, OpenError> {
        let (memory, frontend) = ground.make()?;
        let options = BPlusTreeOptions {
            node_bytes,
            ..BPlusTreeOptions::default()
        };
        let tree = BPlusTree::with_options(memory, frontend, options)?;
        Ok(Self(Arc::new(tree)))
    }
}

struct BPlusTreeSession<'s, P: Probe> {
    view: ProbedBPlusTree<'s, 's, u64, P>,
    keys: Vec<u64>,
}

impl OrderedMap<u64> for BPlusTreeMap {
    fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<u64> + 's {
        BPlusTreeSession {
            view: self.0.probed(probe),
            keys: Vec::new(),
        }
    }

    fn own_bytes(&self) -> Option<u64> {
        Some(own_bytes(self.0.memory()))
    }
}

impl PlacedMap<u64> for BPlusTreeMap {
    type Tree = BPlusTree<u64>;

    fn tree(&self) -> &Arc<Self::Tree> {
        &self.0
    }
}

impl<P: Probe> Session<u64> for BPlusTreeSession<'_, P> {
    #[inline]
    fn insert(&mut self, key: &u64, value: u64) -> Result<(), MapError> {
        self.view.insert(*key, value)?;
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &u64) -> Option<u64> {
        self.view.get(*key)
    }

    #[inline]
    fn update(&mut self, key: &u64, value: u64) -> Result<bool, MapError> {
        Ok(self.view.update(*key, |_| value)?.is_some())
    }

    fn scan(&mut self, from: &u64, count: usize) -> (usize, u64) {
        let (mut seen, mut sum) = (0, 0_u64);
        self.view.scan(*from, |_, value| {
            seen += 1;
            sum = sum.wrapping_add(value);
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
        values.clear();
        self.keys.clear();
        self.keys.extend(keys.iter().map(|key| **key));
        self.view.get_batch(&self.keys, values);
    }
}
