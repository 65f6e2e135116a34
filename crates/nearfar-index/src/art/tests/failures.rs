//! Budgets that run out at every point.

use std::collections::BTreeMap;

use nearfar_memory::TierId;

use super::check::{check, totals};
use crate::art::Art;
use crate::error::TreeError;
use crate::memory::NodeMemory;
use crate::placement::{Allocation, Frontend, MigrateError, Placed, PlacedTree, Tracking};
use crate::value::{BlockValue, TreeValue};

/// Keys that make every kind of change: leaves that grow and part, nodes of all kinds that grow,
/// prefixes that part, keys that end in nodes.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![vec![]];
    for byte in (0..=255).step_by(if cfg!(miri) { 40 } else { 3 }) {
        keys.push(vec![byte]);
        keys.push(vec![7, 7, 7, byte]);
        keys.push([vec![8; 30], vec![byte, 1, 2]].concat());
        keys.push([vec![8; (byte / 8) as usize], vec![9; 20]].concat());
    }
    keys.dedup();
    keys
}

/// A tree whose memory is limited to one budget on two tiers.
fn limited<V: TreeValue>(budget_bytes: u64) -> Art<V> {
    let memory = NodeMemory::platform_with_budgets(&[budget_bytes / 2, budget_bytes / 2]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Off, memory.farthest());
    Art::with_memory(memory, frontend)
}

fn fill<V: TreeValue + PartialEq + std::fmt::Debug>(
    tree: &Art<V>,
    value: impl Fn(&[u8]) -> V,
) -> BTreeMap<Vec<u8>, V> {
    let mut there = BTreeMap::new();
    for key in keys() {
        tree.memory().quiesce();
        match tree.insert(&key, value(&key)) {
            Ok(old) => assert_eq!(old, there.insert(key.clone(), value(&key))),
            Err(TreeError::OutOfMemory(_)) => assert_eq!(tree.get(&key), there.get(&key).cloned()),
            Err(error) => panic!("{error}"),
        }
    }
    there
}

fn budgets() -> impl Iterator<Item = u64> {
    (0..40_000).step_by(if cfg!(miri) { 9_001 } else { 1_021 })
}

#[test]
fn an_insertion_works_or_leaves_the_tree_as_it_was() {
    let mut is_any_full = false;
    for budget in budgets() {
        let tree = limited::<u64>(budget);
        let there = fill(&tree, |key| key.len() as u64);
        is_any_full |= there.len() < keys().len();
        check(&tree);
        assert!(tree.iter().eq(there.clone()));
        // Removals need no memory, however little there is.
        for key in there.keys() {
            assert!(tree.remove(key).is_some());
        }
        tree.memory().quiesce();
        assert!(tree.iter().next().is_none());
        check(&tree);
        assert_eq!(totals(&tree).used_bytes(), 0);
    }
    assert!(is_any_full);
}

#[test]
fn values_in_blocks_are_not_lost_or_leaked() {
    for budget in budgets() {
        let tree = limited::<BlockValue>(2 * budget);
        let there = fill(&tree, |key| BlockValue::new(key).unwrap());
        check(&tree);
        assert!(tree.iter().eq(there.clone()));
        for key in there.keys() {
            let update = tree.update(key, |_| BlockValue::new([1; 100]).unwrap());
            assert!(
                update.is_ok_and(|new| new.is_some()) || tree.get(key) == there.get(key).cloned()
            );
            assert!(tree.remove(key).is_some());
        }
        tree.memory().quiesce();
        assert_eq!(totals(&tree).used_bytes(), 0);
    }
}

#[test]
fn a_migration_works_or_leaves_the_tree_as_it_was() {
    for budget in (0..20_000).step_by(if cfg!(miri) { 9_001 } else { 2_003 }) {
        let memory = NodeMemory::platform_with_budgets(&[1 << 20, budget]);
        let tree = Art::<BlockValue>::with_memory(memory, Frontend::all_near());
        let there = fill(&tree, |key| BlockValue::new(key).unwrap());
        let far = TierId::from_index(1).unwrap();
        for key in there.keys() {
            for level in (0..8).rev() {
                let node = Placed {
                    key: key.clone().into(),
                    level,
                };
                let Some(before) = tree.view(&node) else {
                    assert_eq!(tree.migrate(&node, far, true), Err(MigrateError::Gone));
                    continue;
                };
                match tree.migrate(&node, far, true) {
                    Ok(_) => assert_eq!(tree.view(&node).unwrap().tier, far),
                    Err(MigrateError::NoRoom { .. } | MigrateError::CrossesBoundary) => {
                        assert_eq!(tree.view(&node), Some(before));
                    }
                    Err(error) => panic!("{error}"),
                }
                tree.memory().quiesce();
            }
        }
        check(&tree);
        assert!(tree.iter().eq(there));
    }
}
