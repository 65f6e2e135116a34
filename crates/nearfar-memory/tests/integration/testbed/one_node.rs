//! One node: control groups.

use std::fs;

use nearfar_memory::{Budgets, MemorySystem, PageSize, Placement, RegionError};
use nearfar_topology::Topology;

use super::support::{MIB, allocate, tier, write};

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn the_limit_of_a_control_group_is_kept_and_kills_nobody() {
    const GROUP: &str = "/sys/fs/cgroup/nearfar";
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
    fs::create_dir_all(GROUP).unwrap();
    write(&format!("{GROUP}/memory.max"), &(192 * MIB).to_string());
    write(
        &format!("{GROUP}/cgroup.procs"),
        &std::process::id().to_string(),
    );

    let topology = Topology::this_machine().unwrap();
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    let near = Placement::Bind(tier(0));
    let usage = system.usage(tier(0));
    assert_eq!(
        usage.budget_bytes,
        192 * MIB,
        "the limit, not the node's size"
    );
    let refused = allocate(&system, 256 * MIB, &near, PageSize::Base).unwrap_err();
    assert!(
        matches!(refused, RegionError::OverBudget { .. }),
        "{refused}"
    );
    let region = allocate(&system, 64 * MIB, &near, PageSize::Base).unwrap();
    // What the ledger does not know of counts too.
    let elsewhere = vec![1u8; 80 << 20];
    let refused = allocate(&system, 64 * MIB, &near, PageSize::Base).unwrap_err();
    let RegionError::CgroupLimit { file, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(file.starts_with(GROUP), "{}", file.display());
    drop(elsewhere);
    allocate(&system, 64 * MIB, &near, PageSize::Base).unwrap();
    drop(region);
    let events = fs::read_to_string(format!("{GROUP}/memory.events")).unwrap();
    assert!(events.contains("oom_kill 0"), "{events}");
}
