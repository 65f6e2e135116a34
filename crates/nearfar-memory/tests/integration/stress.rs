//! Many concurrent threads, for the test itself and for ThreadSanitizer.

use std::sync::atomic::{AtomicBool, Ordering};

use allocator_api2::vec::Vec as TierVec;
use nearfar_memory::{HeapOptions, OverBudget, Placement, Region, RegionOptions, TierHeap};

use crate::{MIB, RaiseOnDrop, system, tier};

#[test]
fn regions_and_heaps_never_exceed_a_budget_together() {
    let system = system([8, 40, 16]);
    let options = HeapOptions {
        reserve_bytes: Some(64 << 20),
        ..HeapOptions::default()
    };
    let heap = TierHeap::new(&system, tier(1), options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (tier, _) in system.tiers() {
                    let usage = system.usage(tier);
                    assert!(usage.peak_bytes <= usage.budget_bytes, "{usage:?}");
                }
                std::thread::yield_now();
            }
        });
        let end_watcher = RaiseOnDrop(&done);
        let workers: Vec<_> = (0..4usize)
            .map(|seed| {
                let (system, heap) = (&system, heap.clone());
                scope.spawn(move || {
                    let spill = OverBudget::Spill;
                    let options = RegionOptions {
                        over_budget: spill,
                        ..RegionOptions::default()
                    };
                    let mut regions = Vec::new();
                    for round in 0..60 {
                        let step = seed * 61 + round;
                        let both = Placement::Interleave(vec![tier(step % 3), tier(1)]);
                        match Region::allocate(system, (1 + step % 3) << 20, &both, options) {
                            Ok(region) => regions.push(region),
                            Err(_) => regions.clear(),
                        }
                        if let Some(region) = regions.first() {
                            // Refusals are expected; what is asked for must hold in any case.
                            let _ = region.migrate(&Placement::Bind(tier(step % 3)), spill);
                            assert_eq!(
                                region.tier_bytes(0..region.len()).total(),
                                region.len() as u64
                            );
                        }
                        let mut vec: TierVec<u64, TierHeap> = TierVec::new_in(heap.clone());
                        if vec.try_reserve(100_000).is_ok() {
                            vec.extend(0..100_000);
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        drop(end_watcher);
        watcher.join().unwrap();
    });
    drop(heap);
    for (tier, _) in system.tiers() {
        let usage = system.usage(tier);
        assert_eq!(
            (usage.region_bytes, usage.heap_bytes, usage.heap_live_bytes),
            (0, 0, 0)
        );
        assert!(usage.peak_bytes > MIB);
    }
}

/// What a thread has of a heap goes with the thread or with the heap, whichever ends first; here both end
/// together, again and again, as sessions of a server and the indexes of its tables do.
#[test]
fn heaps_end_while_threads_that_used_them_end() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 1500;
    let system = system([8, 160, 160]);
    let options = HeapOptions {
        reserve_bytes: Some(32 << 20),
        ..HeapOptions::default()
    };
    let begin = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (system, begin) = (&system, &begin);
            scope.spawn(move || {
                begin.wait();
                for round in 0..ROUNDS {
                    let heap = TierHeap::new(system, tier(1 + seed), options).unwrap();
                    let threads: Vec<_> = (0..THREADS)
                        .map(|thread| {
                            let heap = heap.clone();
                            std::thread::spawn(move || {
                                let mut vec: TierVec<u64, TierHeap> = TierVec::new_in(heap);
                                let words = 8 << ((thread + round) % 9);
                                vec.extend(0..words);
                                assert_eq!(vec.last(), Some(&(words - 1)));
                            })
                        })
                        .collect();
                    drop(heap);
                    for thread in threads {
                        thread.join().unwrap();
                    }
                }
            });
        }
    });
    for (tier, _) in system.tiers() {
        let usage = system.usage(tier);
        assert_eq!((usage.heap_bytes, usage.heap_live_bytes), (0, 0));
    }
}
