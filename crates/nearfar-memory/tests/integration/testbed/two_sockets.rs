//! Two sockets, and a tier of two nodes behind the second.

use std::collections::BTreeMap;

use nearfar_memory::{HeapOptions, OverBudget, PageSize, Placement, PlacementSpec, TierHeap};

use super::support::{MIB, allocate, counted, nodes_of, nodes_of_region, system_of, tier};

const NEAR: &[u32] = &[0];
const FAR: &[u32] = &[2, 3];

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn the_nodes_of_a_tier_share_its_pages_evenly() {
    let system = system_of(&[NEAR, FAR], 256 * MIB);
    let far = Placement::Bind(tier(1));
    let both = Placement::Interleave(vec![tier(0), tier(1)]);
    let split = Placement::Split {
        first: tier(0),
        first_share: 0.5,
        rest: tier(1),
    };
    for page_size in [PageSize::Base, PageSize::Huge] {
        let counts = |placement: &Placement| {
            let region = allocate(&system, 32 * MIB, placement, page_size).unwrap();
            counted(&nodes_of_region(&region))
        };
        assert_eq!(counts(&far), BTreeMap::from([(2, 4096), (3, 4096)]));
        let halves = BTreeMap::from([(0, 4096), (2, 2048), (3, 2048)]);
        assert_eq!(counts(&both), halves, "{page_size:?}");
        assert_eq!(counts(&split), halves, "{page_size:?}");
    }
}

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn regions_move_to_both_nodes_and_back() {
    let system = system_of(&[NEAR, &[1], FAR], 256 * MIB);
    for page_size in [PageSize::Base, PageSize::Huge] {
        let start = Placement::Bind(tier(0));
        let region = allocate(&system, 32 * MIB, &start, page_size).unwrap();
        let moved = |placement: Placement| {
            region.migrate(&placement, OverBudget::Refuse).unwrap();
            region.verify().unwrap();
            counted(&nodes_of_region(&region))
        };
        assert_eq!(
            moved(Placement::Bind(tier(2))),
            BTreeMap::from([(2, 4096), (3, 4096)])
        );
        let three = Placement::Interleave(vec![tier(0), tier(1), tier(2), tier(2)]);
        assert_eq!(
            moved(three),
            BTreeMap::from([(0, 2048), (1, 2048), (2, 2048), (3, 2048)]),
            "{page_size:?}"
        );
        assert_eq!(moved(Placement::Bind(tier(1))), BTreeMap::from([(1, 8192)]));
        assert_eq!(moved(start.clone()), BTreeMap::from([(0, 8192)]));
    }
}

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn single_nodes_of_a_tier_are_places_and_are_charged_to_it() {
    let system = system_of(&[NEAR, FAR], 256 * MIB);
    let spec = |text: &str| {
        let spec: PlacementSpec = text.parse().unwrap();
        spec.resolve(&system).unwrap()
    };
    for page_size in [PageSize::Base, PageSize::Huge] {
        let region = allocate(&system, 32 * MIB, &spec("far1"), page_size).unwrap();
        let counts = || counted(&nodes_of_region(&region));
        assert_eq!(counts(), BTreeMap::from([(3, 8192)]));
        assert_eq!(system.usage(tier(1)).region_bytes, 32 * MIB);
        for (text, expected) in [
            ("node2", vec![(2, 8192)]),
            ("split:near=50%,far1", vec![(0, 4096), (3, 4096)]),
            (
                "weighted:near=2,far0=1,far1=1",
                vec![(0, 4096), (2, 2048), (3, 2048)],
            ),
            ("far", vec![(2, 4096), (3, 4096)]),
            ("far1", vec![(3, 8192)]),
        ] {
            region.migrate(&spec(text), OverBudget::Refuse).unwrap();
            region.verify().unwrap();
            assert_eq!(
                counts(),
                BTreeMap::from_iter(expected),
                "{text} {page_size:?}"
            );
        }
    }
}

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn a_heap_on_two_nodes_uses_both() {
    let system = system_of(&[NEAR, FAR], 256 * MIB);
    let heap = TierHeap::new(&system, tier(1), HeapOptions::default()).unwrap();
    let mut block = allocator_api2::vec::Vec::new_in(heap);
    block.resize(16 << 20, 7u8);
    let counts = counted(&nodes_of(block.as_ptr(), block.len()));
    let even = |node: u32| {
        counts
            .get(&node)
            .is_some_and(|pages| pages.abs_diff(2048) < 64)
    };
    assert!(even(2) && even(3), "{counts:?}");
}
