//! Budgets and keys that cannot be: typed errors, and the tree goes on.

use std::sync::Arc;

use nearfar_index::memory::{NodeMemory, OutOfMemory};
use nearfar_index::placement::{
    Allocation, Frontend, PlacementError, PlacementOptions, Placer, Tracking, Watermarks,
};
use nearfar_index::{Art, BPlusTree, BPlusTreeError, Masstree, TreeError};
use nearfar_memory::TierId;

use super::for_each_tree;
use super::subject::{PLENTY, Subject, tier};

const KEYS: u64 = if cfg!(miri) { 40 } else { 500 };

fn frontend(memory: &NodeMemory) -> Frontend {
    Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest())
}

/// A tree with keys on tiers with these budgets.
fn filled<S: Subject>(budgets_bytes: &[u64]) -> Arc<S> {
    let (tree, _) = S::watched(budgets_bytes);
    for number in 0..KEYS {
        assert_eq!(tree.insert(number, number), Ok(None));
    }
    Arc::new(tree)
}

fn refused<S: Subject>(tree: &Arc<S>, options: PlacementOptions) -> PlacementError {
    let error = Placer::new(Arc::clone(tree), options).err();
    tree.assert_holds(KEYS, Some);
    error.expect("it cannot work so")
}

fn without_near_memory_a_tree_works_and_placement_says_so<S: Subject>() {
    let tree = filled::<S>(&[0, PLENTY]);
    assert_eq!(tree.memory().ledger(TierId::NEAR).used_bytes(), 0);
    let error = refused(&tree, PlacementOptions::default());
    assert_eq!(error, PlacementError::NoBudget { tier: TierId::NEAR });
    for number in 0..KEYS {
        assert_eq!(tree.remove(number), Some(number));
    }
}

fn a_near_budget_smaller_than_the_root_is_named<S: Subject>() {
    let tree = filled::<S>(&[8, PLENTY]);
    let error = refused(&tree, PlacementOptions::default());
    assert!(
        matches!(error, PlacementError::RootDoesNotFit { tier, .. } if tier == TierId::NEAR),
        "{error}"
    );
}

fn watermarks_crossed_or_out_of_range_are_named<S: Subject>() {
    let tree = filled::<S>(&[PLENTY, PLENTY]);
    for (low, high, is_crossed) in [
        (0.9, 0.8, true),
        (0.9, 0.9, true),
        (0.0, 0.9, false),
        (-0.5, 0.9, false),
        (0.5, 1.5, false),
        (f64::NAN, 0.9, false),
        (0.5, f64::NAN, false),
    ] {
        let options = PlacementOptions {
            watermarks: Watermarks { low, high },
            ..PlacementOptions::default()
        };
        let error = refused(&tree, options);
        let expected = match is_crossed {
            true => {
                matches!(error, PlacementError::WatermarksCrossed { tier, .. } if tier == TierId::NEAR)
            }
            false => {
                matches!(error, PlacementError::WatermarkOutOfRange { tier, .. } if tier == TierId::NEAR)
            }
        };
        assert!(expected, "{low} and {high}: {error}");
        assert!(error.to_string().contains("watermark"), "{error}");
    }
}

/// Budgets from nothing up: a tree is refused, or takes as many keys as there is room for.
fn a_budget_for_nothing_is_an_error_and_not_the_end<S: Subject>() {
    for budget in [0, 8, 64, 255, 256, 1024] {
        let memory = NodeMemory::platform_with_budgets(&[budget]);
        let frontend = frontend(&memory);
        let tree = match S::make(memory, frontend) {
            Ok(tree) => tree,
            Err(error) => {
                assert!(
                    matches!(error, BPlusTreeError::OutOfMemory(OutOfMemory { .. })),
                    "{error}"
                );
                assert!(budget < S::empty_bytes());
                continue;
            }
        };
        let mut there = 0;
        let error = loop {
            match tree.insert(there, there) {
                Ok(_) => there += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}");
        tree.assert_holds(there + 1, |number| (number < there).then_some(number));
        tree.memory().set_budget(tier(0), PLENTY);
        assert_eq!(tree.insert(there, there), Ok(None));
    }
}

for_each_tree!(
    without_near_memory_a_tree_works_and_placement_says_so,
    a_near_budget_smaller_than_the_root_is_named,
    watermarks_crossed_or_out_of_range_are_named,
    a_budget_for_nothing_is_an_error_and_not_the_end,
);

/// A B+tree's keys are words, so none is too long.
macro_rules! keys_that_are_too_long_are_refused {
    ($name:ident, $tree:ident, $bytes_max:expr) => {
        #[test]
        fn $name() {
            let bytes_max: usize = $bytes_max;
            let tree = $tree::<u64>::new();
            let longest = vec![7; bytes_max];
            assert_eq!(tree.insert(&longest, 1), Ok(None));
            for bytes in [bytes_max + 1, 2 * bytes_max, 100_000] {
                let key = vec![7; bytes];
                let refused = Err(TreeError::KeyTooLong { bytes, bytes_max });
                assert_eq!(tree.insert(&key, 2), refused);
                assert_eq!(tree.get_or_insert(&key, 2), refused);
                assert_eq!(tree.update(&key, |value| value + 1), Ok(None));
                assert_eq!(tree.get(&key), None);
                assert_eq!(tree.remove(&key), None);
                assert_eq!(tree.range(key.clone()..).count(), 0);
                assert_eq!(tree.range(..key.clone()).count(), 1);
                let mut values = Vec::new();
                tree.get_batch(&[key, longest.clone()], &mut values);
                assert_eq!(values, [None, Some(1)]);
            }
            assert_eq!(tree.len(), 1);
        }
    };
}

keys_that_are_too_long_are_refused!(
    art_refuses_keys_that_are_too_long,
    Art,
    Art::<u64>::KEY_BYTES_MAX
);
keys_that_are_too_long_are_refused!(
    masstree_refuses_keys_that_are_too_long,
    Masstree,
    Masstree::<u64>::KEY_BYTES_MAX
);

#[test]
fn node_sizes_that_cannot_be_are_refused() {
    for node_bytes in [0, 128, 300, 8192] {
        let memory = NodeMemory::platform();
        let options = nearfar_index::BPlusTreeOptions {
            node_bytes,
            ..Default::default()
        };
        let refused = BPlusTree::<u64>::with_options(memory, Frontend::all_near(), options).err();
        assert_eq!(refused, Some(BPlusTreeError::NodeBytes { node_bytes }));
    }
}
