//! Placements over two tiers of one node each, against an arithmetic of their own.

use std::num::NonZeroU32;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_memory::sys::BASE_PAGE_BYTES;
use nearfar_memory::{OverBudget, PageSize, Placement, Verification};

use super::support::{MIB, allocate, counted, nodes_of_region, numa_maps, system_of, tier};

pub fn weighted(runs: &[(usize, u32)]) -> Placement {
    let run = |&(index, pages)| (tier(index), NonZeroU32::new(pages).unwrap());
    Placement::Weighted(runs.iter().map(run).collect())
}

/// Placements with the tier that each of `pages` pages has to lie on.
fn placements(pages: usize) -> Vec<(Placement, Vec<usize>)> {
    let each = |is_far: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..pages).map(|page| usize::from(is_far(page))).collect()
    };
    let quarter = Placement::Split {
        first: tier(0),
        first_share: 0.25,
        rest: tier(1),
    };
    vec![
        (Placement::Bind(tier(0)), each(&|_| false)),
        (Placement::Bind(tier(1)), each(&|_| true)),
        (
            Placement::Interleave(vec![tier(0), tier(1)]),
            each(&|page| page % 2 == 1),
        ),
        (
            Placement::Interleave(vec![tier(1), tier(0), tier(1)]),
            each(&|page| page % 3 != 1),
        ),
        (weighted(&[(0, 3), (1, 1)]), each(&|page| page % 4 == 3)),
        (quarter, each(&|page| page >= pages / 4)),
    ]
}

/// The node of every base page.
fn base_pages(tiers: &[usize], nodes: [u32; 2], page_size: PageSize) -> Vec<i32> {
    let per_page = page_size.bytes() / BASE_PAGE_BYTES;
    let node = |tier: &usize| std::iter::repeat_n(nodes[*tier] as i32, per_page);
    tiers.iter().flat_map(node).collect()
}

/// Makes regions of every placement and page size and looks at every page, by `move_pages` and in
/// `numa_maps`.
pub fn check_every_page(near: u32, far: u32) {
    let system = system_of(&[&[near], &[far]], 256 * MIB);
    for (page_size, pages) in [(PageSize::Base, 1200), (PageSize::Huge, 12)] {
        for (placement, tiers) in placements(pages) {
            let bytes = (pages * page_size.bytes()) as u64;
            let region = allocate(&system, bytes, &placement, page_size).unwrap();
            assert_eq!(region.verification(), Verification::Verified);
            let expected = base_pages(&tiers, [near, far], page_size);
            let found = nodes_of_region(&region);
            assert!(found == expected, "{placement:?} of {page_size:?} pages");
            let told = numa_maps(region.as_slice().as_ptr());
            assert_eq!(told, counted(&expected), "{placement:?}: numa_maps");
            for (index, node) in [near, far].into_iter().enumerate() {
                let base_pages = told.get(&node).copied().unwrap_or(0);
                let charged = system.usage(tier(index)).region_bytes;
                assert_eq!(charged, base_pages * BASE_PAGE_BYTES as u64);
            }
        }
    }
}

/// Moves regions from placement to placement while a thread reads them, and looks at every page.
pub fn check_migrations_under_readers(near: u32, far: u32) {
    let system = system_of(&[&[near], &[far]], 256 * MIB);
    for (page_size, pages) in [(PageSize::Base, 1024), (PageSize::Huge, 8)] {
        let bytes = (pages * page_size.bytes()) as u64;
        let start = Placement::Bind(tier(0));
        let mut region = allocate(&system, bytes, &start, page_size).unwrap();
        for (index, byte) in region.as_mut_slice().iter_mut().enumerate().step_by(509) {
            *byte = (index % 251) as u8 + 1;
        }
        let expected_sum = sum(region.as_slice());
        let (stop, started) = (AtomicBool::new(false), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(sum(region.as_slice()), expected_sum);
                }
            });
            started.wait();
            for (placement, tiers) in placements(pages).into_iter().rev() {
                let got = region.migrate(&placement, OverBudget::Refuse);
                let found = nodes_of_region(&region);
                let expected = base_pages(&tiers, [near, far], page_size);
                // The reader has to be let go before anything can be said.
                if got.as_ref() != Ok(&placement) || found != expected {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{placement:?} of {page_size:?} pages: {got:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(sum(region.as_slice()), expected_sum);
        assert_eq!(region.verification(), Verification::Verified);
    }
}

/// A sum over some bytes of every page.
fn sum(bytes: &[u8]) -> u64 {
    let some = bytes.iter().step_by(509);
    some.map(|byte| u64::from(*byte)).sum()
}
