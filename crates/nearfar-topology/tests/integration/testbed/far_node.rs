//! DRAM and a node without CPUs, with distances and HMAT.

use nearfar_topology::{FAR, Known, NEAR, TierKind};

use super::{assert_capacity, assert_declared, names_and_nodes, this_machine};

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn tiers_are_as_firmware_declares_them() {
    let topology = this_machine();
    assert_eq!(
        names_and_nodes(&topology),
        [(NEAR, vec![0]), ("cpuless", vec![1])]
    );
    let near = topology.tier(NEAR).unwrap();
    assert_eq!(near.distance, Known::Value(10));
    assert_declared(near, 100.0, 200.0);
    assert_capacity(near, 2048, 256);
    let far = topology.tier(FAR).unwrap();
    assert_eq!(far.name, "cpuless");
    assert_eq!(far.kind, TierKind::CpulessNode);
    assert_eq!(far.distance, Known::Value(20));
    assert_declared(far, 250.0, 50.0);
    assert_capacity(far, 512, 128);
    assert!(far.allocatable);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn the_kernels_own_tiers_have_the_same_order() {
    let topology = this_machine();
    let tiers = [NEAR, FAR].map(|name| topology.tier(name).unwrap().memory_tier.get().unwrap());
    assert!(tiers[0] < tiers[1], "{tiers:?}");
}
