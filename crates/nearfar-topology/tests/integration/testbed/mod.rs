//! Discovery on machines that are configured for it: each module runs on the virtual machine of its
//! name (`cargo xtask testbed NAME`), as root, and compares with what qemu was told.

mod cxl_dax;
mod cxl_node;
mod far_node;
mod odd_nodes;
mod one_node;
mod pmem;
mod two_sockets;

use nearfar_topology::{Known, NodeId, Tier, Topology};

const GIB_PER_S: f64 = (1u64 << 30) as f64;

fn this_machine() -> Topology {
    Topology::this_machine().unwrap()
}

/// Names of the tiers with the numbers of their nodes.
fn names_and_nodes(topology: &Topology) -> Vec<(&str, Vec<u32>)> {
    let nodes = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let tiers = topology.tiers.iter();
    tiers
        .map(|tier| (tier.name.as_str(), nodes(&tier.nodes)))
        .collect()
}

/// Checks declared numbers: latency in ns, bandwidth in GiB/s, the same for reads and writes.
#[track_caller]
fn assert_declared(tier: &Tier, latency_ns: f64, bandwidth_gib_per_s: f64) {
    let declared = &tier.declared;
    let bandwidth = Known::Value(bandwidth_gib_per_s * GIB_PER_S);
    assert_eq!(
        declared.read_latency_ns,
        Known::Value(latency_ns),
        "{tier:?}"
    );
    assert_eq!(declared.write_latency_ns, Known::Value(latency_ns));
    assert_eq!(declared.read_bandwidth_bytes_per_s, bandwidth);
    assert_eq!(declared.write_bandwidth_bytes_per_s, bandwidth);
}

/// Checks a capacity, of which the kernel may have set some aside before it counted.
#[track_caller]
fn assert_capacity(tier: &Tier, mib: u64, set_aside_mib: u64) {
    let capacity = tier.capacity_bytes.get().expect("a capacity");
    let (least, most) = ((mib - set_aside_mib) << 20, mib << 20);
    assert!(
        (least..=most).contains(&capacity),
        "{capacity} of {mib} MiB"
    );
    assert!(tier.free_bytes.get().expect("free memory") <= capacity);
}

/// The reason why something is unavailable.
#[track_caller]
fn reason<'a>(topology: &'a Topology, what: &str) -> &'a str {
    let found = topology.unavailable.iter().find(|gap| gap.what == what);
    let found = found.unwrap_or_else(|| panic!("{what} in {:?}", topology.unavailable));
    &found.reason
}
