//! The Masstree.

mod concurrency;
mod failure;
mod operations;
mod placement;

use std::collections::BTreeMap;

use nearfar_index::Masstree;
use nearfar_memory::TierId;

type Oracle = BTreeMap<Vec<u8>, u64>;

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

/// Everything of the tree, read in every way, is as in the oracle.
fn assert_same(tree: &Masstree<u64>, oracle: &Oracle) {
    assert_eq!(tree.len(), oracle.len());
    for (key, value) in oracle {
        assert_eq!(tree.get(key), Some(*value), "{key:?}");
    }
    let (keys, values): (Vec<_>, Vec<_>) = oracle
        .iter()
        .map(|(key, value)| (key, Some(*value)))
        .unzip();
    let mut found = Vec::new();
    tree.get_batch(&keys, &mut found);
    assert_eq!(found, values);
    let expected = || oracle.iter().map(|(key, value)| (key.clone(), *value));
    assert!(tree.iter().eq(expected()));
    assert!(tree.iter().rev().eq(expected().rev()));
    assert_eq!(tree.first(), expected().next());
    assert_eq!(tree.last(), expected().next_back());
}
