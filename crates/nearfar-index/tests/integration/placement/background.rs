//! Workers as threads.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nearfar_index::placement::{Intervals, PlacementOptions, Placer, Worker, Workers};
use nearfar_memory::TierId;

use super::support::{MIB, Watched};

const KEYS: u32 = if cfg!(miri) { 300 } else { 20_000 };

fn quick() -> PlacementOptions {
    PlacementOptions {
        intervals: Intervals {
            trigger: Duration::from_millis(5),
            cooler: Duration::from_millis(20),
            maintainer: Duration::from_millis(1),
        },
        ..PlacementOptions::fitted()
    }
}

fn started() -> (Arc<Watched>, Workers<Arc<Watched>>) {
    let tree = Arc::new(Watched::new(&[300_000, 64 * MIB], KEYS));
    let placer = Placer::new(Arc::clone(&tree), quick()).unwrap();
    let workers = Workers::start(placer).unwrap();
    (tree, workers)
}

/// Uses a region until a condition holds.
fn until(tree: &Watched, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        tree.read(KEYS / 2..KEYS / 2 + KEYS / 20, 4);
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes longer than the time that it allows")]
fn threads_find_what_is_hot_and_end_with_their_handle() {
    let (tree, workers) = started();
    let hot = KEYS / 2 + KEYS / 100..KEYS / 2 + KEYS / 20;
    until(&tree, "hot leaves near", || {
        tree.share_on(TierId::NEAR, hot.clone()) > 0.99
    });
    until(&tree, "all work", || {
        let busy = workers.placer().statistics().busy;
        busy.iter().all(|(_, time)| !time.is_zero())
    });
    assert!(workers.panics().is_empty());
    let placer = workers.stop().expect("nobody else holds it");
    assert!(placer.statistics().tiers[0].moves.promoted_nodes > 0);
    drop(placer);
    tree.check();
    assert_eq!(Arc::strong_count(&tree), 1, "all threads are gone");
}

#[test]
fn paused_workers_rest() {
    let (tree, workers) = started();
    until(&tree, "a pass", || workers.placer().statistics().passes > 0);
    workers.pause();
    let passes = workers.placer().statistics().passes;
    tree.check();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(workers.placer().statistics().passes, passes);
    workers.resume();
    until(&tree, "more passes", || {
        workers.placer().statistics().passes > passes
    });
}

#[test]
fn a_worker_that_panics_is_reported_and_the_others_go_on() {
    let (tree, workers) = started();
    tree.panics.store(true, Relaxed);
    until(&tree, "a panic", || !workers.panics().is_empty());
    let panic = workers.panics().remove(0);
    assert_eq!(panic.message, "told to panic");
    tree.panics.store(false, Relaxed);
    let passes = workers.placer().statistics().passes;
    until(&tree, "more passes", || {
        workers.placer().statistics().passes > passes + 2
    });
    // The foreground neither waits nor misses anything.
    tree.read(0..KEYS, 1);
    assert_eq!(tree.tree.insert(1, 7), Ok(None));
    drop(workers);
    tree.check();
}

#[test]
fn every_worker_can_be_stopped_alone() {
    for worker in Worker::ALL {
        let (tree, workers) = started();
        workers.stop_worker(worker);
        let samples = |workers: &Workers<Arc<Watched>>| {
            let statistics = workers.placer().statistics();
            (statistics.passes, statistics.usage.len())
        };
        let before = samples(&workers);
        until(&tree, "the others go on", || {
            let now = samples(&workers);
            (worker == Worker::Trigger || now.0 > before.0)
                && (worker == Worker::Maintainer || now.1 > before.1)
        });
        tree.read(0..KEYS, 1);
        drop(workers);
        tree.check();
    }
}
