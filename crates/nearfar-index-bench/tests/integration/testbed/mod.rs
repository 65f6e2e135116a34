//! Tests that need far memory: each module runs on the virtual machine of its name (`cargo xtask testbed NAME`).

mod far_node;
