//! The tree against the standard library's.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::Frontend;
use nearfar_index::{BPlusTree, BPlusTreeError, BPlusTreeOptions, BlockValue};
use nearfar_memory::TierId;
use proptest::prelude::*;

use super::{NODE_BYTES, options, scatter, tree_on};

const UNLIMITED: u64 = 1 << 40;

#[derive(Debug, Clone)]
enum Operation {
    Insert(u64, u64),
    GetOrInsert(u64, u64),
    Update(u64),
    Remove(u64),
    Get(u64),
    Scan(u64, usize),
    ScanBack(u64, usize),
    Range(Bound<u64>, Bound<u64>, Vec<bool>),
    Batch(Vec<u64>),
    Ends,
}

/// Keys that meet often, and those at the ends.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..2000_u64,
        1 => prop::sample::select(vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63]),
        1 => any::<u64>(),
    ]
}

fn bound() -> impl Strategy<Value = Bound<u64>> {
    prop_oneof![
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let ends = prop::collection::vec(any::<bool>(), 0..300);
    prop_oneof![
        12 => (key(), any::<u64>()).prop_map(|(k, v)| Operation::Insert(k, v)),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Operation::GetOrInsert(k, v)),
        2 => key().prop_map(Operation::Update),
        8 => key().prop_map(Operation::Remove),
        4 => key().prop_map(Operation::Get),
        1 => (key(), 0..200_usize).prop_map(|(k, n)| Operation::Scan(k, n)),
        1 => (key(), 0..200_usize).prop_map(|(k, n)| Operation::ScanBack(k, n)),
        1 => (bound(), bound(), ends).prop_map(|(a, b, c)| Operation::Range(a, b, c)),
        1 => prop::collection::vec(key(), 0..40).prop_map(Operation::Batch),
        1 => Just(Operation::Ends),
    ]
}

/// Does the same to both, and compares what they say.
fn apply(tree: &BPlusTree<u64>, model: &mut BTreeMap<u64, u64>, operation: Operation) {
    match operation {
        Operation::Insert(key, value) => {
            assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value));
        }
        Operation::GetOrInsert(key, value) => {
            let there = model.get(&key).copied();
            model.entry(key).or_insert(value);
            assert_eq!(tree.get_or_insert(key, value).unwrap(), there);
        }
        Operation::Update(key) => {
            let changed = model.get_mut(&key).map(|value| {
                *value = value.wrapping_add(key);
                *value
            });
            let change = |value: u64| value.wrapping_add(key);
            assert_eq!(tree.update(key, change).unwrap(), changed);
        }
        Operation::Remove(key) => assert_eq!(tree.remove(key), model.remove(&key)),
        Operation::Get(key) => {
            assert_eq!(tree.get(key), model.get(&key).copied());
            assert_eq!(tree.contains_key(key), model.contains_key(&key));
        }
        Operation::Scan(from, count) => {
            let expected = model.range(from..).take(count).map(|(k, v)| (*k, *v));
            assert_eq!(
                scanned(tree, from, count, false),
                expected.collect::<Vec<_>>()
            );
        }
        Operation::ScanBack(from, count) => {
            let expected = model
                .range(..=from)
                .rev()
                .take(count)
                .map(|(k, v)| (*k, *v));
            assert_eq!(
                scanned(tree, from, count, true),
                expected.collect::<Vec<_>>()
            );
        }
        Operation::Range(from, to, ends) => check_range(tree, model, (from, to), &ends),
        Operation::Batch(keys) => {
            let mut values = vec![Some(1)];
            tree.get_batch(&keys, &mut values);
            let expected = keys.iter().map(|key| model.get(key).copied());
            assert_eq!(values[1..], expected.collect::<Vec<_>>());
        }
        Operation::Ends => {
            assert_eq!(tree.first(), model.first_key_value().map(|(k, v)| (*k, *v)));
            assert_eq!(tree.last(), model.last_key_value().map(|(k, v)| (*k, *v)));
            assert_eq!(tree.len(), model.len());
            assert_eq!(tree.is_empty(), model.is_empty());
        }
    }
}

fn scanned(tree: &BPlusTree<u64>, from: u64, count: usize, back: bool) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    let visit = |key, value| {
        if pairs.len() == count {
            return ControlFlow::Break(());
        }
        pairs.push((key, value));
        ControlFlow::Continue(())
    };
    if back {
        tree.scan_back(from, visit);
    } else {
        tree.scan(from, visit);
    }
    pairs
}

/// Takes pairs from the front and the back as `ends` says, then all.
fn check_range(
    tree: &BPlusTree<u64>,
    model: &BTreeMap<u64, u64>,
    keys: (Bound<u64>, Bound<u64>),
    ends: &[bool],
) {
    let is_within = |key: &u64| std::ops::RangeBounds::contains(&keys, key);
    let mut expected: std::collections::VecDeque<_> = model
        .iter()
        .filter(|(key, _)| is_within(key))
        .map(|(key, value)| (*key, *value))
        .collect();
    let mut range = tree.range(keys);
    for from_front in ends {
        if *from_front {
            assert_eq!(range.next(), expected.pop_front());
        } else {
            assert_eq!(range.next_back(), expected.pop_back());
        }
    }
    assert_eq!(range.collect::<Vec<_>>(), Vec::from(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]
    #[test]
    fn it_does_what_an_ordered_map_does(
        node_bytes in prop::sample::select(NODE_BYTES.to_vec()),
        operations in prop::collection::vec(operation(), 0..if cfg!(miri) { 60 } else { 3000 }),
    ) {
        let tree = tree_on(&[UNLIMITED], node_bytes);
        let mut model = BTreeMap::new();
        for operation in operations {
            apply(&tree, &mut model, operation);
        }
        prop_assert!(tree.iter().eq(model.iter().map(|(key, value)| (*key, *value))));
    }

    #[test]
    fn a_bulk_load_holds_what_it_was_given(
        node_bytes in prop::sample::select(NODE_BYTES.to_vec()),
        fill_factor in 0.01..=1.0_f64,
        keys in prop::collection::btree_set(key(), 0..if cfg!(miri) { 60 } else { 3000 }),
    ) {
        let options = BPlusTreeOptions { node_bytes, fill_factor };
        let pairs = keys.iter().map(|key| (*key, scatter(*key)));
        let (memory, frontend) = (NodeMemory::platform(), Frontend::all_near());
        let tree = BPlusTree::bulk_load(memory, frontend, options, pairs.clone()).unwrap();
        prop_assert!(tree.iter().eq(pairs.clone()));
        prop_assert!(tree.iter().rev().eq(pairs.clone().rev()));
        prop_assert_eq!(tree.len(), keys.len());
        // It goes on as any other tree.
        for key in &keys {
            prop_assert_eq!(tree.insert(key ^ 1, 1).unwrap().is_some(), keys.contains(&(key ^ 1)));
        }
    }
}

#[test]
fn a_bulk_load_refuses_keys_out_of_order() {
    for keys in [[1, 3, 2], [1, 2, 2]] {
        let (memory, frontend) = (NodeMemory::platform(), Frontend::all_near());
        let pairs = keys.map(|key| (key, key));
        let error = BPlusTree::<u64>::bulk_load(memory, frontend, options(256), pairs).unwrap_err();
        let expected = BPlusTreeError::NotAscending {
            key: keys[2],
            previous: keys[1],
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn a_tree_that_is_emptied_keeps_its_root_only() {
    let count = if cfg!(miri) { 200 } else { 20_000 };
    for node_bytes in NODE_BYTES {
        let tree = tree_on(&[UNLIMITED], node_bytes);
        let order: [fn(u64, u64) -> u64; 3] = [
            |at, _| at,
            |at, count| count - 1 - at,
            |at, count| (at * 7919) % count,
        ];
        for order in order {
            for key in 0..count {
                tree.insert(scatter(key), key).unwrap();
            }
            for at in 0..count {
                let key = order(at, count);
                assert_eq!(tree.remove(scatter(key)), Some(key));
            }
            assert_eq!(tree.iter().next(), None);
            let ledger = tree.memory().ledger(TierId::NEAR);
            assert_eq!(ledger.node_bytes, node_bytes as u64, "{node_bytes}");
        }
    }
}

#[test]
fn keys_in_order_fill_their_leaves() {
    let tree = tree_on(&[UNLIMITED], 1024);
    let count: u64 = if cfg!(miri) { 500 } else { 100_000 };
    for key in 0..count {
        tree.insert(key, key).unwrap();
    }
    let bytes_per_key = tree.memory().ledger(TierId::NEAR).node_bytes as f64 / count as f64;
    assert!(bytes_per_key < 22.0, "{bytes_per_key}");
}

#[test]
fn random_keys_take_at_most_28_bytes_each() {
    let tree = tree_on(&[UNLIMITED], BPlusTreeOptions::default().node_bytes);
    let count = if cfg!(miri) { 500 } else { 200_000 };
    for key in 0..count {
        tree.insert(scatter(key), key).unwrap();
    }
    let bytes_per_key = tree.memory().ledger(TierId::NEAR).node_bytes as f64 / count as f64;
    assert!(cfg!(miri) || bytes_per_key < 28.0, "{bytes_per_key}");
}

#[test]
fn values_of_any_length_come_back() {
    let tree: BPlusTree<BlockValue> = BPlusTree::new();
    let value = |key: u64, round: u8| {
        let length = (scatter(key) % 300) as usize;
        BlockValue::new(vec![key as u8 ^ round; length]).unwrap()
    };
    let count = if cfg!(miri) { 60 } else { 3000 };
    for key in 0..count {
        tree.insert(key, value(key, 0)).unwrap();
    }
    for key in 0..count {
        assert_eq!(
            tree.insert(key, value(key, 1)).unwrap(),
            Some(value(key, 0))
        );
        assert_eq!(
            tree.get_or_insert(key, value(key, 9)).unwrap(),
            Some(value(key, 1))
        );
        let new = tree.update(key, |old| {
            assert_eq!(old, value(key, 1));
            value(key, 2)
        });
        assert_eq!(new.unwrap(), Some(value(key, 2)));
    }
    assert!(tree.iter().eq((0..count).map(|key| (key, value(key, 2)))));
    for key in 0..count {
        assert_eq!(tree.remove(key), Some(value(key, 2)));
    }
    let ledger = tree.memory().ledger(TierId::NEAR);
    assert_eq!(ledger.value_bytes, 0);
}

#[test]
fn it_is_made_as_other_maps_are() {
    let mut tree: BPlusTree<u64> = [(2, 20), (1, 10)].into_iter().collect();
    tree.extend([(3, 30)]);
    assert_eq!(format!("{tree:?}"), "{1: 10, 2: 20, 3: 30}");
    assert_eq!((&tree).into_iter().count(), 3);
    assert!(BPlusTree::<u64>::default().is_empty());
}
