//! Tests against the kernel of this machine, through the public interface only.
//!
//! They pass on a machine with one node, which several tiers share, and in a sandbox that forbids
//! memory policies. Those in `testbed` need more.

mod dax;
mod global_heap;
mod kernel;
mod pool_hosts;
mod pool_readers;
mod pools;
mod regions;
mod stress;
mod testbed;
mod tier_heap;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_memory::sys::{BASE_PAGE_BYTES, Mapping, MappingKind, NodeSet, Policy, bind_range};
use nearfar_memory::{
    Budgets, MAX_TIERS, MachineRoots, MemorySystem, NearfarAllocator, Placement, Region,
    RegionOptions, SystemError, TierId, TierKind, TierSpec,
};
use nearfar_topology::{Profile, Topology};

#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

const MIB: u64 = 1 << 20;

/// Three tiers over one node, with this many MiB each.
fn system(capacities_mib: [u64; 3]) -> Arc<MemorySystem> {
    let mut budgets = Budgets::new();
    if !policies_work(&[node()]) {
        // Without policies, regions are made where there is one node only, or seems to be.
        budgets = budgets.with_roots(MachineRoots {
            sys: "nowhere".into(),
            ..MachineRoots::default()
        });
    }
    MemorySystem::from_specs(tiers(capacities_mib), &budgets).unwrap()
}

fn tiers(capacities_mib: [u64; 3]) -> Vec<TierSpec> {
    let kinds = [TierKind::LocalDram, TierKind::Modelled, TierKind::Modelled];
    let specs = ["near", "far", "farther"]
        .iter()
        .zip(kinds)
        .zip(capacities_mib);
    let spec =
        |((name, kind), mib): ((&&str, _), _)| TierSpec::new(*name, kind, [node()], mib * MIB);
    specs.map(spec).collect()
}

#[test]
fn the_tiers_of_this_machine_make_a_system() {
    let profile = Profile::builtin("cxl-blades-1").unwrap();
    let topology = Topology::this_machine().unwrap().with_profile(&profile);
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    assert_eq!(system.tiers().len(), topology.tiers.len());
    let far = system.tier("far").unwrap();
    assert_eq!(system.info(far).kind, TierKind::Modelled);
    assert_eq!(system.info(far).nodes(), system.info(TierId::NEAR).nodes());
    if !policies_work(system.info(TierId::NEAR).nodes()) {
        return;
    }
    let both = Placement::Interleave(vec![TierId::NEAR, far]);
    let region = Region::allocate(&system, 1 << 20, &both, RegionOptions::default()).unwrap();
    assert_eq!(region.tier_bytes(0..1 << 20)[far], 1 << 19);
}

#[test]
fn tiers_that_hold_nothing_make_room_for_others() {
    let mut topology = Topology::this_machine().unwrap();
    for index in 0..20 {
        let mut device = topology.tiers[0].clone();
        (device.name, device.allocatable) = (format!("dax{index}.0"), false);
        topology.tiers.push(device);
    }
    let profile = Profile::builtin("cxl-blades-1").unwrap();
    let topology = topology.with_profile(&profile);
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    assert_eq!(system.tiers().len(), MAX_TIERS);
    assert_eq!(system.tier("far").unwrap().index(), MAX_TIERS - 1);
    assert!(system.tier("dax0.0").is_ok() && system.tier("dax19.0").is_err());
}

#[test]
fn a_budget_above_a_capacity_is_refused() {
    let too_much = Budgets::new().with("near", u64::MAX);
    let error = MemorySystem::from_specs(tiers([64, 64, 64]), &too_much).unwrap_err();
    assert!(
        matches!(error, SystemError::BudgetAboveCapacity { .. }),
        "{error}"
    );
}

/// The first node that this process may allocate on.
fn node() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let allowed = lines.find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    let nodes = allowed.and_then(NodeSet::parse);
    nodes.and_then(|nodes| nodes.iter().next()).unwrap_or(0)
}

/// Whether the kernel takes a policy over these nodes. A sandbox may forbid it, and a kernel that
/// was built for few nodes does not know high numbers.
fn policies_work(nodes: &[u32]) -> bool {
    let map = Mapping::new(BASE_PAGE_BYTES, BASE_PAGE_BYTES, MappingKind::Anonymous).unwrap();
    let policy = Policy::evenly(nodes.iter().copied().collect());
    bind_range(&map, 0..map.len(), &policy).is_ok()
}

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

/// Raises a flag when it is dropped, so that a thread that waits for the flag ends even if a check
/// fails before; its scope would wait for it for ever.
struct RaiseOnDrop<'flag>(&'flag AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs an ignored test of this program in a process of its own.
#[track_caller]
fn run_apart(test: &str) {
    let program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(program)
        .args(["--exact", test, "--ignored"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && output.contains("1 passed"),
        "{output}"
    );
}
