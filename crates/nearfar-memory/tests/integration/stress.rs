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

/// Blocks of a slab heap are apart, keep what is written to them, and leave nothing in the ledger.
#[test]
fn slabs_are_shared_by_threads_and_end_with_their_heap() {
    use allocator_api2::alloc::{Allocator, Layout};
    use nearfar_memory::SlabHeap;
    let system = system([8, 40, 16]);
    let heap = SlabHeap::new(&system, tier(1), RegionOptions::default());
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let heap = &heap;
            scope.spawn(move || {
                let mut blocks: Vec<(std::ptr::NonNull<u8>, Layout, u8)> = Vec::new();
                let mut state = seed;
                for step in 0..30_000_u64 {
                    state = state
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    let random = (state >> 33) as usize;
                    if !blocks.is_empty() && (random % 7 < 3 || blocks.len() > 1500) {
                        let (block, layout, byte) = blocks.swap_remove(random % blocks.len());
                        // SAFETY: the block is live, was filled with this byte, and is given up.
                        unsafe {
                            let bytes = std::slice::from_raw_parts(block.as_ptr(), layout.size());
                            assert!(bytes.iter().all(|found| *found == byte));
                            heap.deallocate(block, layout);
                        }
                        continue;
                    }
                    let bytes = match random % 50 {
                        0 => 1 + random / 64 % SlabHeap::BLOCK_BYTES_MAX,
                        _ => 1 + random / 64 % 600,
                    };
                    let align = [8, 16, 64][random / 8 % 3];
                    let layout = Layout::from_size_align(bytes, align).unwrap();
                    let Ok(block) = heap.allocate(layout) else {
                        continue;
                    };
                    let block = block.cast::<u8>();
                    assert_eq!(block.as_ptr() as usize % align, 0);
                    let byte = (seed * 50 + step % 50) as u8;
                    // SAFETY: the block is this thread's and has so many bytes.
                    unsafe { block.write_bytes(byte, bytes) };
                    blocks.push((block, layout, byte));
                }
                for (block, layout, _) in blocks {
                    // SAFETY: the block is live and is given up.
                    unsafe { heap.deallocate(block, layout) };
                }
            });
        }
    });
    let usage = heap.usage();
    assert_eq!((usage.blocks, usage.block_bytes), (0, 0));
    assert_eq!(system.usage(tier(1)).region_bytes, usage.region_bytes);
    assert!(usage.region_bytes < 4 * MIB, "{usage:?}");
    let too_large = Layout::from_size_align(SlabHeap::BLOCK_BYTES_MAX + 1, 8).unwrap();
    assert!(heap.allocate(too_large).is_err());
    drop(heap);
    assert_eq!(system.usage(tier(1)).region_bytes, 0);
}

#[test]
fn a_slab_heap_uses_its_budget_up_and_refuses_then() {
    use allocator_api2::alloc::{Allocator, Layout};
    use nearfar_memory::SlabHeap;
    let system = system([8, 4, 16]);
    let heap = SlabHeap::new(&system, tier(1), RegionOptions::default());
    let layout = Layout::from_size_align(64, 64).unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(layout) {
        blocks.push(block.cast::<u8>());
    }
    assert_eq!(system.usage(tier(1)).region_bytes, 4 * MIB);
    assert_eq!(blocks.len() as u64, 4 * MIB / 64);
    let freed = blocks.pop().unwrap();
    // SAFETY: the block is live and is given up.
    unsafe { heap.deallocate(freed, layout) };
    assert!(heap.allocate(layout).is_ok());
}
