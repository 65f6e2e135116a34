//! Two sockets, and two nodes of one class behind the second.

use std::path::Path;

use nearfar_topology::{FAR, Known, NEAR, NodeId, TierKind, Topology};

use super::{assert_capacity, assert_declared, names_and_nodes, this_machine};

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn nodes_of_one_class_are_one_tier() {
    let topology = this_machine();
    assert_eq!(
        names_and_nodes(&topology),
        [
            (NEAR, vec![0]),
            ("remote", vec![1]),
            ("cpuless", vec![2, 3])
        ]
    );
    let far = topology.tier(FAR).unwrap();
    assert_eq!(far.kind, TierKind::CpulessNode);
    assert_eq!(far.distance, Known::Value(28));
    assert_capacity(far, 1024, 128);
    let reason = far.declared.read_latency_ns.reason().unwrap();
    assert!(reason.contains("closer to it only"), "{reason}");
    assert_eq!(topology.sockets.len(), 2);
}

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn the_second_socket_sees_what_is_declared_for_it() {
    let topology = Topology::discover_from(Path::new("/sys"), NodeId(1)).unwrap();
    let kinds: Vec<TierKind> = topology.tiers.iter().map(|tier| tier.kind).collect();
    assert_eq!(topology.tier(NEAR).unwrap().nodes, [NodeId(1)]);
    let far = topology.tier("cpuless").unwrap();
    assert_eq!(far.distance, Known::Value(17));
    // Latency is that of one node, bandwidth the sum of two.
    assert_declared(far, 250.0, 100.0);
    // By distance: 21 to the other socket, declared as 2.5 times as far to the nodes behind this one.
    assert_eq!(
        kinds,
        [
            TierKind::LocalDram,
            TierKind::RemoteSocket,
            TierKind::CpulessNode
        ]
    );
}
