//! From a sysfs to a [`Topology`].

mod cpus;
mod cxl;
mod dax;
mod nodes;
mod performance;
mod tiers;

use std::path::Path;

use self::nodes::Node;
use crate::error::DiscoverError;
use crate::id_list::{IdList, NodeId};
use crate::sysfs::Sysfs;
use crate::topology::{Topology, Unavailable};

pub(crate) const NODES: &str = "devices/system/node";

impl Topology {
    /// Reads the memory of the machine whose sysfs is mounted at `sysfs_root`.
    ///
    /// Tiers are ordered as the CPUs of the first node that has any see them.
    ///
    /// # Errors
    /// [`DiscoverError`] where there are no nodes with memory, or where a file
    /// cannot be read or holds what the kernel never writes. What is merely
    /// absent is no error: it becomes an [`Unavailable`] or a
    /// [`Known::Unavailable`](crate::Known::Unavailable).
    pub fn discover(sysfs_root: &Path) -> Result<Self, DiscoverError> {
        discover(&Sysfs::new(sysfs_root), None)
    }

    /// As [`Topology::discover`], ordered as the CPUs of `viewpoint` see it.
    ///
    /// # Errors
    /// As [`Topology::discover`]; [`DiscoverError::BadViewpoint`] where that node
    /// is not there or has no CPUs.
    pub fn discover_from(sysfs_root: &Path, viewpoint: NodeId) -> Result<Self, DiscoverError> {
        discover(&Sysfs::new(sysfs_root), Some(viewpoint))
    }

    /// Reads the memory of the machine this runs on, from `/sys`.
    ///
    /// # Errors
    /// As [`Topology::discover`].
    pub fn this_machine() -> Result<Self, DiscoverError> {
        Self::discover(Path::new("/sys"))
    }
}

/// Everything read from a sysfs, before it is made into tiers.
struct Machine {
    nodes: Vec<Node>,
    viewpoint: NodeId,
    sockets: Vec<crate::topology::Socket>,
    regions: Vec<cxl::Region>,
    dax: Vec<dax::DaxDevice>,
    /// What the kernel lets be onlined by itself, where it says.
    auto_online: Option<String>,
}

impl Machine {
    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }
}

fn discover(sysfs: &Sysfs, viewpoint: Option<NodeId>) -> Result<Topology, DiscoverError> {
    let nodes = nodes::read(sysfs)?;
    if nodes.is_empty() {
        return Err(DiscoverError::NoNodes {
            path: sysfs.path(NODES),
        });
    }
    let viewpoint = choose_viewpoint(&nodes, viewpoint)?;
    let mut unavailable = Vec::new();
    let dax = dax::read(sysfs, &mut unavailable)?;
    let regions = cxl::read(sysfs, &nodes, &dax, &mut unavailable)?;
    let auto_online = sysfs.parse(
        "devices/system/memory/auto_online_blocks",
        "a policy such as offline or online_movable",
        |text| {
            let word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            (!text.is_empty() && text.bytes().all(word)).then(|| text.to_owned())
        },
    )?;
    let sockets = cpus::sockets(sysfs)?;
    let machine = Machine {
        nodes,
        viewpoint,
        sockets,
        regions,
        dax,
        auto_online,
    };
    nodes::report_gaps(sysfs, &machine.nodes, &mut unavailable)?;
    let tiers = tiers::build(&machine);
    if !tiers.iter().any(|tier| tier.allocatable) {
        return Err(DiscoverError::NoMemory {
            path: sysfs.path(NODES),
        });
    }
    let first_cpu = machine
        .node(viewpoint)
        .and_then(|node| node.cpus.first())
        .unwrap_or(0);
    let topology = Topology {
        tiers,
        cpus: all_cpus(&machine.nodes),
        sockets: machine.sockets,
        viewpoint,
        last_level_cache_bytes: cpus::last_level_cache_bytes(sysfs, first_cpu)?,
        unavailable: sorted(unavailable),
    };
    tracing::debug!(tiers = topology.tiers.len(), %viewpoint, "read the memory topology");
    Ok(topology)
}

/// The node asked for, else the first with CPUs, else (no node says where its
/// CPUs are) the first.
fn choose_viewpoint(nodes: &[Node], asked: Option<NodeId>) -> Result<NodeId, DiscoverError> {
    let with_cpus: Vec<NodeId> = nodes
        .iter()
        .filter(|node| !node.cpus.is_empty())
        .map(|node| node.id)
        .collect();
    match asked {
        Some(node) if with_cpus.contains(&node) => Ok(node),
        Some(viewpoint) => Err(DiscoverError::BadViewpoint {
            viewpoint,
            with_cpus,
        }),
        None => Ok(with_cpus.first().copied().unwrap_or(nodes[0].id)),
    }
}

fn all_cpus(nodes: &[Node]) -> IdList {
    nodes
        .iter()
        .fold(IdList::default(), |all, node| all.union(&node.cpus))
}

fn sorted(mut unavailable: Vec<Unavailable>) -> Vec<Unavailable> {
    unavailable.sort_by(|a, b| a.what.cmp(&b.what));
    unavailable
}
