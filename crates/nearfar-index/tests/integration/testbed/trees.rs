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

/// Near memory of the machine, and a farther tier of it.
struct Tiers {
    system: Arc<MemorySystem>,
    tiers: [TierId; 2],
}

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

impl Tiers {
    fn new(far: &str) -> Self {
        let topology = Topology::this_machine().unwrap();
        let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
        let tiers = ["near", far].map(|name| system.tier(name).unwrap());
        Self { system, tiers }
    }

    /// Heaps on both, of which so many bytes may be taken near.
    fn memory(&self, near_bytes: u64) -> NodeMemory {
        let options = HeapOptions {
            reserve_bytes: Some(HEAP_BYTES as usize),
            ..HeapOptions::default()
        };
        let heap = |tier| TierHeap::new(&self.system, tier, options).unwrap();
        let [near, far] = self.tiers.map(heap);
        NodeMemory::on_heaps(vec![(near, near_bytes), (far, HEAP_BYTES)])
    }

    /// Asks the kernel for all pages of a memory: each is on a node of its tier, and there are as many as blocks need.
    fn check_pages(&self, memory: &NodeMemory) {
        memory.quiesce();
        for (index, of_system) in self.tiers.into_iter().enumerate() {
            let tier = tier(index);
            let by_node = bytes_by_node(&memory.addresses(tier).unwrap()).unwrap();
            let nodes = self.system.nodes(of_system);
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

/// Trees whose nodes are born on both tiers in turn, and of which all leaves then go to one and to the other.
pub fn check_every_page(far: &str) {
    let tiers = Tiers::new(far);
    let check = |memory: &NodeMemory| tiers.check_pages(memory);
    let memory = || tiers.memory(HEAP_BYTES);
    let both = || Frontend::new(Allocation::Interleaved(vec![1, 1]), Tracking::Off, tier(1));
    move_all_leaves(&Art::<u64>::with_memory(memory(), both()), check);
    move_all_leaves(
        &BPlusTree::<u64>::with_memory(memory(), both()).unwrap(),
        check,
    );
    move_all_leaves(&Masstree::<u64>::with_memory(memory(), both()), check);
}

fn move_all_leaves(tree: &impl Tree, check: impl Fn(&NodeMemory)) {
    fill(tree);
    check(tree.memory());
    for to in [tier(1), tier(0)] {
        for (leaf, _) in leaves(tree) {
            tree.migrate(&leaf, to, false).unwrap();
        }
        assert!(leaves(tree).iter().all(|(_, tier)| *tier == to));
        check(tree.memory());
        read(tree, 0..KEYS);
    }
}

/// Trees with room for a quarter of them near, some of whose keys are read again and again while a placer looks.
pub fn check_placement(far: &str) {
    let tiers = Tiers::new(far);
    let check = |memory: &NodeMemory| tiers.check_pages(memory);
    let far_first = || Frontend::new(Allocation::Bound(tier(1)), Tracking::Off, tier(1));
    let memory = || tiers.memory(1 << 19);
    place(&Art::<u64>::with_memory(memory(), far_first()), check);
    place(
        &BPlusTree::<u64>::with_memory(memory(), far_first()).unwrap(),
        check,
    );
    place(&Masstree::<u64>::with_memory(memory(), far_first()), check);
}

fn place(tree: &impl Tree, check: impl Fn(&NodeMemory)) {
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
    check(tree.memory());
    let moved = placer.statistics().tiers[0].moves.promoted_nodes;
    assert!(
        moved > 0 && used(0) > 0 && used(1) > 0,
        "{moved} nodes moved"
    );
    read(tree, 0..KEYS);
}
