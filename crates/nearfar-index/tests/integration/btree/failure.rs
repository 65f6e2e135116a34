//! Memory that runs out.

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::Frontend;
use nearfar_index::{BPlusTree, BPlusTreeError, BPlusTreeOptions, BlockValue, TreeError};
use nearfar_memory::TierId;

use super::{options, scatter, tree_on};

#[test]
fn a_budget_smaller_than_the_root_is_refused() {
    for budget in [0, 8, 255] {
        let memory = NodeMemory::platform_with_budgets(&[budget]);
        let tree = BPlusTree::<u64>::with_options(memory, Frontend::all_near(), options(256));
        assert!(
            matches!(tree, Err(BPlusTreeError::OutOfMemory(_))),
            "{budget}"
        );
    }
}

/// Fills a tree until it takes no more, and checks that each refusal leaves it as it was.
#[test]
fn an_insert_that_fails_leaves_the_tree_as_it_was() {
    let nodes_max = if cfg!(miri) { 6 } else { 60 };
    for nodes in 1..nodes_max {
        let tree = tree_on::<u64>(&[nodes * 256], 256);
        let mut there = Vec::new();
        let mut refused = 0;
        for number in 0..nodes * 14 {
            let key = scatter(number);
            match tree.insert(key, number) {
                Ok(old) => {
                    assert_eq!(old, None);
                    there.push((key, number));
                }
                Err(TreeError::OutOfMemory(_)) => {
                    refused += 1;
                    let ledger = tree.memory().ledger(TierId::NEAR);
                    assert!(ledger.used_bytes() <= nodes * 256);
                    assert_eq!(tree.get(key), None);
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused > 0 || nodes == 1, "{nodes} nodes");
        there.sort_unstable();
        assert_eq!(tree.iter().collect::<Vec<_>>(), there);
        assert_eq!(tree.len(), there.len());
        // Overwriting needs no memory, and removing makes room.
        for (key, number) in &there {
            assert_eq!(tree.insert(*key, 7).unwrap(), Some(*number));
            assert_eq!(tree.remove(*key), Some(7));
        }
        assert_eq!(tree.memory().ledger(TierId::NEAR).node_bytes, 256);
    }
}

/// Budgets from nothing up, in steps of a block: the value or any node of a split may be what
/// fails.
#[test]
fn a_value_that_finds_no_room_changes_nothing() {
    let count: u64 = if cfg!(miri) { 20 } else { 200 };
    let value = |number: u64| BlockValue::new(vec![number as u8; 24]).unwrap();
    for budget in (256..if cfg!(miri) { 900 } else { 12_000 }).step_by(32) {
        let tree = tree_on::<BlockValue>(&[budget], 256);
        let mut there = 0;
        for number in 0..count {
            match tree.insert(number, value(number)) {
                Ok(_) => there += 1,
                Err(_) => {
                    assert_eq!(tree.get(number), None);
                    // Where a node was lacking, there may still be room for a value.
                    if let Some(before) = number.checked_sub(1) {
                        let _ = tree.update(before, |_| value(before));
                    }
                    break;
                }
            }
            assert!(tree.memory().ledger(TierId::NEAR).used_bytes() <= budget);
        }
        assert!(
            tree.iter()
                .eq((0..there).map(|number| (number, value(number))))
        );
        let values = tree.memory().ledger(TierId::NEAR).value_bytes;
        assert_eq!(values, there * 32, "nothing of a failed insert stays");
    }
}

#[test]
fn a_bulk_load_that_fails_gives_everything_back() {
    let pairs = || (0..if cfg!(miri) { 100 } else { 2000 }).map(|key| (key, key));
    for nodes in 1..if cfg!(miri) { 6 } else { 100 } {
        let memory = NodeMemory::platform_with_budgets(&[nodes * 256]);
        let tree = BPlusTree::<u64>::bulk_load(memory, Frontend::all_near(), options(256), pairs());
        let error = tree.unwrap_err();
        assert!(matches!(error, BPlusTreeError::OutOfMemory(_)), "{error}");
    }
    let memory = NodeMemory::platform_with_budgets(&[1 << 20]);
    let options = BPlusTreeOptions {
        fill_factor: 2.0,
        ..options(256)
    };
    let tree = BPlusTree::<u64>::bulk_load(memory, Frontend::all_near(), options, pairs());
    assert!(tree.unwrap_err().to_string().contains("fill_factor"));
}

#[test]
fn a_full_near_tier_sends_nodes_farther() {
    let tree = tree_on::<u64>(&[1024, 1 << 20], 256);
    for key in 0..500 {
        tree.insert(scatter(key), key).unwrap();
    }
    assert_eq!(tree.memory().ledger(TierId::NEAR).node_bytes, 1024);
    for key in 0..500 {
        assert_eq!(tree.get(scatter(key)), Some(key));
    }
}
