//! Trees on tiers of the machine, whose pages the kernel is asked for.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, PlacementOptions, Placer, Tracking};
use nearfar_index::{Art, BPlusTree, Masstree, OrderedIndex};
use nearfar_memory::sys::bytes_by_node;
use nearfar_memory::{Budgets, HeapOptions, MemorySystem, TierHeap, TierId};
use nearfar_topology::Topology;

const HEAP_BYTES: u64 = 64 << 20;
const KEYS: u64 = 40_000;
/// Hot keys, next to each other.
const HOT: Range<u64> = 10_000..12_000;
const MAINTAINER: Duration = Duration::from_millis(100);

/// Near memory of the machine, and farther tiers of it, the farthest last.
struct Tiers {
    system: Arc<MemorySystem>,
    tiers: Vec<TierId>,
}

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

impl Tiers {
    fn new(far: &[&str]) -> Self {
        let topology = Topology::this_machine().unwrap();
        let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
        let names = std::iter::once(&"near").chain(far);
        let tiers = names.map(|name| system.tier(name).unwrap()).collect();
        Self { system, tiers }
    }

    /// The farthest of them.
    fn last(&self) -> TierId {
        tier(self.tiers.len() - 1)
    }

    /// Heaps on all of them, of which so many bytes may be taken on each but the farthest.
    fn memory(&self, bytes: u64) -> NodeMemory {
        let options = HeapOptions {
            reserve_bytes: Some(HEAP_BYTES as usize),
            ..HeapOptions::default()
        };
        let heaps = self.tiers.iter().enumerate().map(|(index, of_system)| {
            let heap = TierHeap::new(&self.system, *of_system, options).unwrap();
            let is_last = tier(index) == self.last();
            (heap, if is_last { HEAP_BYTES } else { bytes })
        });
        NodeMemory::on_heaps(heaps.collect())
    }

    /// Asks the kernel for all pages of a memory: each is on a node of its tier, and there are as many as blocks need.
    fn check_pages(&self, memory: &NodeMemory) {
        memory.quiesce();
        for (index, of_system) in self.tiers.iter().enumerate() {
            let tier = tier(index);
            let by_node = bytes_by_node(&memory.addresses(tier).unwrap()).unwrap();
            let nodes = self.system.nodes(*of_system);
            let elsewhere = by_node.keys().find(|node| !nodes.contains(node));
            assert_eq!(elsewhere, None, "{tier} is of {nodes:?}: {by_node:?}");
            let (bytes, used) = (
                by_node.values().sum::<u64>(),
                memory.ledger(tier).used_bytes(),
            );
            assert!(bytes >= used, "{tier}: {used} bytes in {bytes}");
        }
    }
}

/// A tree of numbers.
trait Tree: OrderedIndex<u64, Value = u64> {}

impl<T: OrderedIndex<u64, Value = u64>> Tree for T {}

fn fill(tree: &impl Tree) {
    for key in 0..KEYS {
        tree.insert(&key, key).unwrap();
    }
}

fn read(tree: &impl Tree, keys: Range<u64>) {
    for key in keys {
        assert_eq!(tree.get(&key), Some(key));
    }
}

fn leaves<T: Tree>(tree: &T) -> Vec<(T::Node, TierId)> {
    let mut leaves = Vec::new();
    let _ = tree.visit_leaves(&mut |leaf| {
        leaves.push((leaf.node.clone(), leaf.tier));
        ControlFlow::Continue(())
    });
    leaves
}

/// Trees whose nodes are born on all tiers in turn, and of which all leaves then go to one after the other.
pub fn check_every_page(far: &[&str]) {
    let tiers = Tiers::new(far);
    let memory = || tiers.memory(HEAP_BYTES);
    let in_turn = Allocation::Interleaved(vec![1; tiers.tiers.len()]);
    let all = || Frontend::new(in_turn.clone(), Tracking::Off, tiers.last());
    move_all_leaves(&Art::<u64>::with_memory(memory(), all()), &tiers);
    let btree = BPlusTree::<u64>::with_memory(memory(), all()).unwrap();
    move_all_leaves(&btree, &tiers);
    move_all_leaves(&Masstree::<u64>::with_memory(memory(), all()), &tiers);
}

fn move_all_leaves(tree: &impl Tree, tiers: &Tiers) {
    let check = |memory: &NodeMemory| tiers.check_pages(memory);
    fill(tree);
    check(tree.memory());
    for to in (0..tiers.tiers.len()).rev().map(tier) {
        for (leaf, _) in leaves(tree) {
            tree.migrate(&leaf, to, false).unwrap();
        }
        assert!(leaves(tree).iter().all(|(_, tier)| *tier == to));
        check(tree.memory());
        read(tree, 0..KEYS);
    }
}

/// Trees with room for a quarter of them near, and on each tier between, some of whose keys are read again and again while a
/// placer looks.
pub fn check_placement(far: &[&str]) {
    let tiers = Tiers::new(far);
    let last = tiers.last();
    let far_first = || Frontend::new(Allocation::Bound(last), Tracking::Off, last);
    let memory = || tiers.memory(1 << 19);
    place(&Art::<u64>::with_memory(memory(), far_first()), &tiers);
    let btree = BPlusTree::<u64>::with_memory(memory(), far_first()).unwrap();
    place(&btree, &tiers);
    place(&Masstree::<u64>::with_memory(memory(), far_first()), &tiers);
}

fn place(tree: &impl Tree, tiers: &Tiers) {
    fill(tree);
    let used = |index| tree.memory().ledger(tier(index)).used_bytes();
    assert_eq!(used(0), 0, "nothing was born near");
    let placer = Placer::new(tree, PlacementOptions::fitted()).unwrap();
    for step in 1..100 {
        for _ in 0..20 {
            read(tree, HOT);
        }
        placer.step(step * MAINTAINER);
    }
    tiers.check_pages(tree.memory());
    let moved = placer.statistics().tiers[0].moves.promoted_nodes;
    let is_everywhere = (0..tiers.tiers.len()).all(|index| used(index) > 0);
    assert!(moved > 0 && is_everywhere, "{moved} nodes moved");
    read(tree, 0..KEYS);
}
