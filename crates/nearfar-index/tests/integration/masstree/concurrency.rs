//! Several concurrent threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, MigrateError, PlacedTree, Tracking};
use nearfar_index::{BlockValue, Masstree};

use super::tier;

const ROUNDS: u64 = if cfg!(miri) { 3 } else { 150 };
const KEYS: u64 = if cfg!(miri) { 24 } else { 400 };

/// A key of one of several shapes, so that neighbours are in other layers.
fn key(number: u64) -> Vec<u8> {
    match number % 4 {
        0 => number.to_be_bytes().to_vec(),
        1 => format!("{:04}", number % 10_000).into_bytes(),
        2 => format!("{number:04} and a rest of its own").into_bytes(),
        _ => format!("some slices that are the same {number}").into_bytes(),
    }
}

/// A value tells its key, and how often it was written.
fn value(number: u64, round: u64) -> BlockValue {
    let mut bytes = key(number);
    bytes.extend(round.to_be_bytes());
    BlockValue::new(bytes).unwrap()
}

fn assert_is_of(key: &[u8], value: &BlockValue) {
    assert_eq!(&value.as_slice()[..key.len()], key);
    assert_eq!(value.as_slice().len(), key.len() + 8);
}

fn tree() -> Masstree<BlockValue> {
    let memory = NodeMemory::platform_with_budgets(&[1 << 30, 1 << 30]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, tier(1));
    Masstree::with_memory(memory, frontend)
}

/// Keys that are never removed are there whenever somebody looks.
fn read(tree: &Masstree<BlockValue>, done: &AtomicBool) {
    let mut values = Vec::new();
    while !done.load(Ordering::Relaxed) {
        for number in (0..KEYS).filter(|number| is_kept(*number)) {
            let key = key(number);
            assert_is_of(&key, &tree.get(&key).expect("a key that is never removed"));
        }
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        values.clear();
        tree.get_batch(&keys, &mut values);
        for (number, value) in (0..).zip(&values) {
            assert!(value.is_some() || !is_kept(number));
            if let Some(value) = value {
                assert_is_of(&key(number), value);
            }
        }
    }
}

fn scan(tree: &Masstree<BlockValue>, done: &AtomicBool) {
    let kept = (0..KEYS).filter(|number| is_kept(*number)).count();
    while !done.load(Ordering::Relaxed) {
        let (mut seen, mut last) = (0, Vec::new());
        tree.scan(&[][..], |key, value| {
            assert_is_of(key, &value);
            assert!(last.as_slice() < key);
            seen += usize::from(is_kept_key(key));
            last = key.to_vec();
            ControlFlow::Continue(())
        });
        assert_eq!(seen, kept);
        let back = tree
            .iter()
            .rev()
            .inspect(|(key, value)| assert_is_of(key, value));
        assert_eq!(back.filter(|(key, _)| is_kept_key(key)).count(), kept);
    }
}

fn is_kept(number: u64) -> bool {
    number % 8 < 4
}

fn is_kept_key(sought: &[u8]) -> bool {
    (0..KEYS)
        .filter(|number| is_kept(*number))
        .any(|number| key(number) == sought)
}

fn migrate(tree: &Masstree<BlockValue>, done: &AtomicBool) {
    let mut to = 0;
    while !done.load(Ordering::Relaxed) {
        let mut names = Vec::new();
        let _ = tree.visit_leaves(&mut |leaf| {
            names.push(leaf.node.clone());
            ControlFlow::Continue(())
        });
        for name in names {
            to += 1;
            let way = std::iter::successors(Some(name), |name| tree.parent(name));
            for name in way.take(1 + to % 4) {
                match tree.migrate(&name, tier((to / 3) % 2), false) {
                    Ok(_) | Err(MigrateError::Gone | MigrateError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

/// Writes what is kept, and lets the rest come and go.
fn write(tree: &Masstree<BlockValue>, part: u64) {
    for round in 1..=ROUNDS {
        for number in (0..KEYS).filter(|number| number / 8 % 2 == part) {
            let key = key(number);
            if is_kept(number) {
                let old = tree.insert(&key, value(number, round)).unwrap();
                assert_eq!(old, Some(value(number, round - 1)));
            } else if round % 2 == 1 {
                assert_eq!(tree.insert(&key, value(number, round)), Ok(None));
            } else {
                assert_eq!(tree.remove(&key), Some(value(number, round - 1)));
            }
        }
    }
}

#[test]
fn readers_writers_scanners_and_migrations_do_not_meet() {
    let tree = tree();
    for number in (0..KEYS).filter(|number| is_kept(*number)) {
        tree.insert(&key(number), value(number, 0)).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others: [fn(&Masstree<BlockValue>, &AtomicBool); 3] = [read, scan, migrate];
        for other in others {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || other(tree, done));
        }
        let writers = [0, 1].map(|part| {
            let tree = &tree;
            scope.spawn(move || write(tree, part))
        });
        let ended = writers.map(std::thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    for number in 0..KEYS {
        let is_there = is_kept(number) || ROUNDS % 2 == 1;
        let expected = is_there.then(|| value(number, ROUNDS));
        assert_eq!(tree.get(&key(number)), expected);
    }
    for number in 0..KEYS {
        let _ = tree.remove(&key(number));
    }
    assert!(tree.is_empty());
    assert_eq!(tree.iter().next(), None);
    // What other threads have retired since their last batch is freed with the tree.
    let nodes: u64 = (0..2)
        .map(|index| tree.memory().ledger(tier(index)).node_bytes)
        .sum();
    assert!(nodes <= 256, "{nodes} bytes");
}

#[test]
fn changes_of_one_key_are_all_made() {
    const CHANGES: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let tree = Masstree::new();
    for key in ["short", "long enough for a rest"] {
        tree.insert(key, 0_u64).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..CHANGES {
                    for key in ["short", "long enough for a rest"] {
                        tree.update(key, |count| count + 1).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(tree.get("short"), Some(3 * CHANGES));
    assert_eq!(tree.get("long enough for a rest"), Some(3 * CHANGES));
}

#[test]
fn a_key_is_added_once() {
    const KEYS: u64 = if cfg!(miri) { 40 } else { 20_000 };
    let tree = Masstree::new();
    let added: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3_u64)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    let added = (0..KEYS).filter(|number| {
                        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        tree.get_or_insert(&key, thread).unwrap().is_none()
                    });
                    added.count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(added, tree.len());
    assert_eq!(tree.iter().count() as u64, KEYS);
}
