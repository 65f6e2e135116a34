//! Many concurrent threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use nearfar_index::placement::{Placed, PlacedTree};
use nearfar_index::{BPlusTree, BlockValue, TreeValue};

use super::{scatter, tier, tree_on};

const BUDGETS: [u64; 3] = [1 << 30, 1 << 30, 1 << 30];
const KEYS: u64 = if cfg!(miri) { 40 } else { 4000 };
const ROUNDS: u64 = if cfg!(miri) { 2 } else { 12 };

/// Moves random nodes to random tiers until told to stop.
fn migrate<V: TreeValue>(tree: &BPlusTree<V>, stop: &AtomicBool) {
    let mut number = 0;
    while !stop.load(Relaxed) {
        number += 1;
        let chosen = scatter(number);
        let level = (chosen % u64::from(tree.height())) as u32;
        let name = Placed {
            key: scatter(chosen % KEYS),
            level,
        };
        let _ = tree.migrate(&name, tier((chosen >> 32) as usize % 3), number % 2 == 0);
        thread::yield_now();
    }
}

/// Values that say which key they belong to.
trait Belongs: TreeValue + PartialEq + std::fmt::Debug {
    fn of(key: u64, round: u64) -> Self;
    fn belongs_to(&self, key: u64) -> bool;
}

impl Belongs for u64 {
    fn of(key: u64, round: u64) -> Self {
        key << 16 | round
    }

    fn belongs_to(&self, key: u64) -> bool {
        *self >> 16 == key & (u64::MAX >> 16)
    }
}

impl Belongs for BlockValue {
    fn of(key: u64, round: u64) -> Self {
        let words = std::iter::repeat_n(key, (key % 5 + round % 3) as usize + 1);
        Self::new(words.flat_map(u64::to_le_bytes).collect::<Vec<_>>()).unwrap()
    }

    fn belongs_to(&self, key: u64) -> bool {
        let words = self.as_slice().chunks_exact(8);
        self.as_slice().len() >= 8 && words.into_iter().all(|word| word == key.to_le_bytes())
    }
}

/// Even keys stay for good, odd ones come and go.
fn everything_concurrently<V: Belongs>(node_bytes: usize) {
    let tree = tree_on::<V>(&BUDGETS, node_bytes);
    for number in (0..KEYS).step_by(2) {
        let key = scatter(number);
        tree.insert(key, V::of(key, 0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| migrate(&tree, &stop));
        scope.spawn(|| read(&tree, &stop));
        let writers = [0, 1].map(|writer| {
            let tree = &tree;
            scope.spawn(move || write(tree, writer))
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Relaxed);
    });
    for number in 0..KEYS {
        let key = scatter(number);
        let value = tree.get(key);
        if number % 2 == 0 {
            assert!(value.is_some_and(|value| value.belongs_to(key)), "{number}");
        } else {
            assert_eq!(value, None);
        }
    }
    assert_eq!(tree.len() as u64, KEYS / 2);
    assert_eq!(tree.iter().count() as u64, KEYS / 2);
    drop_and_check(tree);
}

/// Overwrites the keys that stay, and inserts and removes those of its own that do not.
fn write<V: Belongs>(tree: &BPlusTree<V>, writer: u64) {
    for round in 0..ROUNDS {
        for number in 0..KEYS {
            let key = scatter(number);
            if number % 2 == 0 {
                let old = tree.insert(key, V::of(key, round)).unwrap();
                assert!(
                    old.is_some_and(|old| old.belongs_to(key)),
                    "an overwritten key was away"
                );
                let new = tree.update(key, |old| {
                    assert!(old.belongs_to(key));
                    V::of(key, round + 1)
                });
                assert!(new.unwrap().is_some());
            } else if number % 4 == 1 + 2 * writer {
                assert_eq!(tree.insert(key, V::of(key, round)).unwrap(), None);
            }
        }
        for number in 0..KEYS {
            if number % 4 == 1 + 2 * writer {
                let key = scatter(number);
                assert_eq!(tree.remove(key), Some(V::of(key, round)));
            }
        }
    }
}

/// Looks at everything in every way; keys that stay must be there each time.
fn read<V: Belongs>(tree: &BPlusTree<V>, stop: &AtomicBool) {
    let mut staying: Vec<_> = (0..KEYS).step_by(2).map(scatter).collect();
    staying.sort_unstable();
    let mut values = Vec::new();
    let mut turn = 0;
    while !stop.load(Relaxed) {
        turn += 1;
        for key in &staying {
            let value = tree.get(*key).expect("a key that stays was away");
            assert!(value.belongs_to(*key));
        }
        values.clear();
        tree.get_batch(&staying, &mut values);
        for (key, value) in staying.iter().zip(&values) {
            let value = value.as_ref().expect("a key that stays was away");
            assert!(value.belongs_to(*key));
        }
        check_scan(tree, &staying, turn % 2 == 0);
        let mut seen = tree.iter().map(|(key, _)| key).collect::<Vec<_>>();
        if turn % 2 == 0 {
            seen = tree.iter().rev().map(|(key, _)| key).collect();
            seen.reverse();
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        seen.retain(|key| staying.binary_search(key).is_ok());
        assert_eq!(seen, staying);
    }
}

fn check_scan<V: Belongs>(tree: &BPlusTree<V>, staying: &[u64], back: bool) {
    let mut seen = Vec::new();
    let visit = |key, value: V| {
        assert!(value.belongs_to(key));
        seen.push(key);
        ControlFlow::Continue(())
    };
    if back {
        tree.scan_back(u64::MAX, visit);
        seen.reverse();
    } else {
        tree.scan(0, visit);
    }
    assert!(seen.is_sorted_by(|a, b| a < b));
    seen.retain(|key| staying.binary_search(key).is_ok());
    assert_eq!(seen, staying);
}

/// Nothing but the tree's own blocks is counted at the end.
fn drop_and_check<V: TreeValue>(tree: BPlusTree<V>) {
    tree.memory().quiesce();
    for key in 0..KEYS {
        tree.remove(scatter(key));
    }
    let ledgers = (0..3).map(|index| tree.memory().ledger(tier(index)));
    let (nodes, values) = ledgers.fold((0, 0), |(nodes, values), ledger| {
        (nodes + ledger.node_bytes, values + ledger.value_bytes)
    });
    assert_eq!((nodes, values), (tree.node_bytes() as u64, 0));
}

#[test]
fn no_key_that_stays_is_ever_away() {
    for node_bytes in [256, 1024] {
        everything_concurrently::<u64>(node_bytes);
    }
}

#[test]
fn no_value_beside_its_leaf_is_ever_torn() {
    everything_concurrently::<BlockValue>(256);
}

#[test]
fn of_several_inserts_of_a_key_one_wins() {
    let tree = tree_on::<u64>(&BUDGETS, 256);
    let won = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (tree, won) = (&tree, &won);
            scope.spawn(move || {
                for key in 0..KEYS {
                    let there = tree.get_or_insert(scatter(key), writer).unwrap();
                    if there.is_none() {
                        won.fetch_add(1, Relaxed);
                    }
                    let value = tree.get(scatter(key)).unwrap();
                    assert!(there.is_none_or(|there| there == value));
                }
            });
        }
    });
    assert_eq!(won.load(Relaxed), KEYS);
}

#[test]
fn no_update_is_lost() {
    let tree = tree_on::<u64>(&BUDGETS, 256);
    for key in 0..64 {
        tree.insert(scatter(key), 0).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| migrate(&tree, &stop));
        let writers = [0, 1].map(|_| {
            scope.spawn(|| {
                for turn in 0..KEYS * 4 {
                    let new = tree.update(scatter(turn % 64), |value| value + 1);
                    assert!(new.unwrap().is_some());
                }
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Relaxed);
    });
    let sum: u64 = tree.iter().map(|(_, value)| value).sum();
    assert_eq!(sum, 2 * KEYS * 4);
}
