//! A CXL device whose region is a node.

use nearfar_topology::{DeviceKind, FAR, Known, NEAR, TierKind};

use super::{assert_capacity, assert_declared, this_machine};

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn a_region_is_a_tier_with_its_devices() {
    let topology = this_machine();
    assert_eq!(topology.tiers.len(), 2);
    assert_declared(topology.tier(NEAR).unwrap(), 100.0, 200.0);
    let cxl = topology.tier(FAR).unwrap();
    assert_eq!((cxl.name.as_str(), cxl.kind), ("cxl", TierKind::Cxl));
    assert_capacity(cxl, 512, 0);
    let devices: Vec<(&str, DeviceKind)> = cxl
        .devices
        .iter()
        .map(|device| (device.name.as_str(), device.kind))
        .collect();
    assert_eq!(
        devices,
        [
            ("region0", DeviceKind::CxlRegion),
            ("mem0", DeviceKind::CxlMemory),
            ("dax0.0", DeviceKind::Dax)
        ]
    );
    for device in &cxl.devices {
        assert_eq!(device.size_bytes, Known::Value(512 << 20), "{device:?}");
    }
    assert_eq!(cxl.devices[2].driver, Known::Value("kmem".to_owned()));
    let note = cxl.note.as_deref().unwrap();
    assert!(note.contains("movable memory only"), "{note}");
}

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn a_latency_is_the_link_s_or_is_not_believed() {
    // Linux 6.12.107 adds picoseconds to nanoseconds here, 6.12.117 does not.
    let topology = this_machine();
    let declared = &topology.tier(FAR).unwrap().declared;
    match &declared.read_latency_ns {
        Known::Value(latency_ns) => assert_eq!(*latency_ns, 332.0),
        Known::Unavailable(reason) => assert!(reason.contains("picoseconds"), "{reason}"),
    }
    assert!(declared.read_bandwidth_bytes_per_s.is_known());
}
