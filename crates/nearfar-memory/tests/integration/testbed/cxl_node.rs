//! CXL memory that was onlined as a movable node.

use nearfar_memory::{Budgets, HeapOptions, MemorySystem, TierHeap, TierKind};
use nearfar_topology::Topology;

use super::placements;
use super::support::share_on;

/// The node of the CXL memory: firmware's table of nodes, not its size, decides on the number.
fn cxl_node() -> u32 {
    let topology = Topology::this_machine().unwrap();
    topology.tier("cxl").unwrap().nodes[0].0
}

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn every_page_of_every_placement_lies_where_it_says() {
    placements::check_every_page(0, cxl_node());
}

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn regions_move_between_nodes_while_they_are_read() {
    placements::check_migrations_under_readers(0, cxl_node());
}

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn a_heap_can_lie_in_cxl_memory() {
    let topology = Topology::this_machine().unwrap();
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    let far = system.tier("far").unwrap();
    assert_eq!(system.info(far).kind, TierKind::Cxl);
    let heap = TierHeap::new(&system, far, HeapOptions::default()).unwrap();
    let mut block = allocator_api2::vec::Vec::new_in(heap);
    block.resize(16 << 20, 7u8);
    let share = share_on(cxl_node() as i32, &block);
    assert!(share > 0.99, "{share}");
}
