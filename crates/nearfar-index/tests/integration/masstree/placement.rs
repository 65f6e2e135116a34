//! Migration of nodes, and what the tree says of them. The names of some tests say where a published
//! implementation of the same idea fails.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{
    Allocation, Frontend, MigrateError, Migration, Placed, PlacedTree, Tracking,
};
use nearfar_index::{BlockValue, Masstree, TreeValue};

use super::{Oracle, assert_same, tier};

const KEYS: u64 = if cfg!(miri) { 60 } else { 2000 };
const PLENTY: u64 = 1 << 30;

type Name = Placed<Box<[u8]>>;

fn three_tiers<V: TreeValue>() -> Masstree<V> {
    let memory = NodeMemory::platform_with_budgets(&[PLENTY, PLENTY, PLENTY]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, tier(2));
    Masstree::with_memory(memory, frontend)
}

/// Short keys, long keys with rests of their own, and long keys that share layers.
fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS).flat_map(|number| {
        [
            number.to_be_bytes().to_vec(),
            format!("{number:06} and the rest of a long key").into_bytes(),
            format!("a prefix of several slices {number}").into_bytes(),
        ]
    })
}

fn filled() -> (Masstree<u64>, Oracle) {
    let (tree, mut oracle) = (three_tiers(), Oracle::new());
    for (value, key) in (0..).zip(keys()) {
        tree.insert(&key, value).unwrap();
        oracle.insert(key, value);
    }
    (tree, oracle)
}

/// All leaves by name, with level and bytes.
fn leaves<V: TreeValue>(tree: &Masstree<V>) -> Vec<(Name, u32, usize)> {
    let mut leaves = Vec::new();
    let end = tree.visit_leaves(&mut |leaf| {
        leaves.push((leaf.node.clone(), leaf.level, leaf.bytes));
        ControlFlow::Continue(())
    });
    assert_eq!(end, ControlFlow::Continue(()));
    leaves
}

/// All nodes once each, as names on the way to leaves, with their bytes: bytes of each tier.
fn walk<V: TreeValue>(tree: &Masstree<V>) -> BTreeMap<usize, u64> {
    let mut bytes = BTreeMap::new();
    let mut last: Vec<Name> = Vec::new();
    for (leaf, ..) in leaves(tree) {
        let path: Vec<Name> = std::iter::successors(Some(leaf), |name| tree.parent(name)).collect();
        for name in &path {
            let is_known = last
                .iter()
                .any(|other| other.level == name.level && is_same(tree, other, name));
            if !is_known {
                let view = tree.view(name).expect("a node on the way to a leaf");
                *bytes.entry(view.tier.index()).or_default() += view.bytes as u64;
            }
        }
        last = path;
    }
    bytes
}

/// Whether two names of one level mean the same node: an inner node or leaf whose tier changes under
/// one name does so under the other.
fn is_same<V: TreeValue>(tree: &Masstree<V>, one: &Name, other: &Name) -> bool {
    let view = tree.view(one).unwrap();
    let to = tier((view.tier.index() + 1) % 3);
    tree.migrate(one, to, false).unwrap();
    let moved = tree.view(other).unwrap().tier == to && {
        tree.migrate(one, tier((to.index() + 1) % 3), false)
            .unwrap();
        tree.view(other).unwrap().tier != to
    };
    tree.migrate(one, view.tier, false).unwrap();
    moved
}

fn assert_ledger_is_the_walk<V: TreeValue>(tree: &Masstree<V>) {
    let walked = walk(tree);
    tree.memory().quiesce();
    for index in 0..3 {
        let ledger = tree.memory().ledger(tier(index));
        let walked = walked.get(&index).copied().unwrap_or(0);
        assert_eq!(
            ledger.node_bytes + ledger.value_bytes,
            walked,
            "tier {index}"
        );
        assert_eq!(ledger.retired_bytes, 0, "tier {index}");
    }
}

#[test]
fn a_migration_keeps_the_rests_of_long_keys() {
    let (tree, oracle) = filled();
    for (round, (name, ..)) in leaves(&tree).into_iter().enumerate() {
        let to = tier(1 + round % 2);
        let moved = tree.migrate(&name, to, false).unwrap();
        assert!(matches!(moved, Migration::Moved { .. }));
        assert_eq!(tree.view(&name).unwrap().tier, to);
        assert_eq!(tree.migrate(&name, to, false), Ok(Migration::AlreadyThere));
    }
    assert_same(&tree, &oracle);
}

#[test]
fn the_walk_over_leaves_ends_with_many_layers_and_sees_each_leaf_once() {
    let (tree, oracle) = filled();
    let leaves = leaves(&tree);
    let names: std::collections::HashSet<_> = leaves.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), leaves.len());
    let layers = leaves.iter().filter(|(name, ..)| name.key.len() > 8);
    assert!(layers.count() > 2, "there are several layers");
    assert!(leaves.len() * 14 >= oracle.len());
    let mut seen = 0;
    let end = tree.visit_leaves(&mut |_| {
        seen += 1;
        match seen {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!((seen, end), (3, ControlFlow::Break(())));
}

#[test]
fn nodes_that_were_moved_away_are_freed() {
    let (tree, _) = filled();
    let leaves = leaves(&tree);
    let used = || -> u64 {
        tree.memory().quiesce();
        let ledgers = (0..3).map(|index| tree.memory().ledger(tier(index)));
        ledgers.map(|ledger| ledger.used_bytes()).sum()
    };
    let before = used();
    for round in 0..if cfg!(miri) { 2 } else { 30 } {
        for (name, ..) in &leaves {
            tree.migrate(name, tier(round % 3), false).unwrap();
        }
        assert_eq!(used(), before, "round {round}");
    }
}

#[test]
fn a_walk_lets_memory_go_while_it_is_under_way() {
    let (tree, _) = filled();
    let mut most = 0;
    let _ = tree.visit_leaves(&mut |leaf| {
        for to in [1, 2, 0] {
            tree.migrate(leaf.node, tier(to), false).unwrap();
        }
        tree.memory().quiesce();
        let retired = (0..3).map(|index| tree.memory().ledger(tier(index)).retired_bytes);
        most = most.max(retired.sum::<u64>());
        ControlFlow::Continue(())
    });
    let all = leaves(&tree).len() as u64 * 256;
    assert!(most < 100 * 3 * 2000, "{most} of {all} bytes");
}

#[test]
fn levels_are_true_after_splits() {
    let tree = three_tiers();
    let mut height = 0;
    for number in 0..KEYS {
        tree.insert(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15), number)
            .unwrap();
        if number.is_power_of_two() {
            let leaves = leaves(&tree);
            assert!(tree.height() >= height);
            height = tree.height();
            assert!(leaves.iter().all(|(_, level, _)| level + 1 == height));
        }
    }
    tree.insert("a layer below with a long key", 1).unwrap();
    tree.insert("a layer below with another long key", 2)
        .unwrap();
    let deepest = leaves(&tree).iter().map(|(_, level, _)| *level).max();
    assert_eq!(tree.height(), deepest.unwrap() + 1);
    assert!(tree.height() > height);
    for (name, level, bytes) in leaves(&tree) {
        let view = tree.view(&name).unwrap();
        assert_eq!((view.level, view.bytes, view.is_leaf), (level, bytes, true));
        let path = std::iter::successors(tree.parent(&name), |name| tree.parent(name));
        assert_eq!(path.count() as u32, level);
    }
}

#[test]
fn the_ledger_is_a_walk_over_the_tree_with_its_values_and_rests() {
    let tree = three_tiers();
    for (number, key) in (0..).zip(keys()).take(if cfg!(miri) { 30 } else { 600 }) {
        let value = BlockValue::new(vec![7; number % 50]).unwrap();
        tree.insert(&key, value).unwrap();
    }
    assert_ledger_is_the_walk(&tree);
    for (round, (name, ..)) in leaves(&tree).into_iter().enumerate() {
        for name in [Some(name.clone()), tree.parent(&name)]
            .into_iter()
            .flatten()
        {
            tree.migrate(&name, tier(round % 3), false).unwrap();
        }
    }
    assert_ledger_is_the_walk(&tree);
    for (number, key) in (0..).zip(keys()).take(if cfg!(miri) { 30 } else { 600 }) {
        let value = tree.get(&key).unwrap();
        assert_eq!(value.as_slice(), vec![7; number % 50]);
    }
}

#[test]
fn a_boundary_is_kept_along_a_path_through_layers() {
    let (tree, oracle) = filled();
    let (deepest, level, _) = leaves(&tree)
        .into_iter()
        .max_by_key(|(_, level, _)| *level)
        .unwrap();
    let path: Vec<Name> = std::iter::successors(Some(deepest), |name| tree.parent(name)).collect();
    assert_eq!(path.len() as u32, level + 1);
    for (name, below) in path[1..].iter().zip(&path) {
        let refused = tree.migrate(name, tier(1), true);
        assert_eq!(refused, Err(MigrateError::CrossesBoundary), "{name:?}");
        assert_eq!(tree.view(name).unwrap().nearest_child, Some(tier(0)));
        assert!(tree.view(below).unwrap().tier == tier(0));
    }
    tree.migrate(&path[0], tier(1), true).unwrap();
    tree.migrate(&path[0], tier(2), true).unwrap();
    tree.migrate(&path[0], tier(0), true).unwrap();
    for name in &path {
        tree.migrate(name, tier(2), false).unwrap();
    }
    let refused = tree.migrate(&path[0], tier(0), true);
    assert_eq!(refused, Err(MigrateError::CrossesBoundary));
    let gone = Placed {
        level: level + 1,
        ..path[0].clone()
    };
    assert_eq!(tree.migrate(&gone, tier(0), false), Err(MigrateError::Gone));
    assert_eq!(tree.view(&gone), None);
    assert_same(&tree, &oracle);
}

#[test]
fn a_leaf_moves_with_all_that_it_has_or_not_at_all() {
    let memory = NodeMemory::platform_with_budgets(&[PLENTY, 0]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, tier(1));
    let tree = Masstree::with_memory(memory, frontend);
    for number in 0..10_u8 {
        let value = BlockValue::new(vec![number; 100]).unwrap();
        tree.insert(&format!("{number} with a rest"), value)
            .unwrap();
    }
    let (name, _, bytes) = leaves(&tree).remove(0);
    for budget in (0..=bytes as u64).step_by(8) {
        tree.memory().set_budget(tier(1), budget);
        let moved = tree.migrate(&name, tier(1), true);
        if budget < bytes as u64 {
            let no_room = MigrateError::NoRoom {
                tier: tier(1),
                bytes,
            };
            assert_eq!(moved, Err(no_room), "with {budget} bytes");
            assert_eq!(tree.memory().ledger(tier(1)).used_bytes(), 0);
        } else {
            let from = tier(0);
            assert_eq!(moved, Ok(Migration::Moved { from, bytes }));
        }
    }
    assert_eq!(tree.memory().ledger(tier(1)).used_bytes(), bytes as u64);
    for number in 0..10_u8 {
        let value = tree.get(&format!("{number} with a rest")).unwrap();
        assert_eq!(value.as_slice(), [number; 100]);
    }
}

#[test]
fn uses_of_leaves_are_counted_and_move_along() {
    let tree = three_tiers();
    tree.insert("key", 1).unwrap();
    for _ in 0..9 {
        assert_eq!(tree.get("key"), Some(1));
    }
    let uses = || {
        let mut uses = 0;
        let _ = tree.visit_leaves(&mut |leaf| {
            uses = leaf.counter.uses();
            ControlFlow::Continue(())
        });
        uses
    };
    assert_eq!(uses(), 10);
    let (name, ..) = leaves(&tree).remove(0);
    tree.migrate(&name, tier(1), false).unwrap();
    assert_eq!(uses(), 10);
}
