//! The global allocator of this test program, which follows the thread's tier.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearfar_memory::{
    Budgets, GlobalHeaps, HeapError, MemorySystem, NearHeap, NearfarAllocator, ThreadTier,
    TierKind, TierSpec, TierUsage,
};

use crate::{MIB, node, run_apart, system, tier, tiers};

/// The system of the global heaps, installed once. The lock keeps apart tests that compare counters.
fn installed() -> (MutexGuard<'static, ()>, &'static Arc<MemorySystem>) {
    static SYSTEM: OnceLock<Arc<MemorySystem>> = OnceLock::new();
    static APART: Mutex<()> = Mutex::new(());
    let guard = APART.lock().unwrap_or_else(PoisonError::into_inner);
    let system = SYSTEM.get_or_init(|| {
        let system = system([1024, 512, 64]);
        let heaps = GlobalHeaps {
            near: NearHeap::Platform,
            huge_pages: false,
        };
        NearfarAllocator::install(&system, heaps).unwrap();
        let again = NearfarAllocator::install(&system, heaps);
        assert_eq!(again, Err(HeapError::Installed));
        system
    });
    (guard, system)
}

fn far(system: &MemorySystem) -> TierUsage {
    system.usage(tier(1))
}

#[test]
fn allocations_follow_the_tier_of_the_thread() {
    let (_apart, system) = installed();
    let before = far(system).heap_live_bytes;
    let near = vec![1u8; 1 << 20];
    assert_eq!(far(system).heap_live_bytes, before);
    let guard = ThreadTier::enter(tier(1));
    let block = vec![1u8; 1 << 20];
    assert_eq!(far(system).heap_live_bytes, before + MIB);
    drop(near);
    assert_eq!(far(system).heap_live_bytes, before + MIB);
    drop(guard);
    std::thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(far(system).heap_live_bytes, before);
}

#[test]
fn a_resized_block_stays_on_its_own_tier() {
    let (_apart, system) = installed();
    let before = far(system).heap_live_bytes;
    let mut near: Vec<u8> = vec![3; 100];
    let guard = ThreadTier::enter(tier(1));
    let mut away: Vec<u8> = vec![5; 100];
    near.reserve_exact(1 << 20);
    assert_eq!(far(system).heap_live_bytes, before + 100);
    drop(guard);
    away.reserve_exact((1 << 20) - 100);
    assert_eq!(far(system).heap_live_bytes, before + MIB);
    away.shrink_to_fit();
    assert_eq!(far(system).heap_live_bytes, before + 100);
    assert_eq!(
        (near.as_slice(), away.as_slice()),
        ([3u8; 100].as_slice(), [5u8; 100].as_slice())
    );
    drop(away);
    assert_eq!(far(system).heap_live_bytes, before);
}

#[test]
fn a_full_tier_falls_back_and_counts() {
    let (_apart, system) = installed();
    let usage = || system.usage(tier(2));
    let before = usage();
    let guard = ThreadTier::enter(tier(2));
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(16);
    for _ in 0..12 {
        blocks.push(vec![1; 8 << 20]);
        assert!(usage().heap_bytes <= 64 * MIB);
    }
    drop(guard);
    let after = usage();
    let fallbacks = after.fallbacks - before.fallbacks;
    assert!((5..=8).contains(&fallbacks), "{fallbacks}");
    assert_eq!(
        after.fallback_bytes - before.fallback_bytes,
        fallbacks * 8 * MIB
    );
    // A block that cannot grow on its tier moves near, and its bytes with it.
    blocks[0].reserve_exact(56 << 20);
    assert_eq!(usage().fallbacks - before.fallbacks, fallbacks + 1);
    assert!(blocks[0].iter().all(|byte| *byte == 1));
    drop(blocks);
    assert_eq!(usage().heap_live_bytes, before.heap_live_bytes);
}

#[test]
fn thread_locals_may_allocate_and_free_while_their_thread_ends() {
    struct Late(RefCell<Vec<Vec<u8>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _far = ThreadTier::enter(tier(1));
            self.0.borrow_mut().clear();
            self.0.borrow_mut().push(vec![1; 5000]);
        }
    }
    thread_local! { static LATE: Late = const { Late(RefCell::new(Vec::new())) } }

    let (_apart, system) = installed();
    let before = far(system).heap_live_bytes;
    for _ in 0..50 {
        std::thread::spawn(|| {
            let _far = ThreadTier::enter(tier(1));
            LATE.with(|late| {
                late.0
                    .borrow_mut()
                    .extend((0..50).map(|n| vec![0; n * 100 + 1]))
            });
        })
        .join()
        .unwrap();
    }
    assert_eq!(far(system).heap_live_bytes, before);
}

#[test]
fn many_threads_share_the_far_heap() {
    let (_apart, system) = installed();
    let before = far(system).heap_live_bytes;
    let threads: Vec<_> = (0..4)
        .map(|seed: usize| {
            std::thread::spawn(move || {
                let _far = ThreadTier::enter(tier(seed % 2));
                let mut kept: Vec<Vec<usize>> = Vec::new();
                for n in 0..20_000 {
                    kept.push(vec![n; 1 + (n * 7 + seed) % 300]);
                    if n % 3 == 0 {
                        kept.swap_remove((n * 31) % kept.len());
                    }
                }
                kept
            })
        })
        .collect();
    for thread in threads {
        let kept = thread.join().unwrap();
        assert!(
            kept.iter()
                .all(|vec| vec.iter().all(|value| *value == vec[0]))
        );
    }
    assert_eq!(far(system).heap_live_bytes, before);
}

/// The choice of the near heap holds for a process, so that another one tries the other choice.
#[test]
fn the_near_heap_can_be_mimalloc() {
    run_apart("global_heap::near_by_mimalloc");
}

#[test]
#[ignore = "started in a process of its own by the_near_heap_can_be_mimalloc"]
fn near_by_mimalloc() {
    let system = system([256, 64, 64]);
    let early = vec![1u8; 100];
    let heaps = GlobalHeaps {
        near: NearHeap::Mimalloc { huge_pages: true },
        huge_pages: true,
    };
    NearfarAllocator::install(&system, heaps).unwrap();
    let near = || system.usage(tier(0));
    let before = near().heap_live_bytes;
    let mut blocks: Vec<Vec<u8>> = (0..32).map(|n| vec![n; 1 << 20]).collect();
    assert!(near().heap_live_bytes >= before + 32 * MIB);
    assert!(near().heap_bytes >= near().heap_live_bytes);
    assert_eq!(system.usage(tier(1)).heap_live_bytes, 0);
    // Blocks from before keep their allocator, wherever they go.
    let mut early = early;
    early.reserve_exact(1 << 20);
    assert_eq!(early[99], 1);
    drop(early);
    // Beyond the near tier's budget, the platform's allocator takes over.
    let large = vec![7u8; 300 << 20];
    assert_eq!(near().fallbacks, 1);
    std::thread::spawn(move || drop((blocks.split_off(16), large)))
        .join()
        .unwrap();
    assert!(near().heap_live_bytes < before + 32 * MIB);
}

#[test]
fn a_budget_without_room_for_a_heap_leaves_the_tier_without() {
    run_apart("global_heap::heaps_under_small_budgets");
}

#[test]
#[ignore = "started in a process of its own by a_budget_without_room_for_a_heap_leaves_the_tier_without"]
fn heaps_under_small_budgets() {
    let specs = tiers([4096, 4096, 64]);
    let budgets = Budgets::new().with("near", MIB).with("far", MIB);
    let system = MemorySystem::from_specs(specs, &budgets).unwrap();
    let heaps = GlobalHeaps {
        near: NearHeap::Mimalloc { huge_pages: false },
        huge_pages: false,
    };
    NearfarAllocator::install(&system, heaps).unwrap();
    for (index, has_heap) in [(0, false), (1, false), (2, true)] {
        let guard = ThreadTier::enter(tier(index));
        let mut block = vec![3u8; 5 << 20];
        drop(guard);
        block.resize(6 << 20, 3);
        assert!(block.iter().all(|byte| *byte == 3));
        let live_bytes = if has_heap { block.capacity() as u64 } else { 0 };
        assert_eq!(system.usage(tier(index)).heap_live_bytes, live_bytes);
        assert_eq!(system.usage(tier(index)).heap_bytes > 0, has_heap);
    }
}

/// Where address space is charged as if it were memory, or limited, there is none for heaps.
#[test]
fn without_address_space_there_are_no_heaps() {
    run_apart("global_heap::heaps_beyond_the_address_space");
}

#[test]
#[ignore = "started in a process of its own by without_address_space_there_are_no_heaps"]
fn heaps_beyond_the_address_space() {
    // Together beyond 2^48 bytes.
    let spec = |index| TierSpec::new(format!("tier{index}"), TierKind::Cxl, [node()], 1 << 46);
    let specs = (0..8).map(spec).collect();
    let system = MemorySystem::from_specs(specs, &Budgets::new()).unwrap();
    NearfarAllocator::install(&system, GlobalHeaps::default()).unwrap();
    let _far = ThreadTier::enter(tier(1));
    let block = vec![1u8; 1 << 20];
    assert_eq!(block[7], 1);
    assert_eq!(system.usage(tier(1)).heap_bytes, 0);
}
