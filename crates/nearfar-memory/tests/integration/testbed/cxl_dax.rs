//! CXL memory as a DAX device.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use nearfar_memory::sys::{Durability, SharedMapping};
use nearfar_memory::{
    Budgets, DaxError, HeapOptions, MemorySystem, PageSize, Placement, Region, RegionError,
    TierHeap, TierId, Verification,
};
use nearfar_topology::Topology;

use super::support::{MIB, allocate, nodes_of};

const BYTES: usize = 16 << 20;

#[test]
#[ignore = "needs the topology cxl-dax: cargo xtask testbed cxl-dax"]
fn a_dax_device_keeps_what_was_written_to_it() {
    let open = |bytes| SharedMapping::open(Path::new("/dev/dax0.0"), bytes, Durability::Flush);
    let (here, there) = (open(BYTES).unwrap(), open(BYTES).unwrap());
    for (index, word) in here.words().iter().enumerate().step_by(64) {
        word.store(index as u64 * 31, Relaxed);
    }
    drop(here);
    let again = open(BYTES).unwrap();
    for (index, (one, other)) in there
        .words()
        .iter()
        .zip(again.words())
        .enumerate()
        .step_by(64)
    {
        let expected = index as u64 * 31;
        assert_eq!(
            (one.load(Relaxed), other.load(Relaxed)),
            (expected, expected)
        );
    }
    let error = open(4096).unwrap_err();
    assert_eq!(
        (error.call, error.errno),
        ("mmap", libc::EINVAL),
        "smaller than its alignment"
    );
}

/// Whether `bytes` are the same as another mapping of the device has them somewhere.
fn is_on_device(bytes: &[u8]) -> bool {
    let device =
        SharedMapping::open(Path::new("/dev/dax0.0"), 128 << 20, Durability::Flush).unwrap();
    let wanted: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let mut words = device.words().chunks(512);
    words.any(|page| {
        page.iter()
            .zip(&wanted)
            .all(|(found, wanted)| found.load(Relaxed) == *wanted)
    })
}

#[test]
#[ignore = "needs the topology cxl-dax: cargo xtask testbed cxl-dax"]
fn regions_and_heaps_lie_on_the_device() {
    let topology = Topology::this_machine().unwrap();
    let cautious = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    let dax = cautious.place("dax0.0").unwrap();
    let refused = allocate(&cautious, MIB, &Placement::Bind(dax), PageSize::Base).unwrap_err();
    let RegionError::Dax { source, .. } = refused else {
        panic!("{refused}")
    };
    assert!(matches!(source, DaxError::NoBudget { .. }), "{source}");

    let system = MemorySystem::new(&topology, &Budgets::new().with_devices()).unwrap();
    let fill = |region: &mut Region| {
        for (page, bytes) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            bytes.fill(page as u8 ^ 0x5A);
        }
    };
    let mut region = allocate(&system, 64 * MIB, &Placement::Bind(dax), PageSize::Base).unwrap();
    assert!(region.as_slice().iter().all(|byte| *byte == 0));
    fill(&mut region);
    assert_eq!(
        (region.page_bytes(), region.verification()),
        (2 << 20, Verification::ByMapping)
    );
    region.verify().unwrap();
    assert!(is_on_device(&region.as_slice()[..4096]));

    let turns = Placement::Interleave(vec![TierId::NEAR, dax]);
    let refused = allocate(&system, 16 * MIB, &turns, PageSize::Base).unwrap_err();
    assert!(
        matches!(refused, RegionError::DevicePages { .. }),
        "{refused}"
    );
    let mut mixed = allocate(&system, 16 * MIB, &turns, PageSize::Huge).unwrap();
    fill(&mut mixed);
    mixed.verify().unwrap();
    assert_eq!(mixed.verification(), Verification::ByMapping);
    for (page, bytes) in mixed.as_slice().chunks(2 << 20).enumerate() {
        let is_near = nodes_of(bytes.as_ptr(), bytes.len())
            .iter()
            .all(|node| *node == 0);
        assert_eq!(is_near, page % 2 == 0, "page {page}");
    }

    let options = HeapOptions {
        reserve_bytes: Some(32 << 20),
        ..HeapOptions::default()
    };
    let heap = TierHeap::new(&system, dax, options).unwrap();
    let mut vector = allocator_api2::vec::Vec::with_capacity_in(1 << 20, heap);
    vector.extend((0..1_u32 << 20).map(|number| number as u8 ^ (number >> 12) as u8));
    assert!(is_on_device(
        &vector[vector.as_ptr().align_offset(4096)..][..4096]
    ));

    let budgets = Budgets::new().with("dax0.0", 64 * MIB);
    let other = MemorySystem::new(&topology, &budgets).unwrap();
    let refused = allocate(&other, MIB, &Placement::Bind(dax), PageSize::Base).unwrap_err();
    let RegionError::Dax {
        source: DaxError::InUse { owner_pid, .. },
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert_eq!(owner_pid, Some(std::process::id()));
}
