//! The program on a machine with real far memory: each module runs on the virtual machine of its
//! name (`cargo xtask testbed NAME`).

mod far_node;
mod groups;
mod hosts;
mod one_node;
mod rdma_hosts;
mod storage;
mod take_over;
mod two_hosts;
