//! A socket without memory (node 1), a small node (2), and one whose memory can go offline (3).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nearfar_memory::{OverBudget, PageSize, Placement, RegionError};

use super::support::{MIB, allocate, counted, nodes_of_region, system_of, tier, write};

#[test]
#[ignore = "needs the topology odd-nodes: cargo xtask testbed odd-nodes"]
fn a_node_that_keeps_pages_back_is_full_and_kills_nobody() {
    // The kernel keeps this back over all nodes; what a bound process would take of it costs the
    // process its life.
    const KEPT: &str = "/proc/sys/vm/min_free_kbytes";
    let before = fs::read_to_string(KEPT).unwrap();
    write(KEPT, "524288");
    let system = system_of(&[&[0], &[2]], 64 << 30);
    let small = Placement::Bind(tier(1));
    let mut regions = Vec::new();
    let error = loop {
        match allocate(&system, 8 * MIB, &small, PageSize::Base) {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RegionError::NodesFull { .. }), "{error}");
    let with_more_kept = regions.len();
    write(KEPT, before.trim());
    while let Ok(region) = allocate(&system, 8 * MIB, &small, PageSize::Base) {
        regions.push(region);
    }
    assert!(regions.len() > with_more_kept, "{with_more_kept} regions");
    for region in &regions {
        region.verify().unwrap();
    }
}

#[test]
#[ignore = "needs the topology odd-nodes: cargo xtask testbed odd-nodes"]
fn a_tier_on_a_socket_without_memory_is_an_error() {
    let system = system_of(&[&[0], &[1]], 64 * MIB);
    let refused = allocate(&system, MIB, &Placement::Bind(tier(1)), PageSize::Base);
    let error = refused.unwrap_err();
    let is_named = match &error {
        RegionError::NodesFull { tier, .. } | RegionError::Bind { tier, .. } => tier == "far",
        _ => false,
    };
    assert!(is_named, "{error}");
    assert_eq!(system.usage(tier(1)).used_bytes(), 0);
}

#[test]
#[ignore = "needs the topology odd-nodes: cargo xtask testbed odd-nodes"]
fn a_region_notices_that_its_node_went_offline() {
    let system = system_of(&[&[0], &[3]], 64 * MIB);
    let far = Placement::Bind(tier(1));
    let mut region = allocate(&system, 32 * MIB, &far, PageSize::Base).unwrap();
    region.as_mut_slice().fill(7);
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(3, 8192)])
    );

    let blocks = memory_blocks();
    set(&blocks, "offline");
    let error = region.verify().unwrap_err();
    assert!(
        matches!(
            &error,
            RegionError::Misplaced {
                found_pages: 0,
                expected_pages: 8192,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        region.as_slice().iter().all(|byte| *byte == 7),
        "the kernel saved the bytes"
    );
    let refused = allocate(&system, MIB, &far, PageSize::Base).unwrap_err();
    assert!(
        matches!(
            &refused,
            RegionError::NodesFull { .. } | RegionError::Bind { .. }
        ),
        "{refused}"
    );

    set(&blocks, "online_movable");
    region.migrate(&far, OverBudget::Refuse).unwrap();
    region.verify().unwrap();
    assert_eq!(
        counted(&nodes_of_region(&region)),
        BTreeMap::from([(3, 8192)])
    );
    assert!(region.as_slice().iter().all(|byte| *byte == 7));
}

/// The files that say whether the module's memory is online.
fn memory_blocks() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/devices/system/node/node3").unwrap();
    let states = entries.map(|entry| entry.unwrap().path().join("state"));
    states.filter(|path| path.exists()).collect()
}

fn set(blocks: &[PathBuf], state: &str) {
    assert!(!blocks.is_empty());
    for block in blocks {
        write(block.to_str().unwrap(), state);
    }
}
