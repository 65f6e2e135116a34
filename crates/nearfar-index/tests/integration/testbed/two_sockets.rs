//! Three tiers: the memory of each of two sockets, and nodes without CPUs behind the second.

use super::trees;

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn every_page_of_a_tree_on_three_tiers_lies_on_a_node_of_its_tier() {
    trees::check_every_page(&["remote", "cpuless"]);
}

#[test]
#[ignore = "needs the topology two-sockets: cargo xtask testbed two-sockets"]
fn a_placer_moves_hot_leaves_from_tier_to_tier() {
    trees::check_placement(&["remote", "cpuless"]);
}
