//! The CXL bus: regions, the memory devices they interleave, and the nodes they
//! back.

use super::NODES;
use super::dax::DaxDevice;
use super::nodes::{AccessClass, Node, read_access};
use crate::error::DiscoverError;
use crate::id_list::NodeId;
use crate::known::Known;
use crate::sysfs::{Sysfs, parse_decimal, parse_hex, parse_integer};
use crate::topology::{Device, DeviceKind, Unavailable};

const CXL: &str = "bus/cxl/devices";

/// A CXL region that backs a node or a DAX device.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub name: String,
    /// The region itself, then the memory devices behind it.
    pub devices: Vec<Device>,
    /// Node that its memory is; `None` while it is a DAX device only.
    pub node: Option<NodeId>,
    /// Names of the DAX devices in it.
    pub dax: Vec<String>,
    pub access: Vec<AccessClass>,
}

/// The regions in use; what lies idle is reported.
pub(super) fn read(
    sysfs: &Sysfs,
    nodes: &[Node],
    dax: &[DaxDevice],
    unavailable: &mut Vec<Unavailable>,
) -> Result<Vec<Region>, DiscoverError> {
    if !sysfs.exists(CXL) {
        let reason = "this machine has no CXL memory, or its kernel does not support it";
        unavailable.push(Unavailable {
            what: "CXL bus".to_owned(),
            reason: reason.to_owned(),
        });
        return Ok(Vec::new());
    }
    let memory_devices = read_memory_devices(sysfs)?;
    let mut regions = Vec::new();
    for number in sysfs.numbered(CXL, "region")? {
        let name = format!("region{number}");
        let region = read_region(sysfs, name, &memory_devices, nodes, dax)?;
        if region.node.is_none() && region.dax.is_empty() {
            let reason = "backs neither a node nor a DAX device: not committed, or persistent \
                          memory in another use";
            unavailable.push(Unavailable {
                what: region.name,
                reason: reason.to_owned(),
            });
            continue;
        }
        regions.push(region);
    }
    for device in memory_devices {
        let used = |region: &Region| region.devices.iter().any(|used| used.name == device.name);
        if !regions.iter().any(used) {
            let reason = "its memory is in no region in use: create one with `cxl create-region`";
            unavailable.push(Unavailable {
                what: device.name,
                reason: reason.to_owned(),
            });
        }
    }
    Ok(regions)
}

fn read_memory_devices(sysfs: &Sysfs) -> Result<Vec<Device>, DiscoverError> {
    let mut devices = Vec::new();
    for number in sysfs.numbered(CXL, "mem")? {
        let folder = format!("{CXL}/mem{number}");
        let size = |part: &str| {
            sysfs.parse_known(
                &format!("{folder}/{part}/size"),
                "a size in bytes",
                parse_integer,
            )
        };
        let size_bytes = match (size("ram")?, size("pmem")?) {
            (Known::Value(ram), Known::Value(pmem)) => Known::Value(ram.saturating_add(pmem)),
            (ram, pmem) => {
                if ram.is_known() {
                    ram
                } else {
                    pmem
                }
            }
        };
        devices.push(Device {
            name: format!("mem{number}"),
            kind: DeviceKind::CxlMemory,
            size_bytes,
            resource: Known::unavailable("a region has the address, not its devices"),
            driver: sysfs.driver(&folder),
        });
    }
    Ok(devices)
}

fn read_region(
    sysfs: &Sysfs,
    name: String,
    memory_devices: &[Device],
    nodes: &[Node],
    dax: &[DaxDevice],
) -> Result<Region, DiscoverError> {
    let folder = format!("{CXL}/{name}");
    let attribute = |file: &str, expected| {
        sysfs.parse_known(&format!("{folder}/{file}"), expected, parse_integer)
    };
    let size_bytes = attribute("size", "a size in bytes")?;
    let resource = attribute("resource", "a physical address")?;
    let mut access = Vec::new();
    // Class 1 is that of the closest CPUs; class 0 may be another initiator's.
    for class in sysfs.numbered(&folder, "access")?.into_iter().rev() {
        let source = format!("{name}/access{class}");
        access.push(read_access(
            sysfs,
            &format!("{folder}/access{class}"),
            source,
        )?);
    }
    let region = Device {
        name: name.clone(),
        kind: DeviceKind::CxlRegion,
        size_bytes,
        resource,
        driver: sysfs.driver(&folder),
    };
    let dax: Vec<&DaxDevice> = dax.iter().filter(|dax| lies_in(dax, &region)).collect();
    let node = find_node(sysfs, &region, nodes, &dax)?;
    let dax = dax.iter().map(|dax| dax.device.name.clone()).collect();
    let mut devices = vec![region];
    for target in sysfs.numbered(&folder, "target")? {
        let file = format!("{folder}/target{target}");
        let decoder = sysfs.parse(&file, "the name of a decoder, or nothing", |text| {
            Some(text.to_owned())
        })?;
        let memory = decoder.and_then(|decoder| memory_device_of(sysfs, &decoder));
        let memory = memory.and_then(|name| memory_devices.iter().find(|dev| dev.name == name));
        devices.extend(memory.filter(|dev| !devices.contains(dev)).cloned());
    }
    Ok(Region {
        name,
        devices,
        node,
        dax,
        access,
    })
}

/// The memory device whose endpoint has this decoder: `decoder5.0` is a folder of
/// `endpoint5`, whose link `uport` names the device.
fn memory_device_of(sysfs: &Sysfs, decoder: &str) -> Option<String> {
    if decoder.contains('/') || !decoder.starts_with("decoder") {
        return None;
    }
    let parts = sysfs.real_parts(&format!("{CXL}/{decoder}"));
    let endpoint = parts.iter().rev().nth(1)?;
    sysfs.link_name(&format!("{CXL}/{endpoint}/uport"))
}

/// Whether a DAX device's memory is the region's: by its place among the devices,
/// or (of persistent memory, which sits on an NVDIMM bus) by its address.
fn lies_in(dax: &DaxDevice, region: &Device) -> bool {
    if let Some(name) = &dax.region {
        return *name == region.name;
    }
    match (
        dax.device.resource.get(),
        region.resource.get(),
        region.size_bytes.get(),
    ) {
        (Some(address), Some(start), Some(size)) => address
            .checked_sub(start)
            .is_some_and(|offset| offset < size),
        _ => false,
    }
}

/// The node a region backs: that of its DAX device once it is system RAM, else
/// (firmware mapped it) the node with a memory block at its address.
fn find_node(
    sysfs: &Sysfs,
    region: &Device,
    nodes: &[Node],
    dax: &[&DaxDevice],
) -> Result<Option<NodeId>, DiscoverError> {
    if !dax.is_empty() {
        let mut onlined = dax
            .iter()
            .filter(|dax| dax.is_kmem())
            .filter_map(|dax| dax.target_node);
        return Ok(onlined.find(|id| nodes.iter().any(|node| node.id == *id && node.has_memory)));
    }
    let (Some(start), Some(size)) = (region.resource.get(), region.size_bytes.get()) else {
        return Ok(None);
    };
    let block_size = sysfs.parse(
        "devices/system/memory/block_size_bytes",
        "a size in bytes, hexadecimal",
        |text| parse_hex(text).filter(|&bytes| bytes > 0),
    )?;
    let (Some(block_size), Some(end)) = (block_size, start.checked_add(size)) else {
        return Ok(None);
    };
    for node in nodes.iter().filter(|node| node.has_memory) {
        let folder = format!("{NODES}/node{}", node.id.0);
        let lies_inside = |name: &String| {
            let block: Option<u64> = name.strip_prefix("memory").and_then(parse_decimal);
            let address = block.and_then(|block| block.checked_mul(block_size));
            address.is_some_and(|address| start <= address && address < end)
        };
        if sysfs.names(&folder)?.iter().any(lies_inside) {
            return Ok(Some(node.id));
        }
    }
    Ok(None)
}
