//! Recorded histories of the trees, while their nodes move, are linearizable.
//!
//! For longer than a test should take:
//! `NEARFAR_LINEARIZABILITY_SECONDS=3600 cargo test --release -p nearfar-index --test integration
//! linearizability`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_index::TreeError;

use super::history::{Event, Load, Op, is_linearizable, record, violation};
use super::subject::{Map, PLENTY, Subject, changed, tier};
use super::{for_each_tree, mix};

/// Keys beside those that threads meet on, so that there are nodes to move, and to merge with.
const OTHERS: u64 = if cfg!(miri) { 24 } else { 400 };

/// How long each tree is looked at.
fn duration() -> Duration {
    let asked = std::env::var("NEARFAR_LINEARIZABILITY_SECONDS");
    let seconds = asked.map_or(1, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// Moves random nodes to random tiers until told to stop; returns how many.
fn migrate<S: Subject>(tree: &S, seed: u64, stop: &AtomicBool) -> u64 {
    let (mut moved, mut step) = (0, seed << 32);
    while !stop.load(Relaxed) {
        step += 1;
        let random = mix(step);
        let node = S::name(random % (2 * OTHERS), (random >> 32) as u32 % 6);
        let to = tier((random >> 40) as usize % 3);
        moved += u64::from(tree.migrate(&node, to, random >> 60 == 0).is_ok());
        thread::yield_now();
    }
    moved
}

/// One history on a tree of its own; returns the nodes that moved meanwhile.
fn one_history<S: Subject>(seed: u64) -> u64 {
    let (tree, watch) = S::watched(&[PLENTY; 3]);
    watch.yield_in_requests();
    // In the middle of the keys, few enough that they are met on: those of a leaf or two, so that
    // the leaf splits and merges, and its neighbours' too.
    let keys = OTHERS..OTHERS + [4, 12, 40][seed as usize % 3];
    let others = (0..2 * OTHERS).filter(|number| number % 3 == seed % 3 && !keys.contains(number));
    for number in others.clone() {
        tree.insert(number, number).unwrap();
    }
    let load = Load {
        threads: 3,
        steps: if cfg!(miri) { 12 } else { 300 },
        keys: keys.clone(),
        seed,
    };
    let stop = AtomicBool::new(false);
    let (events, moved) = thread::scope(|scope| {
        let migrator = scope.spawn(|| migrate(&tree, seed, &stop));
        let events = record(&tree, &load);
        stop.store(true, Relaxed);
        (events, migrator.join().unwrap())
    });
    if let Some(events) = violation(&events, |_| None) {
        panic!("seed {seed}: no order explains {events:#?}");
    }
    for number in others {
        assert_eq!(tree.get(number), Some(number));
    }
    for number in keys {
        tree.remove(number);
    }
    tree.memory().quiesce();
    watch.assert_ledger_is_true(tree.memory());
    moved
}

fn histories_are_linearizable_while_nodes_move<S: Subject>() {
    let (begun, mut moved, mut seed) = (Instant::now(), 0, 0);
    while seed < 3 || (begun.elapsed() < duration() && !cfg!(miri)) {
        moved += one_history::<S>(seed);
        seed += 1;
    }
    assert!(moved > 0 || cfg!(miri), "nothing moved in {seed} histories");
}

for_each_tree!(histories_are_linearizable_while_nodes_move);

/// A map that does something in two steps that is to be one.
struct Broken {
    map: Mutex<BTreeMap<u64, u64>>,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// An overwritten key is away for a moment.
    OverwriteRemovesFirst,
    /// Updates read, and write later.
    UpdateIsNotAtomic,
    /// Two inserts may both find a key absent.
    GetOrInsertIsNotAtomic,
    /// Scans are of a copy that was taken before.
    ScanIsStale,
}

impl Broken {
    fn map(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.map.lock().unwrap()
    }

    /// Lets others in where the fault is this one.
    fn gap<'m>(
        &'m self,
        map: MutexGuard<'m, BTreeMap<u64, u64>>,
        fault: Fault,
    ) -> MutexGuard<'m, BTreeMap<u64, u64>> {
        if self.fault != fault {
            return map;
        }
        drop(map);
        thread::yield_now();
        self.map()
    }
}

impl Map for Broken {
    fn get(&self, number: u64) -> Option<u64> {
        self.map().get(&number).copied()
    }

    fn insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let mut map = self.map();
        if self.fault != Fault::OverwriteRemovesFirst {
            return Ok(map.insert(number, value));
        }
        let old = map.remove(&number);
        let mut map = self.gap(map, Fault::OverwriteRemovesFirst);
        map.insert(number, value);
        Ok(old)
    }

    fn get_or_insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let map = self.map();
        if let Some(there) = map.get(&number) {
            return Ok(Some(*there));
        }
        let mut map = self.gap(map, Fault::GetOrInsertIsNotAtomic);
        map.insert(number, value);
        Ok(None)
    }

    fn update(&self, number: u64, by: u64) -> Result<Option<u64>, TreeError> {
        let map = self.map();
        let Some(old) = map.get(&number).copied() else {
            return Ok(None);
        };
        let mut map = self.gap(map, Fault::UpdateIsNotAtomic);
        map.insert(number, changed(old, by));
        Ok(Some(changed(old, by)))
    }

    fn remove(&self, number: u64) -> Option<u64> {
        self.map().remove(&number)
    }

    fn get_batch(&self, numbers: &[u64]) -> Vec<Option<u64>> {
        numbers.iter().map(|number| self.get(*number)).collect()
    }

    fn scan(&self, numbers: Range<u64>, _is_back: bool) -> Vec<(u64, u64)> {
        let map = self.map();
        let range = map.range(numbers);
        let mut pairs: Vec<_> = range.map(|(key, value)| (*key, *value)).collect();
        if self.fault == Fault::ScanIsStale {
            pairs.pop();
        }
        pairs
    }
}

/// Whether the checker finds something in so many histories.
fn finds(fault: Fault, histories: u64) -> bool {
    (0..histories).any(|seed| {
        let map = Broken {
            map: Mutex::default(),
            fault,
        };
        let load = Load {
            threads: 3,
            steps: if cfg!(miri) { 30 } else { 300 },
            keys: 0..4,
            seed,
        };
        violation(&record(&map, &load), |_| None).is_some()
    })
}

#[test]
fn the_checker_finds_what_is_wrong_with_broken_maps() {
    let faults = [
        Fault::OverwriteRemovesFirst,
        Fault::UpdateIsNotAtomic,
        Fault::GetOrInsertIsNotAtomic,
        Fault::ScanIsStale,
    ];
    for fault in faults {
        assert!(finds(fault, 1000), "{fault:?}");
    }
    assert!(!finds(Fault::None, if cfg!(miri) { 1 } else { 30 }));
}

/// An event of one key: thread, operation, result, and the moments around it.
fn event(thread: usize, op: Op, result: Option<u64>, moments: Range<u64>) -> Event {
    Event {
        thread,
        key: 0,
        op,
        result,
        invoked: moments.start,
        returned: moments.end,
    }
}

#[test]
fn the_checker_knows_histories_by_hand() {
    // Two reads beside a write may see it in one order only.
    let write = event(0, Op::Insert(1), None, 0..9);
    let (none, one) = (
        event(1, Op::Get, None, 1..2),
        event(1, Op::Get, Some(1), 3..4),
    );
    assert!(is_linearizable(&[write, none, one], None));
    let (one, none) = (
        event(1, Op::Get, Some(1), 1..2),
        event(1, Op::Get, None, 3..4),
    );
    assert!(!is_linearizable(&[write, one, none], None));
    // What has come back has happened.
    let write = event(0, Op::Insert(1), None, 0..1);
    assert!(!is_linearizable(
        &[write, event(1, Op::Get, None, 2..3)],
        None
    ));
    assert!(is_linearizable(
        &[write, event(1, Op::Get, Some(1), 2..3)],
        None
    ));
    // Of two concurrent removals, one gets the value.
    let removals = |second| {
        let first = event(0, Op::Remove, Some(5), 0..5);
        is_linearizable(&[first, event(1, Op::Remove, second, 1..4)], Some(5))
    };
    assert!(removals(None) && !removals(Some(5)));
    // No update is lost: the second is of what the first made.
    let first = event(0, Op::Update(7), Some(changed(5, 7)), 0..5);
    let second = |of| event(1, Op::Update(8), Some(changed(of, 8)), 1..4);
    assert!(is_linearizable(&[first, second(changed(5, 7))], Some(5)));
    assert!(!is_linearizable(&[first, second(5)], Some(5)));
}
