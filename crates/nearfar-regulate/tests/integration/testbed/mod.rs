//! Knobs on a real kernel: each module runs on the virtual machine of its name (`cargo xtask testbed
//! NAME`), as root.

mod one_node;
