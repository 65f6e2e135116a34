//! Tests against the kernel of this machine, through the public interface only.
//!
//! They pass on a machine with one node: several tiers share node 0. Those in `testbed` need more.

mod global_heap;
mod kernel;
mod regions;
mod stress;
mod testbed;
mod tier_heap;

use std::sync::Arc;

use nearfar_memory::{
    Budgets, MemorySystem, NearfarAllocator, Placement, Region, RegionOptions, SystemError, TierId,
    TierKind, TierSpec,
};
use nearfar_topology::{Profile, Topology};

#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

const MIB: u64 = 1 << 20;

/// Three tiers over node 0, with this many MiB each.
fn system(capacities_mib: [u64; 3]) -> Arc<MemorySystem> {
    let kinds = [TierKind::LocalDram, TierKind::Modelled, TierKind::Modelled];
    let specs = ["near", "far", "farther"]
        .iter()
        .zip(kinds)
        .zip(capacities_mib);
    let specs = specs.map(|((name, kind), mib)| TierSpec::new(*name, kind, [0], mib * MIB));
    MemorySystem::from_specs(specs.collect(), &Budgets::new()).unwrap()
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
