//! Nodes that move.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nearfar_index::placement::{MigrateError, Migration, Placed, PlacedTree};
use nearfar_index::{BPlusTree, BlockValue, TreeValue};
use nearfar_memory::TierId;

use super::{NODE_BYTES, scatter, tier, tree_on};

const BUDGETS: [u64; 3] = [1 << 30, 1 << 30, 1 << 30];

/// The names of all leaves.
fn leaves<V: TreeValue>(tree: &BPlusTree<V>) -> Vec<Placed<u64>> {
    let mut names = Vec::new();
    let ended = tree.visit_leaves(&mut |leaf| {
        assert_eq!(leaf.level, tree.height() - 1);
        assert_eq!(tree.view(leaf.node).unwrap().tier, leaf.tier);
        names.push(leaf.node.clone());
        ControlFlow::Continue(())
    });
    assert!(ended.is_continue());
    names
}

fn filled(node_bytes: usize, count: u64) -> BPlusTree<u64> {
    let tree = tree_on(&BUDGETS, node_bytes);
    for key in 0..count {
        tree.insert(scatter(key), key).unwrap();
    }
    tree
}

#[test]
fn leaves_are_visited_once_each_in_order() {
    for node_bytes in NODE_BYTES {
        let tree = filled(node_bytes, if cfg!(miri) { 200 } else { 20_000 });
        let names = leaves(&tree);
        assert!(names.is_sorted_by(|a, b| a.key < b.key));
        let leaf_bytes = names.len() * node_bytes;
        let ledger = tree.memory().ledger(TierId::NEAR).node_bytes as usize;
        assert!(
            leaf_bytes < ledger && leaf_bytes * 5 > ledger * 4,
            "{leaf_bytes} of {ledger}"
        );
    }
    let tree = filled(256, 1000);
    let mut visited = 0;
    let ended = tree.visit_leaves(&mut |_| {
        visited += 1;
        ControlFlow::Break(())
    });
    assert!(ended.is_break() && visited == 1);
}

/// The published artefact refreshes no level after a split.
#[test]
fn levels_are_true_after_splits_and_merges() {
    let tree = tree_on(&BUDGETS, 256);
    let mut heights = BTreeMap::new();
    let count = if cfg!(miri) { 300 } else { 3000 };
    for key in 0..count {
        tree.insert(scatter(key), key).unwrap();
        heights.entry(tree.height()).or_insert(key);
    }
    assert!(heights.len() >= 3, "{heights:?}");
    let check = |tree: &BPlusTree<u64>| {
        for name in leaves(tree) {
            assert_eq!(name.level + 1, tree.height());
            assert!(tree.view(&name).unwrap().is_leaf);
            let parent = tree.parent(&name).unwrap();
            assert!(!tree.view(&parent).unwrap().is_leaf);
            let below = Placed {
                level: name.level + 1,
                ..name
            };
            assert_eq!(tree.view(&below), None);
        }
    };
    check(&tree);
    for key in 0..count - 20 {
        tree.remove(scatter(key));
    }
    check(&tree);
    assert!(tree.height() <= 3);
}

#[test]
fn every_node_moves_and_every_key_reads_back() {
    for node_bytes in NODE_BYTES {
        let count = if cfg!(miri) { 150 } else { 10_000 };
        let tree = filled(node_bytes, count);
        let all = tree.memory().ledger(TierId::NEAR).node_bytes;
        // From the leaves up, so that no parent lies farther than a child.
        for name in leaves(&tree) {
            let mut next = Some(name);
            let moved = Migration::Moved {
                from: TierId::NEAR,
                bytes: node_bytes,
            };
            let leaf = next.take().unwrap();
            assert_eq!(tree.migrate(&leaf, tier(2), true), Ok(moved));
            assert_eq!(
                tree.migrate(&leaf, tier(2), true),
                Ok(Migration::AlreadyThere)
            );
            assert_eq!(tree.view(&leaf).unwrap().tier, tier(2));
        }
        for key in 0..count {
            assert_eq!(tree.get(scatter(key)), Some(key));
        }
        for level in (0..tree.height() - 1).rev() {
            for leaf in leaves(&tree) {
                let name = Placed { level, ..leaf };
                let result = tree.migrate(&name, tier(2), true).unwrap();
                let is_there = result == Migration::AlreadyThere;
                assert!(is_there || matches!(result, Migration::Moved { .. }));
            }
        }
        tree.memory().quiesce();
        assert_eq!(tree.memory().ledger(tier(2)).node_bytes, all);
        assert_eq!(tree.memory().ledger(TierId::NEAR).node_bytes, 0);
        let mut expected: Vec<_> = (0..count).map(|key| (scatter(key), key)).collect();
        expected.sort_unstable();
        assert!(tree.iter().eq(expected));
    }
}

#[test]
fn the_boundary_is_kept_where_it_is_to_be() {
    let tree = filled(256, 60);
    assert_eq!(tree.height(), 2);
    let leaf = leaves(&tree).remove(0);
    let root = Placed {
        key: leaf.key,
        level: 0,
    };
    let crosses = Err(MigrateError::CrossesBoundary);
    assert_eq!(
        tree.migrate(&root, tier(1), true),
        crosses,
        "its children are nearer"
    );
    assert!(tree.migrate(&root, tier(1), false).is_ok());
    assert_eq!(tree.migrate(&leaf, tier(2), true).map(|_| ()), Ok(()));
    assert_eq!(
        tree.migrate(&leaf, TierId::NEAR, true),
        crosses,
        "its parent is farther"
    );
    assert!(tree.migrate(&leaf, TierId::NEAR, false).is_ok());
    let view = tree.view(&root).unwrap();
    assert_eq!(
        (view.tier, view.nearest_child),
        (tier(1), Some(TierId::NEAR))
    );
    let gone = Placed {
        key: leaf.key,
        level: 99,
    };
    assert_eq!(tree.migrate(&gone, tier(1), true), Err(MigrateError::Gone));
}

/// A tier that is full, from no room at all to room for all but one block.
#[test]
fn a_node_that_finds_no_room_stays_whole() {
    let value = |key: u64| BlockValue::new(vec![key as u8; 40]).unwrap();
    let room = 256 + 10 * 48;
    for budget in (0..=room).step_by(16) {
        let tree = tree_on::<BlockValue>(&[1 << 20, budget], 256);
        for key in 0..10 {
            tree.insert(key, value(key)).unwrap();
        }
        let before = tree.memory().ledger(TierId::NEAR);
        let leaf = leaves(&tree).remove(0);
        assert_eq!(tree.view(&leaf).unwrap().bytes as u64, room);
        let result = tree.migrate(&leaf, tier(1), true);
        if budget < room {
            assert!(
                matches!(result, Err(MigrateError::NoRoom { .. })),
                "{result:?}"
            );
            assert_eq!(tree.memory().ledger(TierId::NEAR), before);
            assert_eq!(tree.memory().ledger(tier(1)).used_bytes(), 0);
        } else {
            assert!(matches!(result, Ok(Migration::Moved { bytes, .. }) if bytes as u64 == room));
            assert_eq!(tree.memory().ledger(tier(1)).used_bytes(), room);
            assert_eq!(tree.memory().ledger(TierId::NEAR).retired_bytes, room);
        }
        assert!(tree.iter().eq((0..10).map(|key| (key, value(key)))));
    }
}

/// Those of the published artefact are never freed.
#[test]
fn nodes_that_moved_away_are_freed() {
    let tree = filled(1024, if cfg!(miri) { 100 } else { 5000 });
    let names = leaves(&tree);
    let used = |tier| tree.memory().ledger(tier).used_bytes();
    let all = used(TierId::NEAR);
    for round in 0..if cfg!(miri) { 2 } else { 60 } {
        for name in &names {
            tree.migrate(name, tier(1 - round % 2), false).unwrap();
        }
        tree.memory().quiesce();
        assert_eq!(used(TierId::NEAR) + used(tier(1)), all, "round {round}");
    }
}

#[test]
fn uses_of_leaves_are_counted_and_move_with_them() {
    let tree = filled(256, 300);
    let hot = scatter(17);
    for _ in 0..100 {
        let _ = tree.get(hot);
    }
    let name = leaves(&tree)
        .into_iter()
        .rfind(|leaf| leaf.key <= hot)
        .unwrap();
    tree.migrate(&name, tier(1), false).unwrap();
    let mut uses = 0;
    let _ = tree.visit_leaves(&mut |leaf| {
        if leaf.node == &name {
            uses = leaf.counter.uses();
        }
        ControlFlow::Continue(())
    });
    assert!((100..200).contains(&uses), "{uses}");
}
