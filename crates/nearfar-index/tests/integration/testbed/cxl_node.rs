//! CXL memory that was onlined as a movable node.

use super::trees;

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn every_page_of_a_tree_lies_on_the_node_of_its_tier() {
    trees::check_every_page(&["cxl"]);
}

#[test]
#[ignore = "needs the topology cxl-node: cargo xtask testbed cxl-node"]
fn a_placer_moves_hot_leaves_to_the_near_node() {
    trees::check_placement(&["cxl"]);
}
