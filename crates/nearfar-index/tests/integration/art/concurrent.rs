//! Many concurrent threads: nothing is lost, nothing appears that nobody put there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use nearfar_index::placement::{Placed, PlacedTree};
use nearfar_index::{Art, BlockValue, TreeValue};

use super::{mix, tier, tiered};

const KEYS: u64 = if cfg!(miri) { 40 } else { 2000 };
const STEPS: u64 = if cfg!(miri) { 100 } else { 30_000 };

/// Keys of several shapes in one space: dense, sparse, with long common parts, ending in others.
fn key(number: u64) -> Vec<u8> {
    match number % 4 {
        0 => (number as u32).to_be_bytes().to_vec(),
        1 => mix(number).to_be_bytes().to_vec(),
        2 => [&[3; 25][..], &mix(number).to_be_bytes()[..3]].concat(),
        _ => vec![4; (number / 4 % 400) as usize + 1],
    }
}

/// The value that belongs to a key, in one of several versions.
fn number_for(key: &[u8], version: u64) -> u64 {
    let sum = key
        .iter()
        .fold(key.len() as u64, |sum, byte| mix(sum ^ u64::from(*byte)));
    (sum << 8) | (version & 0xFF)
}

trait Checked: TreeValue + std::fmt::Debug + PartialEq {
    fn of(key: &[u8], version: u64) -> Self;
    fn belongs_to(&self, key: &[u8]) -> bool;
}

impl Checked for u64 {
    fn of(key: &[u8], version: u64) -> Self {
        number_for(key, version)
    }

    fn belongs_to(&self, key: &[u8]) -> bool {
        self >> 8 == number_for(key, 0) >> 8
    }
}

impl Checked for BlockValue {
    fn of(key: &[u8], version: u64) -> Self {
        let number = number_for(key, version).to_le_bytes();
        Self::new(number.repeat(1 + version as usize % 9)).unwrap()
    }

    fn belongs_to(&self, key: &[u8]) -> bool {
        let mut words = self.as_slice().chunks(8);
        let first = u64::from_le_bytes(words.next().unwrap().try_into().unwrap());
        first.belongs_to(key) && words.all(|word| word == first.to_le_bytes())
    }
}

/// Keys are dealt out: a third of them stay for ever, the others come and go by one writer each.
fn is_permanent(key: &[u8]) -> bool {
    owner(key) == 2
}

fn owner(key: &[u8]) -> u64 {
    (number_for(key, 0) >> 8) % 3
}

fn write<V: Checked>(tree: &Art<V>, me: u64) -> BTreeMap<Vec<u8>, V> {
    let mut mine = BTreeMap::new();
    for step in 0..STEPS {
        let random = mix(step * 2 + me);
        let key = key(random % KEYS);
        if is_permanent(&key) {
            let value = V::of(&key, random >> 50);
            let old = tree
                .insert(&key, value)
                .unwrap()
                .expect("it stays for ever");
            assert!(old.belongs_to(&key));
            continue;
        }
        if owner(&key) != me {
            continue;
        }
        // Long times of growing and of shrinking.
        let is_growing = (step / (STEPS / 6)).is_multiple_of(2);
        let is_insert = random >> 40 & 3 != 0;
        if is_insert == is_growing {
            let value = V::of(&key, random >> 50);
            let old = tree.insert(&key, value.clone()).unwrap();
            assert_eq!(old, mine.insert(key, value));
        } else {
            assert_eq!(tree.remove(&key), mine.remove(&key));
        }
    }
    mine
}

fn read<V: Checked>(tree: &Art<V>, permanent: &[Vec<u8>], is_over: &AtomicBool) {
    let mut step = 0;
    while !is_over.load(Relaxed) {
        step += 1;
        let own = &permanent[(mix(step) % permanent.len() as u64) as usize];
        assert!(tree.get(own).expect("it stays for ever").belongs_to(own));
        let other = key(mix(step) % KEYS);
        assert!(
            tree.get(&other)
                .is_none_or(|value| value.belongs_to(&other))
        );
        if step % 64 == 0 {
            let keys: Vec<_> = (0..20).map(|at| key(mix(step + at) % KEYS)).collect();
            let mut values = vec![];
            tree.get_batch(&keys, &mut values);
            for (key, value) in keys.iter().zip(values) {
                assert!(value.is_some() || !is_permanent(key));
                assert!(value.is_none_or(|value| value.belongs_to(key)));
            }
        }
    }
}

fn scan<V: Checked>(tree: &Art<V>, permanent: &[Vec<u8>], is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        for is_back in [false, true] {
            let mut seen = 0;
            let mut last: Option<Vec<u8>> = None;
            let mut visit = |key: &[u8], value: V| {
                assert!(value.belongs_to(key));
                let is_next = |last: &Vec<u8>| (last.as_slice() > key) == is_back && last != key;
                assert!(last.as_ref().is_none_or(is_next), "in order");
                last = Some(key.to_vec());
                seen += usize::from(is_permanent(key));
                ControlFlow::Continue(())
            };
            if is_back {
                tree.scan_back(&[255; 9], &mut visit);
            } else {
                tree.scan(&[0; 0], &mut visit);
            }
            assert_eq!(seen, permanent.len(), "what stays is seen");
        }
        let seen = tree.iter().filter(|(key, _)| is_permanent(key)).count();
        assert_eq!(seen, permanent.len());
    }
}

fn migrate<V: Checked>(tree: &Art<V>, is_over: &AtomicBool) -> usize {
    let mut moved = 0;
    let mut step = 0;
    while !is_over.load(Relaxed) {
        step += 1;
        let random = mix(step);
        let node = Placed {
            key: key(random % KEYS).into_boxed_slice(),
            level: (random >> 32) as u32 % 6,
        };
        let to = tier((random >> 40) as usize % 3);
        moved += usize::from(tree.migrate(&node, to, random >> 60 & 1 == 0).is_ok());
    }
    moved
}

fn everything_concurrently<V: Checked>() {
    let tree = tiered::<V>();
    let mut expected = BTreeMap::new();
    for key in (0..KEYS).map(key).filter(|key| is_permanent(key)) {
        tree.insert(&key, V::of(&key, 0)).unwrap();
        expected.insert(key, None);
    }
    let permanent: Vec<_> = expected.keys().cloned().collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [0, 1].map(|me| {
            scope.spawn({
                let tree = &tree;
                move || write(tree, me)
            })
        });
        scope.spawn(|| read(&tree, &permanent, &is_over));
        scope.spawn(|| scan(&tree, &permanent, &is_over));
        let migrator = scope.spawn(|| migrate(&tree, &is_over));
        let written = writers.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        for written in written {
            expected.extend(
                written
                    .unwrap()
                    .into_iter()
                    .map(|(key, value)| (key, Some(value))),
            );
        }
        assert!(migrator.join().unwrap() > 0 || cfg!(miri));
    });
    assert_eq!(tree.len(), expected.len());
    for ((key, value), (their_key, expected)) in tree.iter().zip(&expected) {
        assert_eq!(key, *their_key);
        assert!(value.belongs_to(&key));
        assert!(expected.as_ref().is_none_or(|expected| *expected == value));
    }
    for key in expected.keys() {
        assert!(tree.remove(key).is_some());
    }
    let nodes = (0..3).map(|index| tree.memory().ledger(tier(index)).node_bytes);
    assert_eq!(nodes.sum::<u64>(), 0);
}

#[test]
fn readers_writers_scanners_and_a_migrator_get_along() {
    everything_concurrently::<u64>();
}

#[test]
fn so_they_do_with_values_in_blocks() {
    everything_concurrently::<BlockValue>();
}

/// Each increment counts, whatever the leaf's way between tiers and nodes meanwhile.
#[test]
fn no_update_is_lost_while_leaves_move_and_grow() {
    const COUNTERS: u64 = 40;
    let tree = tiered::<u64>();
    for number in 0..COUNTERS {
        tree.insert(&mix(number), 0).unwrap();
    }
    let is_over = AtomicBool::new(false);
    let steps = STEPS / 4;
    thread::scope(|scope| {
        let updaters = [0, 1].map(|me| {
            let tree = &tree;
            scope.spawn(move || {
                for step in 0..steps {
                    let key = mix(mix(step * 2 + me) % COUNTERS);
                    assert!(tree.update(&key, |count| count + 1).unwrap().is_some());
                    // Neighbours come and go, so that leaves are replaced.
                    tree.insert(&(key ^ me ^ 2), 0).unwrap();
                    tree.remove(&(key ^ me ^ 2));
                }
            })
        });
        scope.spawn(|| {
            let mut step = 0;
            while !is_over.load(Relaxed) {
                step += 1;
                let key = mix(mix(step) % COUNTERS).to_be_bytes();
                for level in 0..4 {
                    let node = Placed {
                        key: Box::from(key),
                        level,
                    };
                    let _ = tree.migrate(&node, tier(step as usize % 3), false);
                }
            }
        });
        let ended = updaters.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        for ended in ended {
            ended.unwrap();
        }
    });
    let sum: u64 = (0..COUNTERS)
        .map(|number| tree.get(&mix(number)).unwrap())
        .sum();
    assert_eq!(sum, 2 * steps);
}

#[test]
fn of_many_that_insert_a_key_if_absent_one_does() {
    let tree = tiered::<u64>();
    let keys = STEPS / 8;
    let wins: u64 = thread::scope(|scope| {
        let threads = [0, 1, 2].map(|me| {
            let tree = &tree;
            scope.spawn(move || {
                let absent =
                    |number: &u64| tree.get_or_insert(&mix(*number), me).unwrap().is_none();
                (0..keys).filter(absent).count() as u64
            })
        });
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!((wins, tree.len() as u64), (keys, keys));
}
