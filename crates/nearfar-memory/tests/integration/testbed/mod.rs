//! Tests that need several memory nodes: each module runs on the virtual machine of its name
//! (`cargo xtask testbed NAME`), as root, and every feature's tests in a process of their own.

mod cxl_dax;
mod cxl_node;
mod far_node;
mod odd_nodes;
mod one_node;
mod placements;
mod pmem;
mod support;
mod two_hosts;
mod two_sockets;
