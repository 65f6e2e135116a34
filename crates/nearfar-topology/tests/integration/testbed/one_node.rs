//! One node, and nothing declared.

use nearfar_topology::{FAR, NEAR, TierKind};

use super::{assert_capacity, names_and_nodes, this_machine};

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn one_node_is_near_and_nothing_is_far() {
    let topology = this_machine();
    assert_eq!(names_and_nodes(&topology), [(NEAR, vec![0])]);
    let near = topology.tier(NEAR).unwrap();
    assert_eq!(near.kind, TierKind::LocalDram);
    assert_capacity(near, 1536, 256);
    let reason = near.declared.read_latency_ns.reason().unwrap();
    assert!(reason.contains("no HMAT"), "{reason}");
    assert!(topology.tier(FAR).is_err());
    assert_eq!(topology.cpus.len(), 2);
    assert_eq!(topology.sockets.len(), 1);
}
