//! What holds in every tree that nobody writes to, for tests.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use nearfar_memory::TierId;
use proptest::prelude::*;

use super::node::{KeyRange, Node};
use super::options::BPlusTreeOptions;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::NodeMemory;
use crate::placement::{Allocation, Frontend, Placed, PlacedTree, Tracking};
use crate::value::{BlockValue, TreeValue};

/// What a walk over a tree finds.
#[derive(Debug, Default)]
struct Census {
    keys: usize,
    /// Bytes of nodes per tier.
    node_bytes: [u64; 4],
    /// Bytes of values on all tiers: those of a leaf that was split stay where they are.
    value_bytes: u64,
}

impl<V: TreeValue> BPlusTree<V> {
    /// Walks over the whole tree, and compares the ledgers with it.
    fn check(&mut self) {
        let context = Context::native(&self.memory);
        let mut census = Census::default();
        let root = self.root(&context).unwrap().0;
        self.check_node(&context, root, KeyRange::ALL, &mut census);
        assert_eq!(census.keys, self.len());
        let mut value_bytes = 0;
        for (index, found) in census.node_bytes.into_iter().enumerate() {
            let ledger = self.memory.ledger(TierId::from_index(index).unwrap());
            assert_eq!(ledger.node_bytes, found, "tier {index}");
            value_bytes += ledger.value_bytes;
        }
        assert_eq!(value_bytes, census.value_bytes);
    }

    fn check_node(
        &self,
        context: &Context<'_, '_>,
        node: Node<'_>,
        range: KeyRange,
        census: &mut Census,
    ) {
        let (count, tier) = (node.count(), node.tier().index());
        census.node_bytes[tier] += self.geometry.bytes() as u64;
        let keys: Vec<_> = node.keys().iter().map(|key| key.load(Relaxed)).collect();
        assert!(keys[..count].is_sorted_by(|a, b| a < b));
        assert!(keys[count..].iter().all(|key| *key == u64::MAX));
        assert!(
            keys[..count]
                .iter()
                .all(|key| (range.low..=range.high).contains(key))
        );
        for key in &keys[..count] {
            let rank = node.rank(*key, context);
            assert_eq!(keys[rank - 1], *key, "samples are those of the keys");
        }
        if node.height() == 0 {
            census.keys += count;
            for (_, word) in node.pairs() {
                // SAFETY: nobody else has the tree, and the word is in it.
                census.value_bytes += unsafe { V::bytes_beside(word, context) } as u64;
            }
            return;
        }
        for index in 0..=count {
            // SAFETY: nobody else has the tree.
            let child = unsafe { node.child_of_locked(index) };
            assert_eq!(child.height() + 1, node.height());
            self.check_node(context, child, node.narrow(index, range), census);
        }
    }
}

fn tree<V: TreeValue>(node_bytes: usize) -> BPlusTree<V> {
    let memory = NodeMemory::platform_with_budgets(&[1 << 30; 3]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
    frontend.set_boundary(TierId::NEAR, 1);
    frontend.set_boundary(TierId::from_index(1).unwrap(), 2);
    let options = BPlusTreeOptions {
        node_bytes,
        ..BPlusTreeOptions::default()
    };
    BPlusTree::with_options(memory, frontend, options).unwrap()
}

const CASES: u32 = if cfg!(miri) { 2 } else { 60 };
const OPERATIONS: usize = if cfg!(miri) { 150 } else { 1500 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    #[test]
    fn everything_holds_whatever_was_done(
        node_bytes in prop::sample::select(vec![256_usize, 512, 1024, 2048, 4096]),
        operations in prop::collection::vec((0..8_u8, 0..500_u64, 0..4_u32), 0..OPERATIONS),
    ) {
        let mut tree = tree::<BlockValue>(node_bytes);
        let mut model = BTreeMap::new();
        let value = |key: u64, length: u32| BlockValue::new(vec![key as u8; length as usize * 9]);
        for (kind, key, number) in operations {
            match kind {
                0..4 => {
                    let new = value(key, number).unwrap();
                    let old = model.insert(key, new.clone());
                    prop_assert_eq!(tree.insert(key, new).unwrap(), old);
                }
                4..7 => prop_assert_eq!(tree.remove(key), model.remove(&key)),
                _ => {
                    let name = Placed { key, level: number };
                    let to = TierId::from_index(key as usize % 3).unwrap();
                    let there = tree.view(&name);
                    let moved = tree.migrate(&name, to, false);
                    prop_assert_eq!(moved.is_ok(), there.is_some());
                    prop_assert_eq!(tree.view(&name).map(|view| view.tier), there.map(|_| to));
                }
            }
        }
        tree.check();
        prop_assert!(tree.iter().eq(model));
    }
}

#[test]
fn everything_holds_after_a_bulk_load() {
    for node_bytes in [256, 1024] {
        for count in [0, 1, 13, 100, 1000] {
            let mut tree = BPlusTree::bulk_load(
                NodeMemory::platform_with_budgets(&[1 << 30; 3]),
                Frontend::all_near(),
                BPlusTreeOptions {
                    node_bytes,
                    fill_factor: 0.7,
                },
                (0..count).map(|key| (key * 3, key)),
            )
            .unwrap();
            tree.check();
        }
    }
}

/// Half of the threads insert and remove, the others move nodes about.
#[test]
fn everything_holds_after_threads_were_at_it() {
    const KEYS: u64 = if cfg!(miri) { 60 } else { 5000 };
    let mut tree = tree::<BlockValue>(256);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                for turn in 0..KEYS {
                    let key = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    if thread >= 2 {
                        let level = (turn % 4) as u32;
                        let to = TierId::from_index((turn % 3) as usize).unwrap();
                        let _ = tree.migrate(&Placed { key, level }, to, thread == 2);
                        continue;
                    }
                    let value = BlockValue::new(vec![1; (turn % 30) as usize]).unwrap();
                    tree.insert(key ^ thread, value).unwrap();
                    if turn % 3 != 0 {
                        assert!(tree.remove(key ^ thread).is_some());
                    }
                }
            });
        }
    });
    tree.check();
}
