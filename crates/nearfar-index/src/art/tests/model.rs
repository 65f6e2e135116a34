//! Random operations against a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use nearfar_memory::TierId;
use proptest::prelude::*;

use super::check::{check, totals};
use crate::art::Art;
use crate::memory::NodeMemory;
use crate::placement::{Allocation, Frontend, Placed, PlacedTree, Tracking};
use crate::value::{BlockValue, TreeValue};

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u8>, u64),
    GetOrInsert(Vec<u8>, u64),
    Update(Vec<u8>, u64),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>, Vec<bool>),
    Prefix(Vec<u8>),
    Scan(Vec<u8>),
    Batch(Vec<Vec<u8>>),
    Migrate(Vec<u8>, u32, usize),
}

/// Keys that share much, end in one another, and have the bytes at the ends of the alphabet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0_u8..3, 1 => any::<u8>(), 1 => Just(255)];
    let shared = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![0; 3]),
        1 => Just(vec![7; 40]),
        1 => Just(vec![255; 9]),
    ];
    (shared, prop::collection::vec(byte, 0..6)).prop_map(|(shared, tail)| [shared, tail].concat())
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key(), any::<u64>()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        2 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Update(key, value)),
        5 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::Get),
        1 => (bound(), bound(), prop::collection::vec(any::<bool>(), 1..30))
            .prop_map(|(from, to, ends)| Step::Range(from, to, ends)),
        1 => key().prop_map(Step::Prefix),
        1 => key().prop_map(Step::Scan),
        1 => prop::collection::vec(key(), 0..40).prop_map(Step::Batch),
        2 => (key(), 0..6_u32, 0..3_usize).prop_map(|(key, level, to)| Step::Migrate(key, level, to)),
    ]
}

type Model = BTreeMap<Vec<u8>, u64>;

fn in_range<'m>(
    model: &'m Model,
    from: &'m Bound<Vec<u8>>,
    to: &'m Bound<Vec<u8>>,
) -> impl DoubleEndedIterator<Item = (&'m Vec<u8>, &'m u64)> {
    // Ranges of a `BTreeMap` panic where they are upside down.
    model.iter().filter(move |(key, _)| {
        (match from {
            Bound::Unbounded => true,
            Bound::Included(from) => *key >= from,
            Bound::Excluded(from) => *key > from,
        }) && (match to {
            Bound::Unbounded => true,
            Bound::Included(to) => *key <= to,
            Bound::Excluded(to) => *key < to,
        })
    })
}

/// How numbers become the values of a tree.
trait Numbered: TreeValue + PartialEq + std::fmt::Debug {
    fn numbered(number: u64) -> Self;
}

impl Numbered for u64 {
    fn numbered(number: u64) -> Self {
        number
    }
}

impl Numbered for BlockValue {
    fn numbered(number: u64) -> Self {
        Self::new(vec![number as u8; (number % 50) as usize]).unwrap()
    }
}

fn run<V: Numbered>(tree: &Art<V>, model: &mut Model, step: Step) {
    let value = |number: &u64| V::numbered(*number);
    let to_value = |number: Option<u64>| number.map(V::numbered);
    match step {
        Step::Insert(key, number) => {
            let old = tree.insert(&key, value(&number)).unwrap();
            assert_eq!(old, to_value(model.insert(key, number)));
        }
        Step::GetOrInsert(key, number) => {
            let there = tree.get_or_insert(&key, value(&number)).unwrap();
            assert_eq!(there, to_value(model.get(&key).copied()));
            model.entry(key).or_insert(number);
        }
        Step::Update(key, number) => {
            let new = tree.update(&key, |_| value(&number)).unwrap();
            let there = model.get_mut(&key).map(|old| *old = number);
            assert_eq!(new, there.map(|()| value(&number)));
        }
        Step::Remove(key) => assert_eq!(tree.remove(&key), to_value(model.remove(&key))),
        Step::Get(key) => {
            assert_eq!(tree.get(&key), to_value(model.get(&key).copied()));
            assert_eq!(tree.contains_key(&key), model.contains_key(&key));
        }
        Step::Range(from, to, ends) => {
            let (mut ours, mut theirs) = (
                tree.range((from.clone(), to.clone())),
                in_range(model, &from, &to),
            );
            for is_front in ends.into_iter().cycle().take(model.len() + 2) {
                let (our, their) = if is_front {
                    (ours.next(), theirs.next())
                } else {
                    (ours.next_back(), theirs.next_back())
                };
                assert_eq!(our, their.map(|(key, number)| (key.clone(), value(number))));
            }
        }
        Step::Prefix(prefix) => {
            let theirs = model.iter().filter(|(key, _)| key.starts_with(&prefix));
            let theirs = theirs.map(|(key, number)| (key.clone(), value(number)));
            assert!(tree.prefix(&prefix).eq(theirs));
        }
        Step::Scan(from) => scan(tree, model, &from),
        Step::Batch(keys) => {
            let mut values = vec![];
            tree.get_batch(&keys, &mut values);
            let expected = keys.iter().map(|key| to_value(model.get(key).copied()));
            assert!(values.into_iter().eq(expected));
        }
        Step::Migrate(key, level, to) => {
            let node = Placed {
                key: key.into(),
                level,
            };
            let before = tree.view(&node);
            let to = TierId::from_index(to).unwrap();
            let moved = tree.migrate(&node, to, false);
            assert_eq!(moved.is_ok(), before.is_some());
            if let Some(before) = before {
                let after = tree.view(&node).unwrap();
                assert_eq!((after.tier, after.bytes <= before.bytes), (to, true));
            }
        }
    }
}

fn scan<V: Numbered>(tree: &Art<V>, model: &Model, from: &[u8]) {
    let mut ours = vec![];
    tree.scan(from, |key, value| {
        ours.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    let expected = |(key, number): (&Vec<u8>, &u64)| (key.clone(), V::numbered(*number));
    assert!(
        ours.into_iter()
            .eq(model.range(from.to_vec()..).map(expected))
    );
    let mut ours = vec![];
    tree.scan_back(from, |key, value| {
        ours.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    assert!(
        ours.into_iter()
            .eq(model.range(..=from.to_vec()).rev().map(expected))
    );
}

fn run_all<V: Numbered>(steps: Vec<Step>) {
    let memory = NodeMemory::platform_with_budgets(&[1 << 30; 3]);
    let farthest = memory.farthest();
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, farthest);
    frontend.set_boundary(TierId::NEAR, 1);
    let tree = Art::<V>::with_memory(memory, frontend);
    let mut model = Model::new();
    for step in steps {
        run(&tree, &mut model, step);
    }
    assert_eq!(check(&tree).keys, model.keys().cloned().collect::<Vec<_>>());
    for key in model.keys() {
        assert!(tree.remove(key).is_some());
    }
    check(&tree);
    tree.memory().quiesce();
    assert_eq!(
        totals(&tree).used_bytes(),
        0,
        "an empty tree takes no memory"
    );
}

const CASES: u32 = if cfg!(miri) { 2 } else { 300 };
const STEPS: usize = if cfg!(miri) { 60 } else { 250 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_btree_map_does(steps in prop::collection::vec(step(), 1..STEPS)) {
        run_all::<u64>(steps);
    }

    #[test]
    fn it_does_so_with_values_in_blocks(steps in prop::collection::vec(step(), 1..STEPS / 2)) {
        run_all::<BlockValue>(steps);
    }

    #[test]
    fn random_numbers_come_back_in_order(mut keys in prop::collection::vec(any::<u64>(), 1..3000)) {
        let tree: Art<u64> = keys.iter().map(|key| (*key, *key)).collect();
        check(&tree);
        keys.sort_unstable();
        keys.dedup();
        prop_assert!(tree.iter().map(|(_, value)| value).eq(keys.iter().copied()));
        prop_assert!(tree.iter().rev().map(|(_, value)| value).eq(keys.iter().rev().copied()));
        for key in &keys {
            prop_assert_eq!(tree.remove(key), Some(*key));
        }
        check(&tree);
    }
}
