//! The tiers of a machine, ordered from near to far.

use std::fmt;

use serde::Serialize;

use crate::id_list::{IdList, NodeId};
use crate::known::Known;
use crate::names::{self, FAR, NamedTier, Place, UnknownTier};

/// What a tier's memory is.
///
/// The order of the variants is the order of tiers of which nothing else is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierKind {
    /// Memory of the socket the machine is looked at from.
    LocalDram,
    /// Memory of another socket.
    RemoteSocket,
    /// A node without CPUs that no CXL region backs: HBM, persistent memory as
    /// system RAM, a virtual machine's second node.
    CpulessNode,
    /// A node without CPUs that a CXL region backs.
    Cxl,
    /// A DAX device that is not system RAM: memory that the kernel does not allocate, and a program can
    /// map.
    Dax,
    /// Memory of another host that is read and written by RDMA verbs, never by loads and stores. No machine's sysfs
    /// tells of it: whoever connects to the host adds it.
    Rdma,
    /// A tier of a [`Profile`](crate::Profile), backed by the near tier's nodes.
    Modelled,
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::LocalDram => "local-dram",
            Self::RemoteSocket => "remote-socket",
            Self::CpulessNode => "cpuless-node",
            Self::Cxl => "cxl",
            Self::Dax => "dax",
            Self::Rdma => "rdma",
            Self::Modelled => "modelled",
        })
    }
}

/// Latency and bandwidth of a tier as declared (by firmware, by a CXL device, or
/// by the profile of a modelled tier), never as measured.
///
/// Latencies are those of one node. Bandwidths are sums over the tier's nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Performance {
    /// Latency of a read in nanoseconds.
    pub read_latency_ns: Known<f64>,
    /// Latency of a write in nanoseconds.
    pub write_latency_ns: Known<f64>,
    /// Read bandwidth in bytes per second.
    pub read_bandwidth_bytes_per_s: Known<f64>,
    /// Write bandwidth in bytes per second.
    pub write_bandwidth_bytes_per_s: Known<f64>,
    /// Where the numbers come from: the sysfs folders read, in the order of
    /// preference, or the profile's name.
    pub source: Known<String>,
}

impl Performance {
    /// Nothing is declared, for this reason.
    pub fn unavailable(reason: &str) -> Self {
        let gap = || Known::unavailable(reason.to_owned());
        Self {
            read_latency_ns: gap(),
            write_latency_ns: gap(),
            read_bandwidth_bytes_per_s: gap(),
            write_bandwidth_bytes_per_s: gap(),
            source: Known::unavailable(reason.to_owned()),
        }
    }
}

/// What a [`Device`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A CXL memory device, `mem<N>`.
    CxlMemory,
    /// A CXL region, `region<N>`: address space interleaved over memory devices.
    CxlRegion,
    /// A DAX device, `dax<N>.<M>`.
    Dax,
}

/// A device that backs a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The kernel's name, such as `mem0`, `region0` or `dax0.0`.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its size; of a memory device, volatile and persistent memory together.
    pub size_bytes: Known<u64>,
    /// Physical address of its first byte. Often only the superuser may read it.
    pub resource: Known<u64>,
    /// Driver bound to it.
    pub driver: Known<String>,
}

/// A set of memory with one performance class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// Unique name: `near` for the first tier, else from its kind (`remote`,
    /// `cxl`, `cpuless`, with `-2`, `-3`... where there are several), the
    /// device's name for DAX, `far` for a modelled one.
    pub name: String,
    /// What the memory is.
    pub kind: TierKind,
    /// Kernel nodes that back it, ascending. Empty for a DAX device that is not
    /// system RAM; the near tier's nodes for a modelled tier.
    pub nodes: Vec<NodeId>,
    /// Memory in all.
    pub capacity_bytes: Known<u64>,
    /// Memory that was free when the topology was read.
    pub free_bytes: Known<u64>,
    /// Distance from the viewpoint as firmware gives it (10 is local).
    pub distance: Known<u32>,
    /// The kernel's memory tier, lower is faster
    /// (`/sys/devices/virtual/memory_tiering/memory_tier<N>`).
    pub memory_tier: Known<u32>,
    /// Declared latency and bandwidth.
    pub declared: Performance,
    /// Devices behind it, where they are known.
    pub devices: Vec<Device>,
    /// Whether the kernel allocates on it: pages can be put there by binding to its nodes. Of a DAX
    /// device that can be mapped instead, see [`Tier::mappable_device`].
    pub allocatable: bool,
    /// What a user should know of this tier, such as how to bring it online.
    pub note: Option<String>,
}

/// Driver that gives a DAX device a file below `/dev` to be mapped.
pub(crate) const DEVICE_DAX: &str = "device_dax";

impl Tier {
    /// The DAX device whose memory is mapped where this tier is named, since the kernel does not
    /// allocate on it: one in mode devdax, of the same name below `/dev`.
    pub fn mappable_device(&self) -> Option<&Device> {
        let is_mappable = |device: &&Device| {
            let driver = device.driver.value();
            device.kind == DeviceKind::Dax && driver.is_some_and(|driver| driver == DEVICE_DAX)
        };
        let mut devices = self.devices.iter().filter(|_| !self.allocatable);
        devices.find(is_mappable)
    }
}

/// One CPU package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Socket {
    /// The package's number.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: IdList,
}

/// Something this machine has not, or does not say, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// What is unavailable: a node, a device, an attribute.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// The memory of a machine, ordered from near to far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    /// Tiers from near to far; the first is named `near`.
    pub tiers: Vec<Tier>,
    /// Online CPUs.
    pub cpus: IdList,
    /// CPU packages; empty where the machine does not name them.
    pub sockets: Vec<Socket>,
    /// Node from whose CPUs tiers are ordered.
    pub viewpoint: NodeId,
    /// Size of the last-level cache of the viewpoint's first CPU.
    pub last_level_cache_bytes: Known<u64>,
    /// What is not there, and why.
    pub unavailable: Vec<Unavailable>,
}

impl Topology {
    /// The tier of that name, which [`names`] explains.
    ///
    /// # Errors
    /// [`UnknownTier`] where no tier has that name, or where `far` is asked for
    /// and only one tier can be allocated from.
    pub fn tier(&self, name: &str) -> Result<&Tier, UnknownTier> {
        self.tier_index(name).map(|index| &self.tiers[index])
    }

    /// Position in [`Topology::tiers`] of the tier of that name; see
    /// [`Topology::tier`].
    ///
    /// # Errors
    /// As [`Topology::tier`].
    pub fn tier_index(&self, name: &str) -> Result<usize, UnknownTier> {
        let tiers = self.named_tiers();
        match names::find(&tiers, name)? {
            Place {
                tier,
                devices: None,
            } => Ok(tier),
            _ => Err(UnknownTier {
                name: name.to_owned(),
                known: names::known(&tiers),
            }),
        }
    }

    fn named_tiers(&self) -> Vec<NamedTier<'_>> {
        let tiers = self.tiers.iter();
        let named = tiers.map(|tier| {
            // The nodes behind a modelled tier are the near tier's, and go by that.
            let nodes: Vec<u32> = match tier.kind {
                TierKind::Modelled => Vec::new(),
                _ => tier.nodes.iter().map(|node| node.0).collect(),
            };
            NamedTier {
                name: &tier.name,
                is_allocatable: tier.allocatable,
                devices: nodes.len(),
                nodes,
            }
        });
        named.collect()
    }

    /// Every name that [`Topology::tier`] accepts.
    pub fn tier_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tiers.iter().map(|tier| tier.name.clone()).collect();
        if !names.iter().any(|name| name == FAR) && self.tier(FAR).is_ok() {
            names.push(FAR.to_owned());
        }
        names
    }
}

/// `base`, with a number behind it from the second tier of that name on.
pub(crate) fn free_name(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}
