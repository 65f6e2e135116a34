//! Memory that fails, or a mover that panics, at every point: the tree is as it was, nothing is lost
//! or leaked, and no lock stays behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nearfar_index::TreeError;
use nearfar_index::placement::{
    Intervals, MigrateError, PlacementOptions, Placer, Worker, Workers,
};
use nearfar_memory::TierId;

use super::for_each_tree;
use super::memory::{INJECTED, Watch};
use super::subject::{PLENTY, Subject, tier};

/// Keys that split nodes of all kinds.
const KEYS: u64 = if cfg!(miri) { 40 } else { 600 };

fn value(number: u64) -> u64 {
    number * 3
}

/// A tree with keys on two tiers.
fn filled<S: Subject>() -> (S, Watch) {
    let (tree, watch) = S::watched(&[PLENTY; 2]);
    for number in 0..KEYS {
        tree.insert(number, value(number)).unwrap();
    }
    tree.memory().quiesce();
    (tree, watch)
}

/// An order in which neighbours come apart, so that splits are everywhere.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| at * 7919 % count)
}

/// Refuses the first request of an insert and all after it, then the second, and so on, until the
/// key goes in.
fn an_insert_fails_at_every_point_and_changes_nothing<S: Subject>() {
    let (tree, watch) = S::watched(&[PLENTY; 2]);
    let mut there = vec![false; KEYS as usize];
    let mut failures = 0;
    for number in scattered(KEYS) {
        let before = (tree.len(), tree.all_bytes());
        for after in 0.. {
            watch.faults.fail_from(after);
            let result = tree.insert(number, value(number));
            watch.faults.disarm();
            let Err(error) = result else { break };
            assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}");
            assert_eq!(tree.get(number), None);
            assert_eq!(tree.len(), before.0);
            failures += 1;
            if failures % 64 == 0 {
                tree.assert_holds(KEYS, |number| there[number as usize].then(|| value(number)));
            }
            tree.memory().quiesce();
            watch.assert_ledger_is_true(tree.memory());
            assert!(after < 100, "more requests than an insert has");
        }
        there[number as usize] = true;
        assert_eq!(tree.get(number), Some(value(number)));
    }
    assert!(failures > KEYS / 20, "{failures} failures");
    tree.assert_holds(KEYS, |number| Some(value(number)));
}

/// Refuses one request in each tier: the block goes elsewhere, or the operation fails.
fn one_refusal_sends_a_block_elsewhere<S: Subject>() {
    let (tree, watch) = S::watched(&[PLENTY; 2]);
    for number in scattered(KEYS) {
        let mut after = 0;
        watch.faults.fail_once(after);
        while let Err(error) = tree.insert(number, value(number)) {
            assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}");
            after += 1;
            watch.faults.fail_once(after);
        }
        watch.faults.disarm();
    }
    tree.memory().quiesce();
    watch.assert_ledger_is_true(tree.memory());
    tree.assert_holds(KEYS, |number| Some(value(number)));
    for number in 0..KEYS {
        assert_eq!(tree.remove(number), Some(value(number)));
    }
    tree.memory().quiesce();
    assert!(tree.all_bytes() <= S::empty_bytes());
    watch.assert_ledger_is_true(tree.memory());
}

fn an_update_fails_at_every_point_and_changes_nothing<S: Subject>() {
    let (tree, watch) = filled::<S>();
    for number in (0..KEYS).step_by(17) {
        let mut expected = value(number);
        for after in 0..3 {
            watch.faults.fail_from(after);
            match tree.update(number, 1) {
                Ok(new) => expected = new.unwrap(),
                Err(error) => assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}"),
            }
            watch.faults.disarm();
            assert_eq!(tree.get(number), Some(expected));
            watch.faults.fail_from(after);
            match tree.insert(number, 5) {
                Ok(old) => {
                    assert_eq!(old, Some(expected));
                    expected = 5;
                }
                Err(error) => assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}"),
            }
            watch.faults.disarm();
            assert_eq!(tree.get(number), Some(expected));
        }
        tree.insert(number, value(number)).unwrap();
    }
    tree.memory().quiesce();
    watch.assert_ledger_is_true(tree.memory());
    tree.assert_holds(KEYS, |number| Some(value(number)));
}

/// Removals, and the merges and smaller nodes that follow, go on without any memory.
fn removals_need_no_memory<S: Subject>() {
    let (tree, watch) = filled::<S>();
    watch.faults.fail_from(0);
    for number in scattered(KEYS) {
        assert_eq!(tree.remove(number), Some(value(number)));
        assert_eq!(tree.remove(number), None);
    }
    watch.faults.disarm();
    tree.assert_holds(KEYS, |_| None);
    tree.memory().quiesce();
    watch.assert_ledger_is_true(tree.memory());
    for number in 0..KEYS {
        tree.insert(number, value(number)).unwrap();
    }
    tree.assert_holds(KEYS, |number| Some(value(number)));
}

/// Refuses each request of each migration of each node, leaf or inner.
fn a_migration_fails_at_every_point_and_changes_nothing<S: Subject>() {
    let (tree, watch) = filled::<S>();
    for number in (0..KEYS).step_by(7) {
        for node in tree.way(number).into_iter().rev() {
            let before = tree.view(&node).unwrap();
            let to = tier(1 - before.tier.index());
            for after in 0.. {
                let bytes = tree.all_bytes();
                watch.faults.fail_from(after);
                let result = tree.migrate(&node, to, false);
                watch.faults.disarm();
                tree.memory().quiesce();
                watch.assert_ledger_is_true(tree.memory());
                assert_eq!(tree.all_bytes(), bytes);
                if result.is_ok() {
                    break;
                }
                assert!(matches!(result, Err(MigrateError::NoRoom { tier, .. }) if tier == to));
                assert_eq!(tree.view(&node), Some(before));
            }
            assert_eq!(tree.view(&node).unwrap().tier, to);
        }
        assert_eq!(tree.get(number), Some(value(number)));
    }
    tree.assert_holds(KEYS, |number| Some(value(number)));
}

/// Runs something on a thread that may get stuck.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(work()));
    let result = receiver.recv_timeout(Duration::from_secs(60));
    let result = result.unwrap_or_else(|error| panic!("{what}: stuck, or failed ({error})"));
    thread.join().unwrap().unwrap();
    result
}

/// A mover that panics at any of its requests leaves the tree as it was, for everybody.
fn a_mover_that_panics_leaves_no_lock_and_no_memory_behind<S: Subject>() {
    let (tree, watch) = filled::<S>();
    let tree = Arc::new(tree);
    for number in (0..KEYS).step_by(if cfg!(miri) { 20 } else { 61 }) {
        for node in tree.way(number) {
            let before = tree.view(&node).unwrap();
            let to = tier(1 - before.tier.index());
            for after in 0.. {
                let bytes = tree.all_bytes();
                watch.faults.panic_once(after);
                let result = catch_unwind(AssertUnwindSafe(|| tree.migrate(&node, to, false)));
                watch.faults.disarm();
                tree.memory().quiesce();
                watch.assert_ledger_is_true(tree.memory());
                assert_eq!(tree.all_bytes(), bytes, "nothing is left behind");
                if let Ok(result) = result {
                    assert!(result.is_ok(), "{result:?}");
                    break;
                }
                let other = Arc::clone(&tree);
                in_time("a writer after a panic", move || {
                    assert_eq!(other.get(number), Some(value(number)));
                    assert_eq!(other.insert(number, 1), Ok(Some(value(number))));
                    assert_eq!(other.insert(number, value(number)), Ok(Some(1)));
                });
                assert_eq!(tree.view(&node), Some(before));
            }
        }
    }
    in_time("a look at everything", move || {
        tree.assert_holds(KEYS, |number| Some(value(number)));
    });
}

fn quick() -> PlacementOptions {
    PlacementOptions {
        intervals: Intervals {
            trigger: Duration::from_millis(2),
            cooler: Duration::from_millis(20),
            maintainer: Duration::from_millis(1),
        },
        ..PlacementOptions::fitted()
    }
}

/// Uses a part of the keys, another one each round, so that there is something to move.
fn use_a_part<S: Subject>(tree: &S, round: u64) {
    let part = KEYS / 5;
    let first = round / 4 % 5 * part;
    for number in first..first + part {
        for _ in 0..4 {
            assert_eq!(tree.get(number), Some(value(number)));
        }
        let old = tree.insert(number, value(number)).unwrap();
        assert_eq!(old, Some(value(number)));
    }
}

/// Has a worker panic in the middle of a migration, beside a foreground that goes on.
fn kill_a_worker<S: Subject>(tree: &Arc<S>, watch: &Watch, after: u64) {
    let placer = Placer::new(Arc::clone(tree), quick()).unwrap();
    let workers = Arc::new(Workers::start(placer).unwrap());
    watch.faults.panic_in_a_worker(after);
    let (used, watched) = (Arc::clone(tree), Arc::clone(&workers));
    in_time("a panic, and the foreground", move || {
        let passes = || watched.placer().statistics().passes;
        let mut round = 0;
        while watched.panics().is_empty() {
            use_a_part(&*used, round);
            round += 1;
        }
        for number in 0..KEYS {
            assert_eq!(used.remove(number), Some(value(number)));
            assert_eq!(used.insert(number, value(number)), Ok(None));
        }
        let before = passes();
        while passes() == before {
            use_a_part(&*used, round);
            round += 1;
        }
    });
    let panic = workers.panics().remove(0);
    assert_eq!(panic.message, INJECTED);
    assert!([Worker::Promoter, Worker::Demoter, Worker::Maintainer].contains(&panic.worker));
    watch.faults.disarm();
}

/// Worker after worker dies; the others go on, and so does the foreground, and in the end every byte
/// is accounted for.
fn killed_workers_leave_the_foreground_alone<S: Subject>() {
    let (tree, watch) = filled::<S>();
    let budget = tree.all_bytes() / 3;
    tree.move_all(tier(1));
    tree.memory().quiesce();
    tree.memory().set_budget(TierId::NEAR, budget);
    let tree = Arc::new(tree);
    for after in [0, 1, 5] {
        kill_a_worker(&tree, &watch, after);
    }
    tree.memory().quiesce();
    watch.assert_ledger_is_true(tree.memory());
    assert!(tree.memory().ledger(TierId::NEAR).used_bytes() <= budget);
    tree.assert_holds(KEYS, |number| Some(value(number)));
    for number in 0..KEYS {
        assert_eq!(tree.remove(number), Some(value(number)));
    }
    tree.memory().quiesce();
    assert!(tree.all_bytes() <= S::empty_bytes(), "nothing is lost");
}

for_each_tree!(
    an_insert_fails_at_every_point_and_changes_nothing,
    one_refusal_sends_a_block_elsewhere,
    an_update_fails_at_every_point_and_changes_nothing,
    removals_need_no_memory,
    a_migration_fails_at_every_point_and_changes_nothing,
    a_mover_that_panics_leaves_no_lock_and_no_memory_behind,
    #[cfg_attr(miri, ignore = "takes longer than the time that it allows")]
    killed_workers_leave_the_foreground_alone,
);
