//! How a tree of your own is adapted to placement.
//!
//! `bucket_trie.rs` is the tree, `adapter.rs` what placement needs of it. Here it is used: nine of
//! ten look-ups go to a twentieth of the keys, near memory holds a fifth of the tree, and placement
//! is driven by hand for ten seconds of a clock that nobody waits for.

mod adapter;
mod bucket_trie;

use std::error::Error;
use std::time::Duration;

use bucket_trie::BucketTrie;
use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{
    Allocation, Frontend, PlacedTree, PlacementOptions, Placer, Tracking,
};
use nearfar_memory::TierId;

/// Keys, far enough from each other that all digits of a key count.
const KEYS: u32 = 200_000;

fn key(index: u32) -> u32 {
    index * (u32::MAX / KEYS)
}

/// The share of hot leaves that lie near.
fn near_share(tree: &BucketTrie, hot: std::ops::Range<u32>) -> f64 {
    let (mut near, mut all) = (0_u32, 0_u32);
    let _ = tree.visit_leaves(&mut |leaf| {
        if (key(hot.start)..key(hot.end)).contains(&leaf.node.key) {
            all += 1;
            near += u32::from(leaf.tier == TierId::NEAR);
        }
        std::ops::ControlFlow::Continue(())
    });
    f64::from(near) / f64::from(all)
}

#[expect(clippy::print_stdout, reason = "an example shows what it did")]
fn main() -> Result<(), Box<dyn Error>> {
    let memory = NodeMemory::platform_with_budgets(&[4 << 20, 64 << 20]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
    let tree = BucketTrie::new(memory, frontend)?;
    let placer = Placer::new(&tree, PlacementOptions::fitted())?;
    for index in 0..KEYS {
        tree.insert(key(index), u64::from(index))?;
    }
    let hot = KEYS / 20 * 14..KEYS / 20 * 15;
    println!(
        "near share of hot leaves at first: {:.2}",
        near_share(&tree, hot.clone())
    );
    let mut random = 1_u32;
    while placer.next_wakeup() <= Duration::from_secs(10) {
        for turn in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let all = if turn % 10 == 0 { 0..KEYS } else { hot.clone() };
            let index = all.start + (random >> 8) % (all.end - all.start);
            assert_eq!(tree.get(key(index)), Some(u64::from(index)));
        }
        placer.step(placer.next_wakeup());
    }
    println!(
        "near share of hot leaves at last:  {:.2}",
        near_share(&tree, hot)
    );
    let near = &placer.statistics().tiers[0];
    println!(
        "used share of near memory:         {:.2}",
        near.ledger.used_share()
    );
    println!("promoted and demoted nodes:        {:?}", near.moves);
    Ok(())
}
