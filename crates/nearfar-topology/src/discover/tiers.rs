//! Grouping nodes of one performance class into tiers, and ordering them.

use std::ops::RangeInclusive;

use super::Machine;
use super::dax::{DaxDevice, onlining_note};
use super::nodes::{AccessClass, Node, NodeMemory};
use super::performance::{
    Declared, any_latency_ns, choose, cxl_latency_ns, holding_for, is_closest,
};
use crate::id_list::NodeId;
use crate::known::Known;
use crate::names::NEAR;
use crate::topology::{Device, Tier, TierKind, free_name};

/// Tiers from near to far, then the DAX devices that are not system RAM.
pub(super) fn build(machine: &Machine) -> Vec<Tier> {
    let local_ns = machine.node(machine.viewpoint).and_then(|node| {
        let declared = declared_of_node(machine, node, any_latency_ns());
        declared.performance.read_latency_ns.get()
    });
    let mut tiers: Vec<Tier> = Vec::new();
    for node in &machine.nodes {
        if let (true, Some(memory)) = (node.has_memory, node.memory) {
            add(&mut tiers, node_tier(machine, node, memory, local_ns));
        }
    }
    order(&mut tiers, machine.viewpoint, local_ns);
    name(&mut tiers);
    for dax in machine.dax.iter().filter(|dax| !is_online(machine, dax)) {
        tiers.push(dax_tier(machine, dax, local_ns));
    }
    tiers
}

/// Orders tiers from near to far.
///
/// The viewpoint's own memory comes first. The rank of another tier is its
/// declared read latency. Where firmware declares that of the near tier but not
/// of this one (a remote socket is declared for its own CPUs only), its distance
/// stands in: distances are latencies relative to local, which is 10. Where not
/// even the near tier has a declared latency, the rank is the distance alone.
/// CXL memory without a declared latency comes after every remote socket, since
/// its distance is often the kernel's default of 20 and says nothing. Equal ranks
/// are ordered by kind, then by node.
fn order(tiers: &mut [Tier], viewpoint: NodeId, local_ns: Option<f64>) {
    let latency_ns = |tier: &Tier| local_ns.and(tier.declared.read_latency_ns.get());
    let plain_rank = |tier: &Tier| {
        let distance = tier.distance.get().map_or(f64::INFINITY, f64::from);
        let by_distance = local_ns.map_or(distance, |local_ns| local_ns * distance / 10.0);
        latency_ns(tier).unwrap_or(by_distance)
    };
    let remote = tiers
        .iter()
        .filter(|tier| tier.kind == TierKind::RemoteSocket);
    let farthest_socket = remote.map(plain_rank).fold(0.0, f64::max);
    let rank = |tier: &Tier| match tier.kind {
        TierKind::Cxl if latency_ns(tier).is_none() => plain_rank(tier).max(farthest_socket),
        _ => plain_rank(tier),
    };
    let elsewhere = |tier: &Tier| !tier.nodes.contains(&viewpoint);
    tiers.sort_by(|a, b| {
        elsewhere(a)
            .cmp(&elsewhere(b))
            .then(rank(a).total_cmp(&rank(b)))
            .then(a.kind.cmp(&b.kind))
            .then(a.nodes.cmp(&b.nodes))
    });
}

/// Adds one node's tier, to the tier of its class where there is one.
fn add(tiers: &mut Vec<Tier>, node: Tier) {
    let same_class = |tier: &&mut Tier| {
        let numbers = |tier: &Tier| {
            let p = &tier.declared;
            [&p.read_latency_ns, &p.write_latency_ns].map(Known::get)
        };
        // Bandwidths of the group are sums; its first node's share is compared.
        let share = |tier: &Tier, bandwidth: &Known<f64>| {
            bandwidth
                .get()
                .map(|sum| (sum / tier.nodes.len() as f64).round())
        };
        let shares = |tier: &Tier| {
            let p = &tier.declared;
            [
                &p.read_bandwidth_bytes_per_s,
                &p.write_bandwidth_bytes_per_s,
            ]
            .map(|bandwidth| share(tier, bandwidth))
        };
        tier.kind == node.kind
            && tier.distance == node.distance
            && tier.memory_tier.get() == node.memory_tier.get()
            && numbers(tier) == numbers(&node)
            && shares(tier) == shares(&node)
    };
    match tiers.iter_mut().find(same_class) {
        Some(tier) => merge(tier, node),
        None => tiers.push(node),
    }
}

fn merge(tier: &mut Tier, node: Tier) {
    fn sum<T: Copy>(a: &Known<T>, b: &Known<T>, add: impl Fn(T, T) -> T) -> Known<T> {
        match (a.get(), b.get()) {
            (Some(a), Some(b)) => Known::Value(add(a, b)),
            (None, _) => a.clone(),
            (_, None) => b.clone(),
        }
    }
    tier.note = merge_notes(tier, &node);
    tier.capacity_bytes = sum(
        &tier.capacity_bytes,
        &node.capacity_bytes,
        u64::saturating_add,
    );
    tier.free_bytes = sum(&tier.free_bytes, &node.free_bytes, u64::saturating_add);
    let (declared, added) = (&mut tier.declared, node.declared);
    let bandwidth = |a: &Known<f64>, b: &Known<f64>| sum(a, b, |a, b| a + b);
    declared.read_bandwidth_bytes_per_s = bandwidth(
        &declared.read_bandwidth_bytes_per_s,
        &added.read_bandwidth_bytes_per_s,
    );
    declared.write_bandwidth_bytes_per_s = bandwidth(
        &declared.write_bandwidth_bytes_per_s,
        &added.write_bandwidth_bytes_per_s,
    );
    declared.source = match (declared.source.value(), added.source.value()) {
        (Some(a), Some(b)) => Known::Value(format!("{a}, {b}")),
        _ => declared.source.clone(),
    };
    tier.nodes.extend(node.nodes);
    for device in node.devices {
        if !tier.devices.contains(&device) {
            tier.devices.push(device);
        }
    }
}

/// The notes of both; what holds for some of the nodes only is told of them.
fn merge_notes(tier: &Tier, node: &Tier) -> Option<String> {
    let of = |tier: &Tier, note: &str| {
        let nodes: Vec<String> = tier.nodes.iter().map(NodeId::to_string).collect();
        format!("{}: {note}", nodes.join(" "))
    };
    let is_of_some = |note: &str| note.starts_with("node");
    match (tier.note.as_deref(), node.note.as_deref()) {
        (Some(a), Some(b)) if is_of_some(a) => Some(format!("{a}; {}", of(node, b))),
        (Some(a), Some(b)) if !a.contains(b) => Some(format!("{a}; {b}")),
        (Some(a), None) if !is_of_some(a) => Some(of(tier, a)),
        (Some(a), _) => Some(a.to_owned()),
        (None, Some(b)) => Some(of(node, b)),
        (None, None) => None,
    }
}

fn node_tier(machine: &Machine, node: &Node, memory: NodeMemory, local_ns: Option<f64>) -> Tier {
    let kind = kind(machine, node);
    let possible_ns = if kind == TierKind::Cxl {
        cxl_latency_ns(local_ns)
    } else {
        any_latency_ns()
    };
    let Declared {
        performance,
        remarks,
    } = declared_of_node(machine, node, possible_ns);
    let mut notes = remarks;
    if node.movable_only {
        notes.insert(
            0,
            "movable memory only: the kernel keeps nothing of its own there".to_owned(),
        );
    }
    let viewpoint = machine.node(machine.viewpoint);
    let distance = viewpoint.and_then(|from| from.distances.get(&node.id).copied());
    Tier {
        name: String::new(),
        kind,
        nodes: vec![node.id],
        capacity_bytes: Known::Value(memory.total_bytes),
        free_bytes: Known::Value(memory.free_bytes),
        distance: match distance {
            Some(distance) => Known::Value(distance),
            None => Known::unavailable(format!("{} tells no distances", machine.viewpoint)),
        },
        memory_tier: node.memory_tier.clone(),
        declared: performance,
        devices: devices(machine, node.id),
        allocatable: true,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

fn declared_of_node(machine: &Machine, node: &Node, possible_ns: RangeInclusive<f64>) -> Declared {
    let regions = machine
        .regions
        .iter()
        .filter(|region| region.node == Some(node.id));
    let of_regions: Vec<&AccessClass> = regions.flat_map(|region| &region.access).collect();
    let viewpoint = machine.viewpoint;
    let mut classes = holding_for(&node.access, node.id, viewpoint, &machine.nodes);
    // A region names no initiators: its numbers hold for the closest CPUs.
    if is_closest(node.id, viewpoint, &machine.nodes) {
        classes.extend(&of_regions);
    }
    let gap = if node.access.is_empty() && of_regions.is_empty() {
        format!("firmware declares nothing for {} (no HMAT)", node.id)
    } else if classes.is_empty() {
        format!(
            "{} is declared for CPUs closer to it only, not for {viewpoint}'s",
            node.id
        )
    } else {
        format!("not declared for {}", node.id)
    };
    choose(&classes, &gap, possible_ns)
}

fn kind(machine: &Machine, node: &Node) -> TierKind {
    if !node.cpus.is_empty() {
        let socket_of = |node: &Node| {
            let cpu = node.cpus.first()?;
            machine
                .sockets
                .iter()
                .find(|s| s.cpus.contains(cpu))
                .map(|s| s.id)
        };
        let here = machine.node(machine.viewpoint).and_then(socket_of);
        let same_socket = here.is_some() && socket_of(node) == here;
        return match node.id == machine.viewpoint || same_socket {
            true => TierKind::LocalDram,
            false => TierKind::RemoteSocket,
        };
    }
    let backed = machine
        .regions
        .iter()
        .any(|region| region.node == Some(node.id));
    if backed {
        TierKind::Cxl
    } else {
        TierKind::CpulessNode
    }
}

/// Devices behind a node: its regions with their memory devices, and the DAX
/// devices that became it.
fn devices(machine: &Machine, node: NodeId) -> Vec<Device> {
    let regions = machine
        .regions
        .iter()
        .filter(|region| region.node == Some(node));
    let mut devices: Vec<Device> = regions.flat_map(|region| region.devices.clone()).collect();
    let onlined = machine
        .dax
        .iter()
        .filter(|dax| dax.target_node == Some(node));
    devices.extend(
        onlined
            .filter(|dax| dax.is_kmem())
            .map(|dax| dax.device.clone()),
    );
    devices
}

/// Whether a DAX device's memory is a node that can be allocated from.
fn is_online(machine: &Machine, dax: &DaxDevice) -> bool {
    let node = dax.target_node.and_then(|id| machine.node(id));
    dax.is_kmem() && node.is_some_and(|node| node.has_memory)
}

fn dax_tier(machine: &Machine, dax: &DaxDevice, local_ns: Option<f64>) -> Tier {
    let region = machine
        .regions
        .iter()
        .find(|region| region.dax.contains(&dax.device.name));
    let classes: Vec<&AccessClass> = region.iter().flat_map(|region| &region.access).collect();
    let gap = "nothing is declared for this DAX device";
    let declared = choose(&classes, gap, cxl_latency_ns(local_ns));
    let mut devices = region.map_or_else(Vec::new, |region| region.devices.clone());
    devices.push(dax.device.clone());
    let mut notes = vec![onlining_note(dax, machine.auto_online.as_deref())];
    notes.extend(declared.remarks);
    let reason = "not a node until it is onlined";
    Tier {
        name: dax.device.name.clone(),
        kind: TierKind::Dax,
        nodes: Vec::new(),
        capacity_bytes: dax.device.size_bytes.clone(),
        free_bytes: Known::unavailable(reason),
        distance: Known::unavailable(reason),
        memory_tier: Known::unavailable(reason),
        declared: declared.performance,
        devices,
        allocatable: false,
        note: Some(notes.join("; ")),
    }
}

/// Gives each tier its name: `near`, then by kind, numbered from the second on.
fn name(tiers: &mut [Tier]) {
    for index in 0..tiers.len() {
        let base = match tiers[index].kind {
            _ if index == 0 => NEAR,
            TierKind::LocalDram => "local",
            TierKind::RemoteSocket => "remote",
            TierKind::Cxl => "cxl",
            TierKind::CpulessNode => "cpuless",
            TierKind::Dax | TierKind::Rdma | TierKind::Modelled => {
                unreachable!("not built from a node")
            }
        };
        let taken = |name: &str| tiers[..index].iter().any(|tier| tier.name == name);
        tiers[index].name = free_name(base, taken);
    }
}
