//! The parts of a virtual machine.

/// One virtual machine, or two of the same.
#[derive(Debug, Clone, Copy)]
pub struct Topology {
    /// What it is called on the command line; with `_` for `-`, the module of its tests.
    pub name: &'static str,
    /// What it stands for, in a line.
    pub summary: &'static str,
    /// Its nodes, by number.
    pub nodes: &'static [Node],
    /// Distances between nodes, in both directions; all pairs, or none.
    pub distances: &'static [Distance],
    /// Latencies and bandwidths that firmware declares (HMAT); none for a machine without the table.
    pub declared: &'static [Declared],
    /// CXL memory devices (Type 3), each behind a root port of its own.
    pub cxl: &'static [CxlDevice],
    /// Sizes of NVDIMMs in MiB.
    pub nvdimms_mib: &'static [u32],
    /// A memory module in a slot, which can be taken offline.
    pub module: Option<MemoryModule>,
    /// Size in MiB of an NVMe disk.
    pub disk_mib: Option<u32>,
    /// Whether there is a network card. It reaches the other host where there are two, else nothing.
    pub network: bool,
    /// How many such machines there are. Two have the memory of their CXL devices in common, a network if they have
    /// cards, and a folder, `/shared`.
    pub hosts: u8,
    /// More arguments of the kernel.
    pub kernel_arguments: &'static str,
    /// Guest shell lines that bring the memory into use; see `init.sh` for the words it has.
    pub setup: &'static str,
}

/// A NUMA node.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// Its memory; 0 for none.
    pub memory_mib: u32,
    /// How many CPUs it has.
    pub cpus: u8,
    /// The node whose CPUs are closest to its memory.
    pub initiator: u8,
}

/// A distance between two nodes as firmware gives it: local is 10.
#[derive(Debug, Clone, Copy)]
pub struct Distance {
    pub nodes: (u8, u8),
    pub distance: u8,
}

/// What firmware declares of a node's memory, for the CPUs of its initiator.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    pub initiator: u8,
    pub target: u8,
    pub latency_ns: u32,
    pub bandwidth_gib_per_s: u32,
}

/// A CXL memory device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CxlDevice {
    /// Whose content is lost without power.
    Volatile { mib: u32 },
    /// Whose content stays.
    Persistent { mib: u32 },
}

/// Memory in a slot, of a node of its own.
#[derive(Debug, Clone, Copy)]
pub struct MemoryModule {
    pub mib: u32,
    pub node: u8,
}

impl Topology {
    /// Memory that the machine has at the start, without devices and modules.
    pub fn memory_mib(&self) -> u32 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// All CPUs.
    pub fn cpus(&self) -> u8 {
        self.nodes.iter().map(|node| node.cpus).sum()
    }

    /// Nodes that have CPUs; each is a socket.
    pub fn sockets(&self) -> u8 {
        self.nodes.iter().filter(|node| node.cpus > 0).count() as u8
    }
}
