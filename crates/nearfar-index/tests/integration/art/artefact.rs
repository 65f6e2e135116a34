//! Where the published artefact of zhao-2026 fails, and this tree must not: what is this tree's own
//! (see `trees::artefact` for what holds of all trees).

use std::ops::ControlFlow;
use std::thread;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Migration, Placed, PlacedTree, Tracking};
use nearfar_index::{Art, BlockValue, TreeError};
use nearfar_memory::TierId;

use super::{mix, tier, tiered};

const FEW: u64 = if cfg!(miri) { 100 } else { 20_000 };

fn named(key: &[u8], level: u32) -> Placed<Box<[u8]>> {
    Placed {
        key: key.into(),
        level,
    }
}

/// All inner nodes on the way to a key, and its leaf.
fn way(tree: &impl PlacedTree<Node = Placed<Box<[u8]>>>, key: &[u8]) -> Vec<Placed<Box<[u8]>>> {
    let names = (0..).map(|level| named(key, level));
    names.take_while(|node| tree.view(node).is_some()).collect()
}

#[test]
fn long_keys_work_and_too_long_ones_are_refused() {
    const MAX: usize = Art::<u64>::KEY_BYTES_MAX;
    let tree = tiered::<u64>();
    let long = vec![7; MAX];
    let mut forked = long.clone();
    forked[MAX - 1] = 8;
    let mut early = long.clone();
    early[0] = 8;
    for (value, key) in (0..).zip([&long, &forked, &early]) {
        tree.insert(key, value).unwrap();
    }
    let refused = tree.insert(&[7; MAX + 1], 9).unwrap_err();
    let (bytes, bytes_max) = (MAX + 1, MAX);
    assert_eq!(refused, TreeError::KeyTooLong { bytes, bytes_max });
    assert_eq!(tree.get(&[7; MAX + 1]), None);
    assert!(
        tree.iter()
            .map(|(key, _)| key)
            .eq([long.clone(), forked.clone(), early.clone()])
    );
    for (value, key) in (0..).zip([&long, &forked, &early]) {
        for node in way(&tree, key) {
            tree.migrate(&node, tier(2), false).unwrap();
        }
        assert_eq!(tree.get(key), Some(value));
    }
    for (value, key) in (0..).zip([&long, &forked, &early]) {
        assert_eq!(tree.remove(key), Some(value));
    }
    assert!(tree.is_empty());
}

/// As deep as a tree can be: every key a prefix of the next. Nothing recurses over levels.
#[test]
fn a_tree_as_deep_as_its_longest_key_works() {
    let count = if cfg!(miri) { 100 } else { 4_000 };
    let long = vec![0; count];
    let tree = thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || {
            let tree = tiered::<u64>();
            for length in 0..count {
                tree.insert(&long[..length], length as u64).unwrap();
            }
            assert!(tree.iter().map(|(key, _)| key.len()).eq(0..count));
            assert!(
                tree.iter()
                    .rev()
                    .map(|(key, _)| key.len())
                    .eq((0..count).rev())
            );
            for length in (0..count).step_by(3) {
                assert_eq!(tree.remove(&long[..length]), Some(length as u64));
            }
            tree
        })
        .unwrap()
        .join()
        .unwrap();
    thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || drop(tree))
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn a_walk_over_leaves_visits_each_once_and_ends() {
    let tree = tiered::<u64>();
    for number in 0..FEW {
        tree.insert(&mix(number), number).unwrap();
    }
    let mut last: Option<Box<[u8]>> = None;
    let mut bytes = 0;
    let _ = tree.visit_leaves(&mut |leaf| {
        assert!(last.as_ref().is_none_or(|last| *last < leaf.node.key));
        last = Some(leaf.node.key.clone());
        assert_eq!(leaf.level, leaf.node.level);
        bytes += leaf.bytes as u64;
        ControlFlow::Continue(())
    });
    let nodes: u64 = (0..3)
        .map(|index| tree.memory().ledger(tier(index)).node_bytes)
        .sum();
    assert!(bytes < nodes && bytes > nodes / 4, "{bytes} of {nodes}");
}

#[test]
fn levels_are_true_after_a_split_above() {
    let tree = tiered::<u64>();
    for number in 0..100_u64 {
        tree.insert(&[&[5; 20][..], &mix(number).to_be_bytes()].concat(), number)
            .unwrap();
    }
    let key = [&[5; 20][..], &mix(0).to_be_bytes()].concat();
    let levels = way(&tree, &key).len();
    assert!(tree.height() as usize >= levels);
    // Parts the prefix of the topmost node.
    tree.insert(&[5_u8, 6], 0).unwrap();
    let after = way(&tree, &key);
    assert_eq!(after.len(), levels + 1);
    let mut seen = None;
    let _ = tree.visit_leaves(&mut |leaf| {
        if leaf.node.key.starts_with(&key[..21]) {
            seen = Some(leaf.level);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(seen, Some(after.len() as u32 - 1));
    for node in &after {
        assert_eq!(tree.view(node).unwrap().level, node.level);
    }
}

#[test]
fn budgets_are_never_exceeded_and_count_values_and_what_is_retired() {
    const BUDGET: u64 = 64 << 10;
    let memory = NodeMemory::platform_with_budgets(&[BUDGET, 1 << 30]);
    let frontend = Frontend::new(
        Allocation::Bound(TierId::NEAR),
        Tracking::Off,
        memory.farthest(),
    );
    let tree = Art::<BlockValue>::with_memory(memory, frontend);
    let mut most = 0;
    for number in 0..FEW / 4 {
        let value = BlockValue::new(vec![1; (number % 200) as usize]).unwrap();
        tree.insert(&mix(number % 700), value).unwrap();
        let near = tree.memory().ledger(TierId::NEAR);
        assert!(near.used_bytes() <= BUDGET, "{near:?}");
        most = most.max(near.used_bytes());
    }
    assert!(most > BUDGET / 2 || cfg!(miri));
    assert!(tree.memory().ledger(tier(1)).used_bytes() > 0 || cfg!(miri));
}

#[test]
fn a_tree_works_without_any_near_memory() {
    let memory = NodeMemory::platform_with_budgets(&[0, 1 << 30]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
    let tree = Art::<u64>::with_memory(memory, frontend);
    for number in 0..FEW {
        tree.insert(&mix(number), number).unwrap();
    }
    assert_eq!(tree.memory().ledger(TierId::NEAR).used_bytes(), 0);
    assert!((0..FEW).all(|number| tree.get(&mix(number)) == Some(number)));
}

#[test]
fn a_migration_says_what_it_moved() {
    let tree = tiered::<u64>();
    for number in 0..1000_u64 {
        tree.insert(&mix(number), number).unwrap();
    }
    let key = mix(5).to_be_bytes();
    let leaf = way(&tree, &key).pop().unwrap();
    let view = tree.view(&leaf).unwrap();
    assert!(view.is_leaf);
    let to = tier((view.tier.index() + 1) % 3);
    let (from, bytes) = (view.tier, view.bytes);
    assert_eq!(
        tree.migrate(&leaf, to, false),
        Ok(Migration::Moved { from, bytes })
    );
    assert_eq!(tree.migrate(&leaf, to, false), Ok(Migration::AlreadyThere));
    let ledger = tree.memory().ledger(to);
    assert!(ledger.node_bytes >= bytes as u64);
}
