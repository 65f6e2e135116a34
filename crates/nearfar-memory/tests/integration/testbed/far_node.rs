//! DRAM on node 0, and node 1 without CPUs.

use std::collections::BTreeMap;

use nearfar_memory::sys::{
    Advice, BASE_PAGE_BYTES, Mapping, MappingKind, Policy, bind_range, interleave_weight,
};
use nearfar_memory::{
    Budgets, GlobalHeaps, HeapOptions, MemorySystem, NearHeap, NearfarAllocator, OverBudget,
    PageSize, Placement, RegionError, ThreadTier, TierHeap, TierKind,
};
use nearfar_topology::Topology;

use super::placements::{self, weighted};
use super::support::{
    MIB, allocate, counted, is_about, meminfo, nodes_of, nodes_of_region, numastat, share_on,
    system_of, tier, write,
};

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn every_page_of_every_placement_lies_where_it_says() {
    placements::check_every_page(0, 1);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn the_nodes_own_counts_agree() {
    let system = system_of(&[&[0], &[1]], 512 * MIB);
    let anonymous = || [0, 1].map(|node| meminfo(node, "AnonPages"));
    let (before, process_before) = (anonymous(), numastat());
    let placement = weighted(&[(0, 1), (1, 3)]);
    let region = allocate(&system, 128 * MIB, &placement, PageSize::Base).unwrap();
    let (after, process_after) = (anonymous(), numastat());
    for (node, expected) in [(0, 32 * MIB), (1, 96 * MIB)] {
        let grown = after[node] - before[node];
        assert!(is_about(grown, expected), "node{node} meminfo: {grown}");
        let grown = process_after[node] - process_before[node];
        assert!(is_about(grown, expected), "node{node} numastat: {grown}");
    }
    drop(region);
    for (node, after) in anonymous().into_iter().enumerate() {
        assert!(is_about(after, before[node]), "node{node}: {after}");
    }
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn the_kernels_weighted_interleave_and_page_runs_agree() {
    const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";
    for (node, weight) in [(0, "3"), (1, "1")] {
        write(&format!("{WEIGHTS}/node{node}"), weight);
        let told = interleave_weight("/sys".as_ref(), node);
        assert_eq!(
            told.map(|weight| weight.to_string()).as_deref(),
            Some(weight)
        );
    }
    let bytes = 4096 * BASE_PAGE_BYTES;
    let map = Mapping::new(bytes, BASE_PAGE_BYTES, MappingKind::Anonymous).unwrap();
    map.advise(0..bytes, Advice::BasePages).unwrap();
    let both = [0, 1].into_iter().collect();
    bind_range(&map, 0..bytes, &Policy::WeightedInterleave(both)).unwrap();
    map.advise(0..bytes, Advice::PopulateWrite).unwrap();
    let by_kernel = counted(&nodes_of(map.base().as_ptr(), bytes));

    let system = system_of(&[&[0], &[1]], 256 * MIB);
    let placement = weighted(&[(0, 3), (1, 1)]);
    let region = allocate(&system, bytes as u64, &placement, PageSize::Base).unwrap();
    let by_runs = counted(&nodes_of_region(&region));
    assert_eq!(by_runs, BTreeMap::from([(0, 3072), (1, 1024)]));
    // The kernel's turn begins where the address says, so that its counts may be off by a turn.
    for (node, pages) in by_kernel {
        assert!(pages.abs_diff(by_runs[&node]) <= 3, "node{node}: {pages}");
    }
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn reserved_huge_pages_are_used_where_the_tier_has_them() {
    let pool = |node: u32| {
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    write(&pool(1), "16");
    let system = system_of(&[&[0], &[1]], 256 * MIB);
    let far = Placement::Bind(tier(1));
    let free = meminfo_huge_free(1);
    assert_eq!(free, 16);
    let region = allocate(&system, 32 * MIB, &far, PageSize::Huge).unwrap();
    assert_eq!(meminfo_huge_free(1), 0, "explicit huge pages were not used");
    assert_eq!(region.huge_page_bytes().unwrap() as u64, 32 * MIB);
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(1, 8192)])
    );
    region.verify().unwrap();
    drop(region);
    // Enough are free, but none of them near: transparent ones stand in.
    let near = allocate(&system, 32 * MIB, &Placement::Bind(tier(0)), PageSize::Huge).unwrap();
    assert_eq!(
        counted(&nodes_of_region(&near)),
        BTreeMap::from([(0, 8192)])
    );
    assert_eq!(meminfo_huge_free(1), 16);
    drop(near);
    write(&pool(1), "0");
    let transparent = allocate(&system, 32 * MIB, &far, PageSize::Huge).unwrap();
    assert_eq!(transparent.huge_page_bytes().unwrap() as u64, 32 * MIB);
    assert_eq!(
        counted(&nodes_of_region(&transparent)),
        BTreeMap::from([(1, 8192)])
    );
}

fn meminfo_huge_free(node: u32) -> u64 {
    let file =
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/free_hugepages");
    std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_full_node_refuses_and_kills_nobody() {
    // Budgets that are larger than the node: what refuses is the memory itself.
    let system = system_of(&[&[0], &[1]], 64 << 30);
    let far = Placement::Bind(tier(1));
    let mut regions = Vec::new();
    let error = loop {
        match allocate(&system, 48 * MIB, &far, PageSize::Base) {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
        assert!(regions.len() < 30, "more than the node has");
    };
    let RegionError::NodesFull { tier: name, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(name, "far");
    let taken = 48 * MIB * regions.len() as u64;
    assert!(taken > 300 * MIB, "the node gave only {taken} bytes");
    assert_eq!(system.usage(tier(1)).region_bytes, taken);
    for region in &regions {
        region.verify().unwrap();
    }
    // Only what is meant for the full node is refused.
    allocate(&system, 48 * MIB, &Placement::Bind(tier(0)), PageSize::Base).unwrap();
    let both = Placement::Interleave(vec![tier(0), tier(1)]);
    let refused = allocate(&system, 256 * MIB, &both, PageSize::Base);
    assert!(matches!(refused, Err(RegionError::NodesFull { .. })));
    regions.pop();
    allocate(&system, 48 * MIB, &far, PageSize::Base).unwrap();
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_migration_to_a_full_node_leaves_all_as_it_was() {
    let system = system_of(&[&[0], &[1]], 64 << 30);
    let far = Placement::Bind(tier(1));
    let mut filling = Vec::new();
    while let Ok(region) = allocate(&system, 48 * MIB, &far, PageSize::Base) {
        filling.push(region);
    }
    let near = Placement::Bind(tier(0));
    let region = allocate(&system, 128 * MIB, &near, PageSize::Base).unwrap();
    let used = system.usage(tier(1)).region_bytes;
    let error = region.migrate(&far, OverBudget::Refuse).unwrap_err();
    assert!(matches!(error, RegionError::NodesFull { .. }), "{error}");
    assert_eq!(region.placement(), near);
    assert_eq!(system.usage(tier(1)).region_bytes, used);
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(0, 32768)])
    );
    drop(filling);
    region.migrate(&far, OverBudget::Refuse).unwrap();
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(1, 32768)])
    );
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn regions_move_between_nodes_while_they_are_read() {
    placements::check_migrations_under_readers(0, 1);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn what_a_thread_allocates_lies_on_its_tier() {
    let system = system_of(&[&[0], &[1]], 512 * MIB);
    let heaps = GlobalHeaps {
        near: NearHeap::Platform,
        huge_pages: false,
    };
    NearfarAllocator::install(&system, heaps).unwrap();
    let near = vec![1u8; 8 << 20];
    let (large, small) = std::thread::spawn(|| {
        let _far = ThreadTier::enter(tier(1));
        let small: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 3000]).collect();
        (vec![1u8; 8 << 20], small)
    })
    .join()
    .unwrap();
    assert!(share_on(1, &near) < 0.01, "{}", share_on(1, &near));
    assert!(share_on(1, &large) > 0.99, "{}", share_on(1, &large));
    for block in &small {
        assert_eq!(share_on(1, block), 1.0);
    }
    // Growing it here, near, leaves it where it is.
    let mut large = large;
    large.resize(24 << 20, 2);
    assert!(share_on(1, &large) > 0.99, "{}", share_on(1, &large));
    assert_eq!(system.usage(tier(1)).fallbacks, 0);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_tier_heap_lies_on_its_node() {
    let system = system_of(&[&[0], &[1]], 512 * MIB);
    for index in [0, 1] {
        let heap = TierHeap::new(&system, tier(index), HeapOptions::default()).unwrap();
        let mut block = allocator_api2::vec::Vec::new_in(heap);
        block.resize(16 << 20, 7u8);
        let share = share_on(1, &block);
        assert!((share - index as f64).abs() < 0.01, "tier {index}: {share}");
    }
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn the_discovered_tiers_can_be_used_by_name() {
    let topology = Topology::this_machine().unwrap();
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    let far = system.tier("far").unwrap();
    assert_eq!(system.info(far).kind, TierKind::CpulessNode);
    assert_eq!(system.info(far).nodes(), [1]);
    // The budget is the node's size, as firmware's reservations leave it.
    assert_eq!(system.usage(far).budget_bytes, meminfo(1, "MemTotal"));
    let region = allocate(&system, 16 * MIB, &Placement::Bind(far), PageSize::Base).unwrap();
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(1, 4096)])
    );
}
