//! Regions of every placement, against the ledger and the kernel.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use nearfar_memory::{
    Budgets, MachineRoots, MemorySystem, OverBudget, PageSize, Placement, Region, RegionError,
    RegionOptions, TierBytes, TierKind, TierSpec, Verification,
};

use crate::kernel;
use crate::{MIB, RaiseOnDrop, node, policies_work, run_apart, system, tier};

fn weighted(runs: &[(usize, u32)]) -> Placement {
    let run = |&(index, pages)| (tier(index), NonZeroU32::new(pages).unwrap());
    Placement::Weighted(runs.iter().map(run).collect())
}

fn split(first: usize, first_share: f64, rest: usize) -> Placement {
    Placement::Split {
        first: tier(first),
        first_share,
        rest: tier(rest),
    }
}

fn all_placements() -> Vec<Placement> {
    vec![
        Placement::Bind(tier(0)),
        Placement::Bind(tier(2)),
        Placement::Interleave(vec![tier(0), tier(1)]),
        Placement::Interleave(vec![tier(2), tier(0), tier(1)]),
        weighted(&[(0, 3), (1, 1), (2, 2)]),
        split(0, 0.25, 1),
        split(1, 0.0, 2),
        split(1, 1.0, 2),
    ]
}

fn addresses(region: &Region) -> Range<usize> {
    let start = region.as_slice().as_ptr() as usize;
    start..start + region.mapped_bytes()
}

fn options(page_size: PageSize) -> RegionOptions {
    RegionOptions {
        page_size,
        ..RegionOptions::default()
    }
}

fn used(system: &MemorySystem) -> Vec<u64> {
    system
        .tiers()
        .map(|(tier, _)| system.usage(tier).region_bytes)
        .collect()
}

#[test]
fn every_placement_is_populated_verified_and_accounted() {
    for page_size in [PageSize::Base, PageSize::Huge] {
        let pages = if page_size == PageSize::Base { 300 } else { 5 };
        let bytes = pages * page_size.bytes() - 100;
        for placement in all_placements() {
            let system = system([64, 64, 64]);
            let mut region =
                Region::allocate(&system, bytes, &placement, options(page_size)).unwrap();
            assert_eq!(region.placement(), placement);
            assert_eq!(region.len(), bytes);
            assert!(region.as_slice().iter().all(|byte| *byte == 0));
            region.as_mut_slice()[bytes - 1] = 9;
            if region.verification() == Verification::Verified {
                region.verify().unwrap();
            }
            let mapped: u64 = kernel::mappings(addresses(&region))
                .iter()
                .map(|mapping| mapping.resident_bytes)
                .sum();
            assert!(mapped >= region.mapped_bytes() as u64, "{mapped}");
            assert_eq!(
                used(&system).iter().sum::<u64>(),
                region.mapped_bytes() as u64
            );
            let told = region.tier_bytes(0..bytes);
            assert_eq!(told.total(), bytes as u64);
            for (tier, _) in system.tiers() {
                let charged = system.usage(tier).region_bytes;
                assert!(charged - told[tier] <= page_size.bytes() as u64);
                assert_eq!(charged % page_size.bytes() as u64, 0);
            }
            drop(region);
            assert_eq!(used(&system), [0, 0, 0]);
        }
    }
}

#[test]
fn alternating_pages_leave_one_kernel_mapping() {
    let system = system([64, 64, 64]);
    let placement = Placement::Interleave(vec![tier(0), tier(1), tier(2)]);
    let region = Region::allocate(&system, 32 << 20, &placement, RegionOptions::default()).unwrap();
    let mappings = kernel::mappings(addresses(&region));
    assert_eq!(
        mappings.len(),
        1,
        "8192 runs in {} kernel mappings",
        mappings.len()
    );
    assert!(mappings[0].resident_bytes >= 32 << 20);
}

#[test]
fn the_kernel_counts_the_pages_on_the_node() {
    let system = system([64, 64, 64]);
    let placement = Placement::Bind(tier(1));
    let region = Region::allocate(&system, 8 << 20, &placement, options(PageSize::Base)).unwrap();
    if region.verification() != Verification::Verified {
        return;
    }
    let Ok(text) = std::fs::read_to_string("/proc/self/numa_maps") else {
        return;
    };
    let wanted = addresses(&region);
    // The kernel may have merged the region with a neighbour, so that its line begins before it.
    let line = text.lines().rfind(|line| {
        let start = line.split(' ').next().unwrap();
        usize::from_str_radix(start, 16).is_ok_and(|start| start <= wanted.start)
    });
    let line = line.unwrap();
    assert!(line.contains(&format!("bind:{}", node())), "{line}");
    let pages = line
        .split(' ')
        .find_map(|field| field.strip_prefix(&format!("N{}=", node())))
        .unwrap();
    assert!(
        pages.parse::<usize>().unwrap() >= region.mapped_bytes() / 4096,
        "{line}"
    );
}

#[test]
fn a_budget_refuses_or_spills() {
    let system = system([4, 8, 64]);
    let near = Placement::Bind(tier(0));
    let error = Region::allocate(&system, 5 << 20, &near, RegionOptions::default()).unwrap_err();
    assert_eq!(
        error,
        RegionError::OverBudget {
            tier: "near".into(),
            requested_bytes: 5 * MIB,
            available_bytes: 4 * MIB,
            budget_bytes: 4 * MIB
        }
    );
    let spill = RegionOptions {
        over_budget: OverBudget::Spill,
        ..RegionOptions::default()
    };
    let allocate =
        |bytes: usize, placement: &Placement| Region::allocate(&system, bytes, placement, spill);
    let first = allocate(5 << 20, &near).unwrap();
    assert_eq!(first.placement(), Placement::Bind(tier(1)));
    let second = allocate(5 << 20, &near).unwrap();
    assert_eq!(second.placement(), Placement::Bind(tier(2)));
    // From the farthest there is nowhere to go but nearer.
    let third = allocate(58 << 20, &Placement::Bind(tier(2))).unwrap();
    let fourth = allocate(2 << 20, &Placement::Bind(tier(2))).unwrap();
    assert_eq!(fourth.placement(), Placement::Bind(tier(1)));
    assert_eq!(used(&system), [0, 7 * MIB, 63 * MIB]);
    let error = allocate(8 << 20, &near).unwrap_err();
    assert!(matches!(error, RegionError::OverBudget { .. }), "{error}");
    drop((first, second, third, fourth));
    assert_eq!(used(&system), [0, 0, 0]);
}

#[test]
fn a_memory_limit_refuses_and_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("proc/self/cgroup", "0::/job\n");
    write("cgroup/job/memory.max", "20971520\n");
    write("cgroup/job/memory.current", "18874368\n");
    let roots = MachineRoots {
        proc: folder.path().join("proc"),
        sys: "/sys".into(),
        cgroup: folder.path().join("cgroup"),
    };
    let specs = vec![TierSpec::new(
        "near",
        TierKind::LocalDram,
        [node()],
        1 << 30,
    )];
    let budgets = Budgets::new().with_roots(roots);
    let system = MemorySystem::from_specs(specs, &budgets).unwrap();
    assert_eq!(system.usage(tier(0)).budget_bytes, 20 * MIB);
    let near = Placement::Bind(tier(0));
    let allocate = |bytes| Region::allocate(&system, bytes, &near, RegionOptions::default());
    let error = allocate(3 << 20).unwrap_err();
    let RegionError::CgroupLimit {
        requested_bytes,
        limit_bytes,
        used_bytes,
        file,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (*requested_bytes, *limit_bytes, *used_bytes),
        (3 * MIB, 20 * MIB, 18 * MIB)
    );
    assert!(file.ends_with("job/memory.max"));
    assert_eq!(used(&system), [0]);
    allocate(2 << 20).unwrap();
}

#[test]
fn nodes_without_memory_are_named() {
    let node = node();
    if !policies_work(&[node]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("devices/system/node");
    let meminfo = nodes.join(format!("node{node}/meminfo"));
    std::fs::create_dir_all(meminfo.parent().unwrap()).unwrap();
    std::fs::write(nodes.join("has_memory"), format!("{node},1000\n")).unwrap();
    std::fs::write(meminfo, format!("Node {node} MemFree: 65536 kB\n")).unwrap();
    let roots = MachineRoots {
        proc: folder.path().into(),
        sys: folder.path().into(),
        ..MachineRoots::default()
    };
    let specs = vec![
        TierSpec::new("near", TierKind::LocalDram, [node], 1 << 40),
        TierSpec::new("dax0.0", TierKind::Dax, [], 1 << 40),
        TierSpec::new("gone", TierKind::Cxl, [900], 1 << 40),
    ];
    let system = MemorySystem::from_specs(specs, &Budgets::new().with_roots(roots)).unwrap();
    let allocate = |index: usize, bytes| {
        Region::allocate(
            &system,
            bytes,
            &Placement::Bind(tier(index)),
            RegionOptions::default(),
        )
    };
    let error = allocate(0, 33 << 20).unwrap_err();
    assert!(
        matches!(&error, RegionError::NodesFull { available_bytes, .. } if *available_bytes == 32 * MIB),
        "{error}"
    );
    assert_eq!(
        allocate(1, 4096).unwrap_err(),
        RegionError::NotAllocatable {
            tier: "dax0.0".into()
        }
    );
    let error = allocate(2, 4096).unwrap_err();
    assert!(
        matches!(&error, RegionError::Bind { tier, .. } if tier == "gone"),
        "{error}"
    );
    let error = allocate(0, usize::MAX - 4096).unwrap_err();
    assert!(matches!(error, RegionError::TooLarge { .. }), "{error}");
    assert_eq!(used(&system), [0, 0, 0]);
}

#[test]
fn a_region_without_bytes_has_a_page() {
    let system = system([64, 64, 64]);
    let region = Region::allocate(
        &system,
        0,
        &Placement::Bind(tier(0)),
        RegionOptions::default(),
    )
    .unwrap();
    assert!(region.is_empty() && region.as_slice().is_empty());
    assert_eq!(region.tier_bytes(0..0), TierBytes::ZERO);
    assert_eq!(used(&system)[0], 4096);
}

#[test]
fn migration_moves_the_account_and_keeps_the_bytes_while_readers_read() {
    let system = system([64, 64, 64]);
    let mut region = Region::allocate(
        &system,
        8 << 20,
        &Placement::Bind(tier(0)),
        options(PageSize::Base),
    )
    .unwrap();
    for (index, byte) in region.as_mut_slice().iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    let expected: Vec<u8> = region.as_slice().to_vec();
    let (stop, started) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                assert!(region.as_slice() == expected);
                assert_eq!(region.tier_bytes(0..region.len()).total(), 8 * MIB);
            }
        });
        started.wait();
        let _end_reader = RaiseOnDrop(&stop);
        for placement in all_placements().into_iter().cycle().take(24) {
            let got = region.migrate(&placement, OverBudget::Refuse).unwrap();
            assert_eq!(got, placement);
            let told = region.tier_bytes(0..region.len());
            for (tier, _) in system.tiers() {
                assert_eq!(system.usage(tier).region_bytes, told[tier]);
            }
        }
    });
    if region.verification() == Verification::Verified {
        region.verify().unwrap();
    }
}

#[test]
fn a_refused_migration_changes_nothing() {
    let system = system([64, 4, 6]);
    let near = Placement::Bind(tier(0));
    let region = Region::allocate(&system, 8 << 20, &near, RegionOptions::default()).unwrap();
    let before = used(&system);
    let error = region
        .migrate(&Placement::Bind(tier(1)), OverBudget::Refuse)
        .unwrap_err();
    assert!(matches!(error, RegionError::OverBudget { .. }), "{error}");
    let error = region
        .migrate(&Placement::Bind(tier(9)), OverBudget::Refuse)
        .unwrap_err();
    assert!(matches!(error, RegionError::Placement(_)), "{error}");
    assert_eq!(used(&system), before);
    assert_eq!(region.placement(), near);
    // Half of it fits on each.
    let both = Placement::Interleave(vec![tier(1), tier(2)]);
    region.migrate(&both, OverBudget::Refuse).unwrap();
    assert_eq!(used(&system), [0, 4 * MIB, 4 * MIB]);
}

/// A tier that names a node which does not exist beside one that does: the kernel allocates on the
/// latter, and moves every other page of a migration to nowhere. `None` where the kernel takes no
/// policy over such nodes.
fn system_with_a_missing_node() -> Option<Arc<MemorySystem>> {
    let nodes = [node(), 900];
    let specs = vec![
        TierSpec::new("near", TierKind::LocalDram, [node()], 64 * MIB),
        TierSpec::new("far", TierKind::Cxl, nodes, 64 * MIB),
    ];
    policies_work(&nodes).then(|| MemorySystem::from_specs(specs, &Budgets::new()).unwrap())
}

#[test]
fn pages_are_moved_by_the_kernel_where_nodes_differ() {
    let Some(system) = system_with_a_missing_node() else {
        return;
    };
    let (near, far) = (Placement::Bind(tier(0)), Placement::Bind(tier(1)));
    for page_size in [PageSize::Base, PageSize::Huge] {
        let mut region = Region::allocate(&system, 100, &near, options(page_size)).unwrap();
        if region.verification() != Verification::Verified {
            return;
        }
        region.as_mut_slice()[99] = 9;
        region.migrate(&far, OverBudget::Refuse).unwrap();
        assert_eq!(region.verification(), Verification::Verified);
        assert_eq!(used(&system), [0, page_size.bytes() as u64]);
        region.migrate(&near, OverBudget::Refuse).unwrap();
        assert_eq!(used(&system), [page_size.bytes() as u64, 0]);
        assert_eq!(region.as_slice()[99], 9);
        region.verify().unwrap();
    }
}

#[test]
fn a_migration_that_the_kernel_refuses_is_undone() {
    let Some(system) = system_with_a_missing_node() else {
        return;
    };
    let near = Placement::Bind(tier(0));
    let region = Region::allocate(&system, 1 << 20, &near, options(PageSize::Base)).unwrap();
    if region.verification() != Verification::Verified {
        return;
    }
    let error = region
        .migrate(&Placement::Bind(tier(1)), OverBudget::Refuse)
        .unwrap_err();
    assert!(matches!(error, RegionError::Migrate { .. }), "{error}");
    assert_eq!(region.placement(), near);
    assert_eq!(used(&system), [MIB, 0]);
    region.verify().unwrap();
}

#[test]
fn buffers_share_the_region_and_keep_it_alive() {
    let system = system([64, 64, 64]);
    let mut region = Region::allocate(
        &system,
        1 << 20,
        &Placement::Interleave(vec![tier(0), tier(1)]),
        RegionOptions::default(),
    )
    .unwrap();
    region.as_mut_slice()[4096..4100].copy_from_slice(&[1, 2, 3, 4]);
    let region = Arc::new(region);
    let start = region.as_slice().as_ptr();
    let buffer = region.buffer(4096..8192);
    let slice = buffer.slice_with_length(0, 4);
    drop((buffer, region));
    assert_eq!(slice.as_ptr(), start.wrapping_add(4096));
    assert_eq!(slice.as_slice(), [1, 2, 3, 4]);
    assert_eq!(used(&system).iter().sum::<u64>(), MIB);
    drop(slice);
    assert_eq!(used(&system), [0, 0, 0]);
}

/// In a process of its own, where no other test holds memory.
#[test]
fn making_and_dropping_regions_leaks_nothing() {
    run_apart("regions::rounds_of_making_and_dropping_regions");
}

#[test]
#[ignore = "started in a process of its own by making_and_dropping_regions_leaks_nothing"]
fn rounds_of_making_and_dropping_regions() {
    let system = system([64, 64, 64]);
    let round = || {
        for placement in all_placements() {
            Region::allocate(&system, 4 << 20, &placement, RegionOptions::default()).unwrap();
            let refused = Region::allocate(&system, 1 << 30, &placement, RegionOptions::default());
            assert!(refused.is_err());
        }
    };
    round();
    let before = kernel::resident_bytes();
    for _ in 0..10 {
        round();
    }
    assert_eq!(used(&system), [0, 0, 0]);
    // A leak of every region would be 10 * 32 MiB.
    let grown = kernel::resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more are resident");
}

#[test]
fn huge_pages_are_reported() {
    let system = system([64, 64, 64]);
    let near = Placement::Bind(tier(0));
    let region = Region::allocate(&system, 8 << 20, &near, options(PageSize::Huge)).unwrap();
    assert_eq!(region.page_bytes(), 2 << 20);
    let Ok(huge) = region.huge_page_bytes() else {
        return;
    };
    assert!(huge <= region.mapped_bytes() && huge % (2 << 20) == 0);
    let region = Region::allocate(&system, 8 << 20, &near, options(PageSize::Base)).unwrap();
    assert_eq!(region.huge_page_bytes().unwrap(), 0);
}
