//! Heaps on one tier, through the allocator interface.

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box as TierBox;
use allocator_api2::vec::Vec as TierVec;
use nearfar_memory::{
    Exhaustion, HeapError, HeapOptions, Placement, Region, RegionOptions, TierHeap,
};

use crate::{MIB, system, tier};

fn options(reserve_mib: usize) -> HeapOptions {
    HeapOptions {
        reserve_bytes: Some(reserve_mib << 20),
        ..HeapOptions::default()
    }
}

#[test]
fn blocks_of_every_size_lie_in_the_heap() {
    let system = system([1024, 1024, 1024]);
    let heap = TierHeap::new(&system, tier(1), options(512)).unwrap();
    let mut kept = Vec::new();
    for shift in 3..28 {
        let mut vec: TierVec<u8, TierHeap> = TierVec::with_capacity_in(1 << shift, heap.clone());
        vec.push(1);
        assert!(heap.contains(vec.as_ptr()), "{} bytes", 1usize << shift);
        kept.push(vec);
    }
    let live: u64 = (3..28).map(|shift| 1 << shift).sum();
    let usage = system.usage(tier(1));
    assert_eq!(usage.heap_live_bytes, live);
    assert!(usage.heap_bytes >= live && usage.heap_bytes.is_multiple_of(64 << 10));
    assert_eq!(usage.region_bytes, 0);
    assert_eq!(system.usage(tier(0)).heap_bytes, 0);
    drop(kept);
    assert_eq!(system.usage(tier(1)).heap_live_bytes, 0);
    heap.trim();
    let empty = system.usage(tier(1)).heap_bytes;
    assert!(empty < 16 * MIB, "{empty} bytes stay after a trim");
}

#[test]
fn alignments_are_kept() {
    let system = system([1024, 1024, 1024]);
    let heap = TierHeap::new(&system, tier(1), options(256)).unwrap();
    for shift in 0..17 {
        for size in [1, 24, 100, 5000, 1 << 20] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            let block = heap.allocate_zeroed(layout).unwrap();
            let bytes = block.cast::<u8>();
            assert!((bytes.as_ptr() as usize).is_multiple_of(1 << shift));
            // SAFETY: the block has `size` bytes and is freed once, with its layout.
            unsafe {
                assert!(
                    std::slice::from_raw_parts(bytes.as_ptr(), size)
                        .iter()
                        .all(|b| *b == 0)
                );
                bytes.write_bytes(7, size);
                heap.deallocate(bytes, layout);
            }
        }
    }
    assert_eq!(system.usage(tier(1)).heap_live_bytes, 0);
    let nothing = heap.allocate(Layout::new::<()>()).unwrap();
    // SAFETY: allocated above with this layout.
    unsafe { heap.deallocate(nothing.cast(), Layout::new::<()>()) };
}

#[test]
fn a_growing_vector_stays_on_its_tier_and_keeps_its_bytes() {
    let system = system([1024, 1024, 1024]);
    let heap = TierHeap::new(&system, tier(2), options(256)).unwrap();
    let mut vec: TierVec<u32, TierHeap> = TierVec::new_in(heap.clone());
    for value in 0..4_000_000 {
        vec.push(value);
    }
    assert!(heap.contains(vec.as_ptr().cast()));
    vec.truncate(1000);
    vec.shrink_to_fit();
    assert!(vec.iter().copied().eq(0..1000));
    assert_eq!(system.usage(tier(2)).heap_live_bytes, 4000);
    drop(vec);
    assert_eq!(system.usage(tier(2)).heap_live_bytes, 0);
}

#[test]
fn blocks_are_freed_on_other_threads() {
    let system = system([1024, 1024, 1024]);
    let heap = TierHeap::new(&system, tier(1), options(256)).unwrap();
    for _ in 0..5 {
        let boxes: Vec<TierBox<[u64; 16], TierHeap>> = (0..20_000)
            .map(|n| TierBox::new_in([n; 16], heap.clone()))
            .collect();
        std::thread::spawn(move || {
            assert!(
                boxes
                    .iter()
                    .enumerate()
                    .all(|(n, values)| values[15] == n as u64)
            );
        })
        .join()
        .unwrap();
    }
    assert_eq!(system.usage(tier(1)).heap_live_bytes, 0);
    let held = system.usage(tier(1)).heap_bytes;
    assert!(held < 32 * MIB, "freed blocks are used again: {held}");
}

#[test]
fn an_exhausted_budget_refuses_or_spills() {
    let system = system([64, 40, 64]);
    let refusing = TierHeap::new(&system, tier(1), options(256)).unwrap();
    let layout = Layout::from_size_align(8 << 20, 64).unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = refusing.allocate(layout) {
        blocks.push(block);
        assert!(system.usage(tier(1)).heap_bytes <= 40 * MIB);
    }
    assert_eq!(blocks.len(), 4);
    let spilling = HeapOptions {
        exhaustion: Exhaustion::Spill,
        ..options(64)
    };
    let spilling = TierHeap::new(&system, tier(1), spilling).unwrap();
    let spilled = spilling.allocate(layout).unwrap();
    assert!(!spilling.contains(spilled.cast::<u8>().as_ptr()));
    let usage = system.usage(tier(1));
    assert_eq!((usage.fallbacks, usage.fallback_bytes), (1, 8 * MIB));
    // SAFETY: each block is freed once, where it came from, with its layout.
    unsafe {
        spilling.deallocate(spilled.cast(), layout);
        for block in blocks.drain(..) {
            refusing.deallocate(block.cast(), layout);
        }
    }
    // The freed memory is given back where that lets a block in, or a region.
    let large = Layout::from_size_align(30 << 20, 64).unwrap();
    let block = refusing.allocate(large).unwrap();
    // SAFETY: as above.
    unsafe { refusing.deallocate(block.cast(), large) };
    let far = Placement::Bind(tier(1));
    let region = Region::allocate(&system, 30 << 20, &far, RegionOptions::default()).unwrap();
    assert_eq!(system.usage(tier(1)).region_bytes, 30 * MIB);
    drop(region);
}

#[test]
fn heaps_end_and_their_space_is_used_again() {
    let system = system([64, 256, 64]);
    for round in 0..200 {
        let heap = TierHeap::new(&system, tier(1), options(96)).unwrap();
        let mut vec: TierVec<u64, TierHeap> = TierVec::new_in(heap.clone());
        vec.extend(0..100_000 + round);
        let other = std::thread::spawn({
            let heap = heap.clone();
            move || {
                let mut vec: TierVec<u64, TierHeap> = TierVec::new_in(heap);
                vec.extend(0..1000);
                vec
            }
        });
        drop(other.join().unwrap());
        assert_eq!(vec.len(), 100_000 + round as usize);
    }
    // More rounds than mimalloc has arenas; and nothing stays charged.
    assert_eq!(system.usage(tier(1)).heap_bytes, 0);
    assert_eq!(system.usage(tier(1)).heap_live_bytes, 0);
}

#[test]
fn a_budget_below_the_records_of_a_heap_is_named() {
    let system = nearfar_memory::MemorySystem::from_specs(
        vec![nearfar_memory::TierSpec::new(
            "near",
            nearfar_memory::TierKind::LocalDram,
            [crate::node()],
            4096,
        )],
        &nearfar_memory::Budgets::new(),
    )
    .unwrap();
    let error = TierHeap::new(&system, tier(0), options(64)).unwrap_err();
    assert_eq!(
        error,
        HeapError::Arena {
            tier: "near".into(),
            reserve_bytes: 64 << 20,
            available_bytes: 4096
        }
    );
    assert_eq!(system.usage(tier(0)).heap_bytes, 0);
}
