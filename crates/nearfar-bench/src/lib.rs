//! End-to-end workloads and comparisons: TPC-H under placements, and rivals.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bench;
mod database;
pub mod heap;
pub mod merge;
pub mod scan;
pub mod tpch;
