//! DAX devices: memory that is a device until it is made system RAM.

use crate::error::DiscoverError;
use crate::id_list::NodeId;
use crate::known::Known;
use crate::sysfs::{Sysfs, parse_decimal, parse_integer};
use crate::topology::{DEVICE_DAX, Device, DeviceKind, Unavailable};

const DAX: &str = "bus/dax/devices";
/// Driver that makes a DAX device system RAM.
pub(super) const KMEM: &str = "kmem";

/// One DAX device with a size.
#[derive(Clone, Debug)]
pub(super) struct DaxDevice {
    pub device: Device,
    /// Node that its memory is, or becomes when onlined; `None` where it has none.
    pub target_node: Option<NodeId>,
    /// The CXL region it is a child of.
    pub region: Option<String>,
    /// Whether it is a namespace of persistent memory, below a folder `ndbus<N>`.
    pub persistent: bool,
}

impl DaxDevice {
    /// Whether the driver that makes it system RAM is bound to it.
    pub(super) fn is_kmem(&self) -> bool {
        self.device
            .driver
            .value()
            .is_some_and(|driver| driver == KMEM)
    }
}

/// DAX devices, by name.
pub(super) fn read(
    sysfs: &Sysfs,
    unavailable: &mut Vec<Unavailable>,
) -> Result<Vec<DaxDevice>, DiscoverError> {
    let mut devices = Vec::new();
    for name in sysfs
        .names(DAX)?
        .into_iter()
        .filter(|name| is_dax_name(name))
    {
        let folder = format!("{DAX}/{name}");
        let size_bytes =
            sysfs.parse_known(&format!("{folder}/size"), "a size in bytes", parse_integer)?;
        if size_bytes == Known::Value(0) {
            let reason = "has a size of 0: no memory was given to it".to_owned();
            unavailable.push(Unavailable { what: name, reason });
            continue;
        }
        let target_node = sysfs.parse(
            &format!("{folder}/target_node"),
            "the number of a node, or -1",
            |text| match text {
                "-1" => Some(None),
                _ => parse_decimal(text).map(|id| Some(NodeId(id))),
            },
        )?;
        let resource = sysfs.parse_known(
            &format!("{folder}/resource"),
            "a physical address",
            parse_integer,
        )?;
        let parents = sysfs.real_parts(&folder);
        let persistent = parents.iter().any(|part| part.starts_with("ndbus"));
        devices.push(DaxDevice {
            // Regions of an NVDIMM bus have the same names and are none of CXL's.
            region: cxl_region_of(&parents).filter(|_| !persistent),
            persistent,
            target_node: target_node.flatten(),
            device: Device {
                driver: sysfs.driver(&folder),
                name,
                kind: DeviceKind::Dax,
                size_bytes,
                resource,
            },
        });
    }
    Ok(devices)
}

/// `dax<N>.<M>`.
fn is_dax_name(name: &str) -> bool {
    name.strip_prefix("dax")
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(region, index)| {
            parse_decimal::<u32>(region).is_some() && parse_decimal::<u32>(index).is_some()
        })
}

/// The nearest folder named `region<N>` among a device's parents.
fn cxl_region_of(parents: &[String]) -> Option<String> {
    let number = |part: &str| parse_decimal::<u32>(part.strip_prefix("region")?);
    parents
        .iter()
        .rev()
        .find(|part| number(part).is_some())
        .cloned()
}

/// How to make system RAM of a device that is none.
pub(super) fn onlining_note(device: &DaxDevice, auto_online: Option<&str>) -> String {
    let name = &device.device.name;
    if device.is_kmem() {
        return format!("its memory is offline: online it with `daxctl online-memory {name}`");
    }
    let mapped = match device.device.driver.value() {
        Some(driver) if driver == DEVICE_DAX => {
            format!(
                "with a budget (--budget {name}=BYTES), placements that name it map it and overwrite \
                 what it holds; or "
            )
        }
        _ => String::new(),
    };
    let mut note = format!(
        "not system RAM: {mapped}online it with `daxctl reconfigure-device --mode=system-ram {name}`"
    );
    if let Some(policy) = auto_online.filter(|policy| *policy != "offline") {
        note.push_str(&format!(
            "; the kernel's auto_online_blocks is {policy:?}, with which daxctl refuses, or with \
             --force may online into the wrong zone: first \
             `echo offline > /sys/devices/system/memory/auto_online_blocks`"
        ));
    }
    if device.persistent {
        note.push_str("; its memory is persistent: onlining it gives up its content");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_and_regions() {
        assert!(is_dax_name("dax0.0") && is_dax_name("dax12.3"));
        assert!(!is_dax_name("dax0") && !is_dax_name("dax.0") && !is_dax_name("daxa.b"));
    }

    #[test]
    fn a_region_is_found_among_the_parents() {
        let region =
            |path: &str| cxl_region_of(&path.split('/').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            region("root0/region2/dax_region2/dax2.0").as_deref(),
            Some("region2")
        );
        assert_eq!(region("hmem.0/dax0.0"), None);
    }
}
