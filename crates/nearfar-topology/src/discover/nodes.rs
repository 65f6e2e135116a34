//! NUMA nodes: CPUs, memory, distances, access classes and the kernel's tiers.

use std::collections::BTreeMap;

use super::NODES;
use crate::error::DiscoverError;
use crate::id_list::{IdList, NodeId};
use crate::known::Known;
use crate::sysfs::{Sysfs, parse_decimal};
use crate::topology::Unavailable;

const MEMORY_TIERS: &str = "devices/virtual/memory_tiering";

/// Memory of a node, as its `meminfo` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NodeMemory {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// One access class of a node, or of a CXL region: what firmware declares for
/// the initiators that reach it best.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccessClass {
    /// Where it was read, such as `node1/access0`.
    pub source: String,
    /// Nodes it holds for. Empty where the kernel names none: then it holds for
    /// the closest nodes with CPUs.
    pub initiators: Vec<NodeId>,
    pub read_latency_ns: Option<u64>,
    pub write_latency_ns: Option<u64>,
    pub read_bandwidth_mib_per_s: Option<u64>,
    pub write_bandwidth_mib_per_s: Option<u64>,
}

/// One online node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub id: NodeId,
    pub cpus: IdList,
    /// `None` where the node has no `meminfo`.
    pub memory: Option<NodeMemory>,
    /// Whether pages can be allocated on it.
    pub has_memory: bool,
    /// Whether all of its memory is movable, so that the kernel keeps nothing of
    /// its own there.
    pub movable_only: bool,
    /// Distance of its CPUs to each node; empty where it is not told.
    pub distances: BTreeMap<NodeId, u32>,
    pub access: Vec<AccessClass>,
    pub memory_tier: Known<u32>,
}

/// The online nodes, ascending.
pub(super) fn read(sysfs: &Sysfs) -> Result<Vec<Node>, DiscoverError> {
    let ids: Vec<NodeId> = sysfs
        .numbered(NODES, "node")?
        .into_iter()
        .map(NodeId)
        .collect();
    let list = |file: &str| sysfs.parse(&format!("{NODES}/{file}"), LIST, IdList::parse);
    let has_memory = list("has_memory")?;
    let has_normal_memory = list("has_normal_memory")?;
    let memory_tiers = read_memory_tiers(sysfs)?;
    let mut nodes = Vec::with_capacity(ids.len());
    for &id in &ids {
        let folder = format!("{NODES}/node{}", id.0);
        let memory = sysfs.parse(
            &format!("{folder}/meminfo"),
            "lines with MemTotal and MemFree in kB",
            |text| parse_meminfo(text, id),
        )?;
        let total_bytes = memory.map_or(0, |memory| memory.total_bytes);
        let listed = has_memory.as_ref().is_none_or(|list| list.contains(id.0));
        nodes.push(Node {
            id,
            cpus: sysfs
                .parse(&format!("{folder}/cpulist"), LIST, IdList::parse)?
                .unwrap_or_default(),
            memory,
            has_memory: listed && total_bytes > 0,
            movable_only: has_normal_memory
                .as_ref()
                .is_some_and(|list| !list.contains(id.0)),
            distances: read_distances(sysfs, &folder, &ids)?,
            access: read_access_classes(sysfs, &folder, id)?,
            memory_tier: memory_tier_of(&memory_tiers, id),
        });
    }
    Ok(nodes)
}

const LIST: &str = "a list of numbers such as 0-3,8";

/// `MemTotal` and `MemFree` of a node's `meminfo`, whose lines read
/// `Node 0 MemTotal:  5334816 kB`.
fn parse_meminfo(text: &str, node: NodeId) -> Option<NodeMemory> {
    let bytes_of = |key: &str| {
        text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["Node", id, name, kib, "kB"] if name == key && id == node.0.to_string() => {
                    parse_decimal::<u64>(kib)?.checked_mul(1024)
                }
                _ => None,
            }
        })
    };
    let memory = NodeMemory {
        total_bytes: bytes_of("MemTotal:")?,
        free_bytes: bytes_of("MemFree:")?,
    };
    (memory.free_bytes <= memory.total_bytes).then_some(memory)
}

/// A node's row of distances, one per online node in ascending order.
fn read_distances(
    sysfs: &Sysfs,
    folder: &str,
    ids: &[NodeId],
) -> Result<BTreeMap<NodeId, u32>, DiscoverError> {
    let row = sysfs.parse(
        &format!("{folder}/distance"),
        "one distance from 1 to 255 per online node",
        |text| {
            let row: Option<Vec<u32>> = text
                .split_ascii_whitespace()
                .map(|word| parse_decimal(word).filter(|distance| (1..=255).contains(distance)))
                .collect();
            row.filter(|row| row.len() == ids.len())
        },
    )?;
    Ok(ids.iter().copied().zip(row.unwrap_or_default()).collect())
}

/// Classes 0 (best initiator of any kind) and 1 (best initiator with CPUs).
fn read_access_classes(
    sysfs: &Sysfs,
    folder: &str,
    id: NodeId,
) -> Result<Vec<AccessClass>, DiscoverError> {
    let mut classes = Vec::new();
    for class in sysfs.numbered(folder, "access")? {
        let initiators = format!("{folder}/access{class}/initiators");
        let source = format!("node{}/access{class}", id.0);
        let mut read = read_access(sysfs, &initiators, source)?;
        read.initiators = sysfs
            .numbered(&initiators, "node")?
            .into_iter()
            .map(NodeId)
            .collect();
        classes.push(read);
    }
    Ok(classes)
}

/// The four numbers of an access class in `folder`.
pub(super) fn read_access(
    sysfs: &Sysfs,
    folder: &str,
    source: String,
) -> Result<AccessClass, DiscoverError> {
    let number = |name: &str, expected| {
        sysfs.parse::<u64>(&format!("{folder}/{name}"), expected, parse_decimal)
    };
    const LATENCY: &str = "a latency in nanoseconds";
    const BANDWIDTH: &str = "a bandwidth in MiB/s";
    Ok(AccessClass {
        source,
        initiators: Vec::new(),
        read_latency_ns: number("read_latency", LATENCY)?,
        write_latency_ns: number("write_latency", LATENCY)?,
        read_bandwidth_mib_per_s: number("read_bandwidth", BANDWIDTH)?,
        write_bandwidth_mib_per_s: number("write_bandwidth", BANDWIDTH)?,
    })
}

/// The kernel's memory tiers; `None` where the kernel has no such folder.
fn read_memory_tiers(sysfs: &Sysfs) -> Result<Option<Vec<(u32, IdList)>>, DiscoverError> {
    if !sysfs.exists(MEMORY_TIERS) {
        return Ok(None);
    }
    let mut tiers = Vec::new();
    for tier in sysfs.numbered(MEMORY_TIERS, "memory_tier")? {
        let file = format!("{MEMORY_TIERS}/memory_tier{tier}/nodelist");
        if let Some(nodes) = sysfs.parse(&file, LIST, IdList::parse)? {
            tiers.push((tier, nodes));
        }
    }
    Ok(Some(tiers))
}

fn memory_tier_of(tiers: &Option<Vec<(u32, IdList)>>, node: NodeId) -> Known<u32> {
    let Some(tiers) = tiers else {
        return Known::unavailable("this kernel has no memory tiers");
    };
    match tiers.iter().find(|(_, nodes)| nodes.contains(node.0)) {
        Some((tier, _)) => Known::Value(*tier),
        None => Known::unavailable(format!("no memory tier lists {node}")),
    }
}

/// Lists the nodes that are no tier, and why.
pub(super) fn report_gaps(
    sysfs: &Sysfs,
    nodes: &[Node],
    unavailable: &mut Vec<Unavailable>,
) -> Result<(), DiscoverError> {
    for node in nodes.iter().filter(|node| !node.has_memory) {
        let reason = match node.memory {
            None => "has no meminfo".to_owned(),
            Some(NodeMemory { total_bytes: 0, .. }) => "has no memory".to_owned(),
            Some(NodeMemory { total_bytes, .. }) => {
                format!("has {total_bytes} bytes, but the kernel's has_memory does not list it")
            }
        };
        unavailable.push(Unavailable {
            what: node.id.to_string(),
            reason,
        });
    }
    let possible = sysfs.parse(&format!("{NODES}/possible"), LIST, IdList::parse)?;
    let possible = possible.unwrap_or_default();
    let absent = possible.len().saturating_sub(nodes.len() as u64);
    if absent > 0 {
        let online = IdList::from_ids(nodes.iter().map(|node| node.id.0));
        unavailable.push(Unavailable {
            what: format!("{absent} of the possible nodes {possible}"),
            reason: format!("only {online} are online; the others appear when memory is added"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_gives_bytes() {
        let text = "Node 1 MemTotal:  2048 kB\nNode 1 MemFree:  1024 kB\nNode 1 HugePages_Total: 0";
        let memory = NodeMemory {
            total_bytes: 2 << 20,
            free_bytes: 1 << 20,
        };
        assert_eq!(parse_meminfo(text, NodeId(1)), Some(memory));
    }

    #[test]
    fn meminfo_of_another_node_or_of_nonsense_is_refused() {
        let cases = [
            "Node 0 MemTotal: 2 kB\nNode 0 MemFree: 1 kB",
            "Node 1 MemTotal: 2 kB",
            "Node 1 MemTotal: 2 kB\nNode 1 MemFree: 3 kB",
            "Node 1 MemTotal: -2 kB\nNode 1 MemFree: 1 kB",
            "Node 1 MemTotal: 18446744073709551615 kB\nNode 1 MemFree: 1 kB",
            "",
        ];
        for text in cases {
            assert_eq!(parse_meminfo(text, NodeId(1)), None, "{text:?}");
        }
    }
}
