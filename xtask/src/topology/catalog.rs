//! The topologies that there are.

use super::machine::{CxlDevice, Declared, Distance, MemoryModule, Node, Topology};

/// A machine of one node, which the others differ from.
const PLAIN: Topology = Topology {
    name: "",
    summary: "",
    nodes: &[dram(1536, 2, 0)],
    distances: &[],
    declared: &[],
    cxl: &[],
    nvdimms_mib: &[],
    module: None,
    disk_mib: None,
    network: false,
    hosts: 1,
    kernel_arguments: "",
    setup: "",
};

const fn dram(memory_mib: u32, cpus: u8, node: u8) -> Node {
    Node {
        memory_mib,
        cpus,
        initiator: node,
    }
}

const fn cpuless(memory_mib: u32, initiator: u8) -> Node {
    Node {
        memory_mib,
        cpus: 0,
        initiator,
    }
}

const fn distance(one: u8, other: u8, distance: u8) -> Distance {
    Distance {
        nodes: (one, other),
        distance,
    }
}

const fn declared(
    initiator: u8,
    target: u8,
    latency_ns: u32,
    bandwidth_gib_per_s: u32,
) -> Declared {
    Declared {
        initiator,
        target,
        latency_ns,
        bandwidth_gib_per_s,
    }
}

/// Every topology, from simple to odd.
pub const ALL: [Topology; 9] = [
    Topology {
        name: "one-node",
        summary: "one node, as in every laptop; with an NVMe disk and a network card",
        disk_mib: Some(256),
        network: true,
        ..PLAIN
    },
    Topology {
        name: "far-node",
        summary: "DRAM with CPUs and one node without, with distances and HMAT; and an NVMe disk",
        nodes: &[dram(2048, 2, 0), cpuless(512, 0)],
        distances: &[distance(0, 1, 20)],
        declared: &[declared(0, 0, 100, 200), declared(0, 1, 250, 50)],
        disk_mib: Some(256),
        ..PLAIN
    },
    Topology {
        name: "two-sockets",
        summary: "two sockets, and two nodes without CPUs behind the second",
        nodes: &[
            dram(1024, 2, 0),
            dram(512, 2, 1),
            cpuless(512, 1),
            cpuless(512, 1),
        ],
        distances: &[
            distance(0, 1, 21),
            distance(0, 2, 28),
            distance(0, 3, 28),
            distance(1, 2, 17),
            distance(1, 3, 17),
            distance(2, 3, 24),
        ],
        declared: &[
            declared(0, 0, 100, 200),
            declared(1, 1, 100, 200),
            declared(1, 2, 250, 50),
            declared(1, 3, 250, 50),
        ],
        ..PLAIN
    },
    Topology {
        name: "cxl-node",
        summary: "a volatile CXL device whose region is a node, onlined as movable memory",
        cxl: &[CxlDevice::Volatile { mib: 512 }],
        declared: &[declared(0, 0, 100, 200), declared(0, 1, 180, 60)],
        setup: include_str!("setup/cxl-node.sh"),
        ..PLAIN
    },
    Topology {
        name: "cxl-dax",
        summary: "a volatile CXL device whose region stays a DAX device",
        cxl: &[CxlDevice::Volatile { mib: 256 }],
        declared: &[declared(0, 0, 100, 200), declared(0, 1, 180, 60)],
        setup: include_str!("setup/cxl-dax.sh"),
        ..PLAIN
    },
    Topology {
        name: "pmem",
        summary: "two NVDIMMs, one with a file system (fsdax) at /mnt, one as a DAX device; \
                  a persistent CXL device that no region uses",
        nvdimms_mib: &[256, 256],
        cxl: &[CxlDevice::Persistent { mib: 256 }],
        setup: include_str!("setup/pmem.sh"),
        ..PLAIN
    },
    Topology {
        name: "two-hosts",
        summary: "two machines over one CXL memory and one network, each with a disk at /mnt, and a folder /shared",
        cxl: &[CxlDevice::Volatile { mib: 256 }],
        disk_mib: Some(64),
        network: true,
        hosts: 2,
        setup: concat!(
            include_str!("setup/cxl-dax.sh"),
            include_str!("setup/disk.sh"),
            include_str!("setup/network.sh")
        ),
        ..PLAIN
    },
    Topology {
        name: "rdma-hosts",
        summary: "two machines on one network, with SoftRoCE over it, and a folder /shared",
        nodes: &[dram(1024, 2, 0)],
        network: true,
        hosts: 2,
        setup: concat!(
            include_str!("setup/network.sh"),
            include_str!("setup/rdma.sh")
        ),
        ..PLAIN
    },
    Topology {
        name: "odd-nodes",
        summary: "a small node, a socket without memory, and a node whose memory can go offline",
        // Linux numbers nodes with CPUs first.
        nodes: &[
            dram(1280, 2, 0),
            dram(0, 2, 1),
            cpuless(256, 0),
            cpuless(0, 0),
        ],
        module: Some(MemoryModule { mib: 256, node: 3 }),
        kernel_arguments: "memhp_default_state=online_movable",
        setup: include_str!("setup/odd-nodes.sh"),
        ..PLAIN
    },
];

/// The topology of that name.
///
/// # Errors
/// A message with the names that there are.
pub fn find(name: &str) -> anyhow::Result<&'static Topology> {
    let mut all = ALL.iter();
    all.find(|topology| topology.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|topology| topology.name).collect();
        anyhow::anyhow!(
            "no topology is named {name:?}; there are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn distances_are_told_for_all_pairs_or_none() {
        for topology in &ALL {
            let nodes = topology.nodes.len();
            let pairs = topology.distances.len();
            assert!(
                pairs == 0 || pairs == nodes * (nodes - 1) / 2,
                "{}",
                topology.name
            );
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<&str> = ALL.iter().map(|topology| topology.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(find("far-node").unwrap().nodes.len(), 2);
        let error = find("nowhere").unwrap_err().to_string();
        assert!(error.contains("one-node, far-node"), "{error}");
    }

    #[test]
    fn machines_of_one_emulated_cpu_are_not_declared() {
        // qemu leaves the lock prefix out where a machine can have one CPU only, which is wrong on
        // memory that two machines share.
        assert!(ALL.iter().all(|topology| topology.cpus() >= 2));
    }
}
