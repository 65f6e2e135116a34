//! The B+tree.

mod concurrent;
mod failure;
mod oracle;
mod placement;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Tracking};
use nearfar_index::{BPlusTree, BPlusTreeOptions, TreeValue};
use nearfar_memory::TierId;

/// All node sizes that a tree can have.
const NODE_BYTES: [usize; 5] = [256, 512, 1024, 2048, 4096];

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

fn options(node_bytes: usize) -> BPlusTreeOptions {
    BPlusTreeOptions {
        node_bytes,
        ..BPlusTreeOptions::default()
    }
}

/// A tree whose new nodes go to the first of some tiers.
fn tree_on<V: TreeValue>(budgets_bytes: &[u64], node_bytes: usize) -> BPlusTree<V> {
    let memory = NodeMemory::platform_with_budgets(budgets_bytes);
    let farthest = memory.farthest();
    let frontend = Frontend::new(Allocation::Bound(TierId::NEAR), Tracking::Leaf, farthest);
    BPlusTree::with_options(memory, frontend, options(node_bytes)).unwrap()
}

/// Numbers that look random (Steele et al., SplitMix, OOPSLA 2014).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
