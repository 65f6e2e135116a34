//! Visits of leaves that begin in the middle, identities of nodes, and heights, of all trees.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Placed, PlacedTree, Tracking};
use nearfar_index::{Art, BPlusTree, BPlusTreeOptions, Masstree};

const KEYS: u64 = if cfg!(miri) { 60 } else { 3000 };

fn ground() -> (NodeMemory, Frontend) {
    let memory = NodeMemory::platform_with_budgets(&[1 << 30; 2]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Path, memory.farthest());
    (memory, frontend)
}

fn btree() -> BPlusTree<u64> {
    let (memory, frontend) = ground();
    let options = BPlusTreeOptions {
        node_bytes: 256,
        ..BPlusTreeOptions::default()
    };
    let tree = BPlusTree::with_options(memory, frontend, options).unwrap();
    for key in 0..KEYS {
        tree.insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), key)
            .unwrap();
    }
    tree
}

/// Short keys, and long ones that share layers or have rests of their own.
fn strings() -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS).map(|number| match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        1 => format!("{number:06} and a rest").into_bytes(),
        _ => format!("what several keys begin with, {number}").into_bytes(),
    })
}

fn art() -> Art<u64> {
    let (memory, frontend) = ground();
    let tree = Art::with_memory(memory, frontend);
    for (value, key) in (0..).zip(strings()) {
        tree.insert(&key, value).unwrap();
    }
    tree
}

fn masstree() -> Masstree<u64> {
    let (memory, frontend) = ground();
    let tree = Masstree::with_memory(memory, frontend);
    for (value, key) in (0..).zip(strings()) {
        tree.insert(&key, value).unwrap();
    }
    tree
}

fn all_leaves<T: PlacedTree>(tree: &T) -> Vec<T::Node> {
    let mut all = Vec::new();
    let end = tree.visit_leaves(&mut |leaf| {
        all.push(leaf.node.clone());
        ControlFlow::Continue(())
    });
    assert_eq!(end, ControlFlow::Continue(()));
    all
}

/// The leaves from one on, at most so many.
fn leaves_from<T: PlacedTree>(tree: &T, from: &T::Node, count: usize) -> Vec<T::Node> {
    let mut found = Vec::new();
    let end = tree.visit_leaves_from(from, &mut |leaf| {
        found.push(leaf.node.clone());
        match found.len() < count {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    assert_eq!(end.unwrap().is_break(), found.len() == count);
    found
}

fn assert_visits_begin_anywhere<T: PlacedTree<Node: std::fmt::Debug>>(tree: &T) {
    let all = all_leaves(tree);
    assert!(all.len() > 10);
    for (index, leaf) in all.iter().enumerate().step_by(all.len() / 20 + 1) {
        assert_eq!(leaves_from(tree, leaf, usize::MAX), all[index..]);
    }
    // A visit in parts, each of which begins with the leaf that the one before ended with.
    let mut seen = vec![all[0].clone()];
    while seen.len() < all.len() {
        let part = leaves_from(tree, &seen[seen.len() - 1], 8);
        assert_eq!(part[0], seen[seen.len() - 1]);
        seen.extend_from_slice(&part[1..]);
    }
    assert_eq!(seen, all);
}

fn assert_identities_are_of_nodes<K: Clone>(tree: &impl PlacedTree<Node = Placed<K>>)
where
    Placed<K>: std::hash::Hash + Eq + Send,
{
    let all = all_leaves(tree);
    let leaves: HashSet<_> = all
        .iter()
        .map(|leaf| tree.identity(leaf).unwrap())
        .collect();
    assert_eq!(leaves.len(), all.len(), "leaves are told apart");
    let mut views = HashMap::new();
    for leaf in &all {
        let mut name = tree.parent(leaf);
        while let Some(inner) = name {
            let view = tree.view(&inner).unwrap();
            let identity = tree.identity(&inner).unwrap();
            let known = *views.entry(identity).or_insert(view);
            assert_eq!(known, view, "one node has one identity, whatever its name");
            name = tree.parent(&inner);
        }
    }
    assert!(views.len() > 1 && views.len() < all.len());
    let roots: Vec<_> = views.values().filter(|view| view.level == 0).collect();
    assert_eq!(roots.len(), 1);
    let (key, level) = (all[0].key.clone(), tree.height());
    assert_eq!(
        tree.identity(&Placed { key, level }),
        None,
        "there is no such level"
    );
}

#[test]
fn visits_begin_at_any_leaf() {
    assert_visits_begin_anywhere(&btree());
    assert_visits_begin_anywhere(&art());
    assert_visits_begin_anywhere(&masstree());
}

#[test]
fn a_node_has_one_identity_under_all_its_names() {
    assert_identities_are_of_nodes(&btree());
    assert_identities_are_of_nodes(&art());
    assert_identities_are_of_nodes(&masstree());
}

#[test]
fn a_visit_goes_on_behind_a_leaf_that_is_gone() {
    let tree = masstree();
    let all = all_leaves(&tree);
    let middle = all[all.len() / 2].clone();
    for key in strings().filter(|key| **key >= *middle.key) {
        tree.remove(&key).unwrap();
    }
    let left = all_leaves(&tree);
    let rest = leaves_from(&tree, &middle, usize::MAX);
    assert!(rest.len() <= 1, "{rest:?}");
    assert!(left.ends_with(&rest));
}

#[test]
fn the_height_follows_layers_that_come_and_go() {
    let tree = masstree();
    let deepest = || {
        let mut deepest = 0;
        let _ = tree.visit_leaves(&mut |leaf| {
            deepest = deepest.max(leaf.level);
            ControlFlow::Continue(())
        });
        deepest + 1
    };
    let full = tree.height();
    assert_eq!(full, deepest());
    tree.insert("what several keys begin with, 2, and more of it: 1", 1)
        .unwrap();
    tree.insert("what several keys begin with, 2, and more of it: 2", 1)
        .unwrap();
    assert!(tree.height() > full);
    assert_eq!(tree.height(), deepest());
    for (turn, key) in strings().enumerate() {
        tree.remove(&key).unwrap();
        if turn % 500 == 0 {
            assert_eq!(tree.height(), deepest());
        }
    }
    tree.remove("what several keys begin with, 2, and more of it: 1");
    tree.remove("what several keys begin with, 2, and more of it: 2");
    assert_eq!(tree.height(), 1);
}
