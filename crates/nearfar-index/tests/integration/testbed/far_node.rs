//! DRAM on node 0, and node 1 without CPUs.

use super::trees;

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn every_page_of_a_tree_lies_on_the_node_of_its_tier() {
    trees::check_every_page(&["far"]);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_placer_moves_hot_leaves_to_the_near_node() {
    trees::check_placement(&["far"]);
}
