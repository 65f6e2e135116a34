//! Tests that need an RDMA device: SoftRoCE in the virtual machines of these names (`cargo xtask testbed NAME`).

mod one_node;
mod rdma_hosts;
mod support;
