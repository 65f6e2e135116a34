//! A CXL device whose region is left as a DAX device.

use nearfar_topology::{FAR, Known, NEAR, TierKind};

use super::{names_and_nodes, this_machine};

#[test]
#[ignore = "needs the topology cxl-dax: cargo xtask testbed cxl-dax"]
fn a_dax_device_is_a_tier_that_is_mapped_by_its_name() {
    let topology = this_machine();
    assert_eq!(
        names_and_nodes(&topology),
        [(NEAR, vec![0]), ("dax0.0", vec![])]
    );
    let dax = topology.tier("dax0.0").unwrap();
    assert_eq!(dax.kind, TierKind::Dax);
    assert_eq!(dax.capacity_bytes, Known::Value(256 << 20));
    assert!(!dax.allocatable);
    assert_eq!(
        dax.mappable_device().map(|device| device.name.as_str()),
        Some("dax0.0")
    );
    let note = dax.note.as_deref().unwrap();
    assert!(
        note.contains("daxctl reconfigure-device --mode=system-ram dax0.0"),
        "{note}"
    );
    assert!(topology.tier(FAR).is_err(), "it is no far tier");
}
