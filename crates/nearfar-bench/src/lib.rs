//! End-to-end workloads and comparisons: TPC-H and TPC-DS under placements, TPC-C, rivals, restarts.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bench;
pub mod cluster;
pub mod cooperative;
mod database;
pub mod fairness;
pub mod heap;
pub mod htap;
pub mod insert;
mod kept_process;
pub mod merge;
pub mod oltp;
pub mod operators;
mod ports;
pub mod restart;
pub mod scan;
pub mod server_process;
pub mod tpcc;
pub mod tpcds;
pub mod tpch;
