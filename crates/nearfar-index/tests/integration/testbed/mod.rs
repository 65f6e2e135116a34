//! Tests that need several memory nodes: each module runs on the virtual machine of its name
//! (`cargo xtask testbed NAME`), as root.

mod cxl_node;
mod far_node;
mod trees;
mod two_sockets;
