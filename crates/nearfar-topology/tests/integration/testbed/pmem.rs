//! Persistent memory: as a file system, as a DAX device, and unused.

use nearfar_topology::{NEAR, TierKind};

use super::{names_and_nodes, reason, this_machine};

#[test]
#[ignore = "needs the topology pmem: cargo xtask testbed pmem"]
fn only_what_is_a_dax_device_is_a_tier() {
    let topology = this_machine();
    assert_eq!(
        names_and_nodes(&topology),
        [(NEAR, vec![0]), ("dax1.0", vec![])]
    );
    let dax = topology.tier("dax1.0").unwrap();
    assert_eq!(dax.kind, TierKind::Dax);
    let note = dax.note.as_deref().unwrap();
    assert!(
        note.contains("persistent: onlining it gives up its content"),
        "{note}"
    );
    assert!(reason(&topology, "mem0").contains("cxl create-region"));
}
