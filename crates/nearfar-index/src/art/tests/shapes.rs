//! What trees of some keys look like.

use super::check::{check, totals};
use crate::art::Art;

fn shuffled(count: u64) -> Vec<u64> {
    // Odd multiples run through all residues.
    (0..count)
        .map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect()
}

#[test]
fn few_keys_are_one_leaf() {
    let tree: Art<u8> = [("a", 1), ("b", 2), ("c", 3)].into_iter().collect();
    let found = check(&tree);
    assert_eq!((found.leaves, found.nodes()), (1, 0));
}

#[test]
fn nodes_grow_and_shrink_with_their_children() {
    let tree = Art::<u16>::new();
    let keys: Vec<[u8; 2]> = (0..=255).map(|byte| [byte, 1]).collect();
    let mut kinds_growing = vec![];
    for (at, key) in keys.iter().enumerate() {
        tree.insert(key, at as u16).unwrap();
        kinds_growing.push(check(&tree).nodes_by_kind);
    }
    assert_eq!(kinds_growing[255], [0, 0, 0, 1]);
    assert!(kinds_growing.contains(&[0, 0, 1, 0]) && kinds_growing.contains(&[0, 1, 0, 0]));
    let mut kinds_shrinking = vec![];
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(tree.remove(key), Some(at as u16));
        kinds_shrinking.push(check(&tree).nodes_by_kind);
    }
    for kind in [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]] {
        assert!(kinds_shrinking.contains(&kind), "{kind:?}");
    }
    tree.memory().quiesce();
    assert_eq!(totals(&tree).used_bytes(), 0);
}

#[test]
fn ways_become_short_again() {
    let tree = Art::<u64>::new();
    let stem = [9_u8; 300];
    let keys: Vec<Vec<u8>> = (0..2000_u64)
        .map(|n| [stem.as_slice(), &n.to_be_bytes()].concat())
        .collect();
    for (key, n) in keys.iter().zip(0..) {
        tree.insert(key, n).unwrap();
    }
    let full = check(&tree);
    assert!(full.nodes() >= 8 && full.nodes() < 20, "{full:?}");
    for key in &keys[1..1999] {
        tree.remove(key).unwrap();
    }
    let found = check(&tree);
    assert_eq!(found.keys, [keys[0].clone(), keys[1999].clone()]);
    assert!(found.nodes() <= 1, "{found:?}");
}

#[test]
fn an_index_whose_slots_are_used_up_is_made_anew() {
    let tree = Art::<u64>::new();
    for round in 0..50_u64 {
        for byte in 0..30_u8 {
            tree.insert(&[byte.wrapping_mul(7).wrapping_add(round as u8), 1], round)
                .unwrap();
        }
        for byte in 0..24_u8 {
            tree.remove(&[byte.wrapping_mul(7).wrapping_add(round as u8), 1]);
        }
        check(&tree);
    }
}

#[test]
fn random_integers_take_few_bytes() {
    let keys = shuffled(if cfg!(miri) { 500 } else { 200_000 });
    let tree: Art<u64> = keys.iter().map(|key| (*key, *key)).collect();
    check(&tree);
    let bytes_per_key = totals(&tree).node_bytes as f64 / keys.len() as f64;
    assert!(bytes_per_key < 40.0, "{bytes_per_key}");
}

#[test]
fn consecutive_integers_take_few_bytes() {
    let count = if cfg!(miri) { 500 } else { 100_000_u64 };
    let tree: Art<u64> = (0..count).map(|key| (key, key)).collect();
    check(&tree);
    let bytes_per_key = totals(&tree).node_bytes as f64 / count as f64;
    assert!(bytes_per_key < 40.0, "{bytes_per_key}");
}
