//! Migration over and over: memory stays where it was.
//!
//! For hours: `NEARFAR_ENDURANCE_SECONDS=7200 cargo test --release -p nearfar-index --test integration
//! endurance -- --test-threads=1`.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::for_each_tree;
use super::subject::{PLENTY, Subject, tier};

const KEYS: u64 = if cfg!(miri) { 40 } else { 2000 };

fn duration() -> Duration {
    let asked = std::env::var("NEARFAR_ENDURANCE_SECONDS");
    let milliseconds = asked.map_or(400, |text| {
        1000 * text.parse::<u64>().expect("a number of seconds")
    });
    Duration::from_millis(milliseconds)
}

/// Bytes of memory that the process has, where the system says so.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Overwrites all keys, and has a part of them come and go, until told to stop.
fn write<S: Subject>(tree: &S, stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Relaxed) {
        round += 1;
        for number in 0..KEYS {
            let is_kept = number % 4 != 0;
            let old = tree.insert(number, round).unwrap();
            assert_eq!(old.is_some(), is_kept || round % 2 == 0, "{number}");
            if !is_kept && round % 2 == 0 {
                assert_eq!(tree.remove(number), Some(round));
            }
        }
    }
    for number in 0..KEYS {
        tree.insert(number, number).unwrap();
    }
}

/// The budgets leave room for the tree twice and a bit, so that what is retired must be freed, or
/// writes fail. That none is exceeded, the memory itself checks at each block.
fn memory_is_flat_over_long_migration<S: Subject>() {
    let (tree, watch) = S::watched(&[PLENTY; 2]);
    for number in 0..KEYS {
        tree.insert(number, 0).unwrap();
    }
    for number in (0..KEYS).step_by(4) {
        tree.remove(number);
    }
    let bytes = tree.all_bytes();
    let room = 2 * bytes + (1 << 20);
    for index in 0..2 {
        watch.set_budget(tree.memory(), tier(index), room);
    }
    let stop = AtomicBool::new(false);
    let (begun, mut moved, mut rounds, mut warm) = (Instant::now(), 0_u64, 0, None);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&tree, &stop));
        while rounds < 4 || (begun.elapsed() < duration() && !cfg!(miri)) {
            let to = tier(rounds % 2);
            for leaf in tree.leaves() {
                let way = std::iter::successors(Some(leaf), |node| tree.parent(node));
                for node in way {
                    moved += u64::from(tree.migrate(&node, to, false).is_ok());
                }
            }
            tree.memory().quiesce();
            rounds += 1;
            if rounds == 4 {
                warm = resident_bytes();
            }
        }
        stop.store(true, Relaxed);
        writer.join().unwrap();
    });
    assert!(moved > 0, "nothing moved");
    if let (Some(warm), Some(now), false) = (warm, resident_bytes(), cfg!(miri)) {
        // Other tests run beside this one; what leaks here would be all that ever moved.
        let most = warm + (256 << 20);
        assert!(
            now < most,
            "{now} bytes after {rounds} rounds, {warm} before"
        );
    }
    watch.assert_ledger_is_true(tree.memory());
    tree.assert_holds(KEYS, Some);
    for number in 0..KEYS {
        assert_eq!(tree.remove(number), Some(number));
    }
    tree.memory().quiesce();
    assert!(tree.all_bytes() <= S::empty_bytes());
    watch.assert_ledger_is_true(tree.memory());
}

for_each_tree!(memory_is_flat_over_long_migration);
