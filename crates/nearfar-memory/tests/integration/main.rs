//! Tests against the kernel of this machine, through the public interface only.
//!
//! They pass on a machine with one node: several tiers share node 0.

mod global_heap;
mod kernel;
mod regions;
mod stress;
mod tier_heap;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_memory::{
    Budgets, MemorySystem, NearfarAllocator, Placement, Region, RegionOptions, SystemError, TierId,
    TierKind, TierSpec,
};
use nearfar_topology::{Profile, Topology};

#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

const MIB: u64 = 1 << 20;

/// Three tiers over one node, with this many MiB each.
fn system(capacities_mib: [u64; 3]) -> Arc<MemorySystem> {
    MemorySystem::from_specs(tiers(capacities_mib), &Budgets::new()).unwrap()
}

fn tiers(capacities_mib: [u64; 3]) -> Vec<TierSpec> {
    let kinds = [TierKind::LocalDram, TierKind::Modelled, TierKind::Modelled];
    let specs = ["near", "far", "farther"]
        .iter()
        .zip(kinds)
        .zip(capacities_mib);
    let spec = |((name, kind), mib): ((&&str, _), _)| TierSpec::new(*name, kind, [0], mib * MIB);
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
    assert_eq!(system.info(far).nodes, system.info(TierId::NEAR).nodes);
    let both = Placement::Interleave(vec![TierId::NEAR, far]);
    let region = Region::allocate(&system, 1 << 20, &both, RegionOptions::default()).unwrap();
    assert_eq!(region.tier_bytes(0..1 << 20)[far], 1 << 19);
    let too_much = Budgets::new().with("near", u64::MAX);
    let error = MemorySystem::new(&topology, &too_much).unwrap_err();
    assert!(
        matches!(error, SystemError::BudgetAboveCapacity { .. }),
        "{error}"
    );
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
