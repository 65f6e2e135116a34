//! A socket without memory, and a node whose memory goes offline.

use std::fs;

use nearfar_topology::{NEAR, NodeId, Topology};

use super::{assert_capacity, names_and_nodes, reason, this_machine};

const MODULE: u32 = 3;

#[test]
#[ignore = "needs the topology odd-nodes: cargo xtask testbed odd-nodes"]
fn a_socket_without_memory_is_no_tier_but_has_cpus() {
    let topology = this_machine();
    assert_eq!(reason(&topology, "node1"), "has no memory");
    assert_eq!(topology.cpus.len(), 4);
    assert_eq!(topology.sockets.len(), 2);
    let from_there = Topology::discover_from("/sys".as_ref(), NodeId(1)).unwrap();
    assert_eq!(from_there.tiers.len(), topology.tiers.len());
}

#[test]
#[ignore = "needs the topology odd-nodes: cargo xtask testbed odd-nodes"]
fn a_node_that_goes_offline_is_no_tier_until_it_is_back() {
    let nodes = |topology: &Topology| -> Vec<u32> {
        let mut nodes: Vec<u32> = names_and_nodes(topology)
            .into_iter()
            .flat_map(|(_, nodes)| nodes)
            .collect();
        nodes.sort_unstable();
        nodes
    };
    let before = this_machine();
    assert_eq!(nodes(&before), [0, 2, 3]);
    let tier = before
        .tiers
        .iter()
        .find(|tier| tier.nodes.contains(&NodeId(MODULE)));
    let note = tier.and_then(|tier| tier.note.clone()).unwrap_or_default();
    assert!(note.contains("node3: movable memory only"), "{note}");

    let blocks = memory_blocks();
    set(&blocks, "offline");
    let without = this_machine();
    assert_eq!(nodes(&without), [0, 2]);
    assert_capacity(without.tier(NEAR).unwrap(), 1280, 128);

    set(&blocks, "online_movable");
    assert_eq!(nodes(&this_machine()), [0, 2, 3]);
}

/// The files that say whether the module's memory is online.
fn memory_blocks() -> Vec<std::path::PathBuf> {
    let folder = format!("/sys/devices/system/node/node{MODULE}");
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let states = names.map(|path| path.join("state"));
    states.filter(|path| path.exists()).collect()
}

fn set(blocks: &[std::path::PathBuf], state: &str) {
    assert!(!blocks.is_empty());
    for block in blocks {
        fs::write(block, state).unwrap_or_else(|error| panic!("{}: {error}", block.display()));
    }
}
