//! One thread against a `BTreeMap`.

use std::ops::{Bound, ControlFlow};

use nearfar_index::{BlockValue, Masstree, TreeError};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Oracle, assert_same, tier};

const CASES: u32 = if cfg!(miri) { 4 } else { 300 };

/// Keys that share slices, end anywhere in them, and have the least and the greatest bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(b'a'), Just(255)];
    let slice = prop_oneof![Just(*b"aaaaaaaa"), Just([0; 8]), Just([255; 8])];
    (vec(slice, 0..4), vec(byte, 0..10)).prop_map(|(slices, end)| {
        let mut key: Vec<u8> = slices.concat();
        key.extend(end);
        key
    })
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u8>, u64),
    GetOrInsert(Vec<u8>, u64),
    Update(Vec<u8>, u64),
    Remove(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>, Vec<bool>),
    Prefix(Vec<u8>),
    ScanBack(Vec<u8>),
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key(), any::<u64>()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        2 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Update(key, value)),
        4 => key().prop_map(Step::Remove),
        1 => (bound(), bound(), vec(any::<bool>(), 0..50))
            .prop_map(|(from, to, ends)| Step::Range(from, to, ends)),
        1 => key().prop_map(Step::Prefix),
        1 => key().prop_map(Step::ScanBack),
    ]
}

/// Whether a `BTreeMap` takes the range.
fn is_range(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Excluded(from), Bound::Excluded(to)) => from < to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from <= to,
        _ => true,
    }
}

fn check(tree: &Masstree<u64>, oracle: &mut Oracle, step: Step) {
    match step {
        Step::Insert(key, value) => {
            assert_eq!(tree.insert(&key, value), Ok(oracle.insert(key, value)));
        }
        Step::GetOrInsert(key, value) => {
            assert_eq!(
                tree.get_or_insert(&key, value),
                Ok(oracle.get(&key).copied())
            );
            oracle.entry(key).or_insert(value);
        }
        Step::Update(key, add) => {
            let expected = oracle.get_mut(&key).map(|value| {
                *value = value.wrapping_add(add);
                *value
            });
            let updated = tree.update(&key, |value| value.wrapping_add(add));
            assert_eq!(updated, Ok(expected));
        }
        Step::Remove(key) => assert_eq!(tree.remove(&key), oracle.remove(&key)),
        Step::Range(from, to, ends) => {
            let mut range = tree.range((from.clone(), to.clone()));
            if !is_range(&from, &to) {
                assert_eq!(range.next(), None);
                assert_eq!(range.next_back(), None);
                return;
            }
            let mut expected = oracle
                .range((from, to))
                .map(|(key, value)| (key.clone(), *value));
            for is_back in ends {
                if is_back {
                    assert_eq!(range.next_back(), expected.next_back());
                } else {
                    assert_eq!(range.next(), expected.next());
                }
            }
            assert!(range.eq(expected));
        }
        Step::Prefix(prefix) => {
            let all = oracle.iter();
            let expected = all.filter(|(key, _)| key.starts_with(&prefix));
            let expected = expected.map(|(key, value)| (key.clone(), *value));
            assert!(tree.prefix(&prefix).eq(expected));
        }
        Step::ScanBack(from) => {
            let mut seen = Vec::new();
            tree.scan_back(&from, |key, value| {
                seen.push((key.to_vec(), value));
                ControlFlow::Continue(())
            });
            let expected = oracle.range(..=from).rev();
            assert!(
                seen.into_iter()
                    .eq(expected.map(|(key, value)| (key.clone(), *value)))
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_are_those_of_a_map(steps in vec(step(), 1..400)) {
        let tree = Masstree::new();
        let mut oracle = Oracle::new();
        for step in steps {
            check(&tree, &mut oracle, step);
        }
        assert_same(&tree, &oracle);
        for key in oracle.keys() {
            assert!(tree.remove(key).is_some());
        }
        assert_is_empty(&tree);
    }
}

/// Nothing is left but a root.
fn assert_is_empty(tree: &Masstree<u64>) {
    assert!(tree.is_empty());
    assert_eq!(tree.iter().next(), None);
    assert_eq!(tree.iter().next_back(), None);
    tree.memory().quiesce();
    let ledger = tree.memory().ledger(tier(0));
    assert_eq!((ledger.value_bytes, ledger.retired_bytes), (0, 0));
    assert!(ledger.node_bytes <= 256, "{ledger:?}");
}

/// A permutation of the numbers below `count`.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    let step = 0x9E37_79B9_7F4A_7C15_u64 | 1;
    (0..count.next_power_of_two())
        .map(move |index| index.wrapping_mul(step) % count.next_power_of_two())
        .filter(move |number| *number < count)
}

#[test]
fn many_keys_come_and_go() {
    const KEYS: u64 = if cfg!(miri) { 300 } else { 30_000 };
    let tree = Masstree::new();
    let mut oracle = Oracle::new();
    for number in shuffled(KEYS) {
        tree.insert(&number, number + 1).unwrap();
        oracle.insert(number.to_be_bytes().to_vec(), number + 1);
    }
    assert_same(&tree, &oracle);
    for number in shuffled(KEYS).filter(|number| number % 3 != 0) {
        assert_eq!(tree.remove(&number), Some(number + 1));
        oracle.remove(number.to_be_bytes().as_slice());
    }
    assert_same(&tree, &oracle);
    for number in shuffled(KEYS) {
        let left = (number % 3 == 0).then_some(number + 1);
        assert_eq!(tree.remove(&number), left);
    }
    assert_is_empty(&tree);
}

#[test]
fn keys_in_order_fill_their_leaves() {
    const KEYS: u64 = if cfg!(miri) { 300 } else { 30_000 };
    let tree: Masstree<u64> = (0..KEYS).map(|number| (number, number)).collect();
    let bytes = tree.memory().ledger(tier(0)).node_bytes;
    assert!(bytes < KEYS * 22, "{} bytes a key", bytes / KEYS);
    let keys = tree.iter().map(|(_, number)| number);
    assert!(keys.eq(0..KEYS));
}

#[test]
fn layers_of_equal_prefixes_come_and_go() {
    const KEYS: u64 = if cfg!(miri) { 100 } else { 3000 };
    let tree = Masstree::new();
    let mut oracle = Oracle::new();
    let prefix = "https://example.org/a/prefix/of/many/slices/";
    for number in shuffled(KEYS) {
        for key in [
            format!("{prefix}{number}"),
            format!("{number}/{prefix}/{number}"),
        ] {
            tree.insert(&key, number).unwrap();
            oracle.insert(key.into_bytes(), number);
        }
    }
    assert_same(&tree, &oracle);
    for key in oracle.keys() {
        assert!(tree.remove(key).is_some());
    }
    assert_is_empty(&tree);
}

#[test]
fn the_longest_keys_share_all_but_their_last_byte() {
    let tree = Masstree::new();
    let mut oracle = Oracle::new();
    for last in 0..if cfg!(miri) { 2 } else { 20 } {
        let mut key = vec![7; Masstree::<u64>::KEY_BYTES_MAX];
        *key.last_mut().unwrap() = last;
        tree.insert(&key, u64::from(last)).unwrap();
        oracle.insert(key, u64::from(last));
    }
    assert_same(&tree, &oracle);
    for key in oracle.keys() {
        assert!(tree.remove(key).is_some());
    }
    assert_is_empty(&tree);
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let tree = Masstree::new();
    let key = vec![0; Masstree::<u64>::KEY_BYTES_MAX + 1];
    let refused = TreeError::KeyTooLong {
        bytes: key.len(),
        bytes_max: key.len() - 1,
    };
    assert_eq!(tree.insert(&key, 1), Err(refused));
    assert_eq!(tree.get(&key), None);
    assert_eq!(tree.remove(&key), None);
    assert!(tree.is_empty());
}

#[test]
fn values_in_blocks_are_kept_and_freed() {
    let tree = Masstree::new();
    let value = |number: u64| BlockValue::new(vec![number as u8; 40]).unwrap();
    for number in 0..100_u64 {
        let key = format!("a key that is long enough {number}");
        assert_eq!(tree.insert(&key, value(number)), Ok(None));
        assert_eq!(
            tree.insert(&key, value(number + 1)),
            Ok(Some(value(number)))
        );
        let update = tree.update(&key, |old| value(u64::from(old.as_slice()[0]) + 1));
        assert_eq!(update, Ok(Some(value(number + 2))));
    }
    for number in 0..50_u64 {
        let key = format!("a key that is long enough {number}");
        assert_eq!(tree.remove(&key), Some(value(number + 2)));
    }
    tree.memory().quiesce();
    let ledger = tree.memory().ledger(tier(0));
    assert_eq!(ledger.retired_bytes, 0);
    assert!(ledger.value_bytes >= 50 * 48, "{ledger:?}");
}
