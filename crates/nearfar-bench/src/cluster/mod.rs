//! TPC-H or TPC-DS over the nodes of a cluster on this machine, against one process.
//!
//! One server in a process of its own, and clusters of servers whose threads together are as many: the same rows,
//! the same queries, round by round. What is measured is what a cluster costs, since a single machine has nothing to
//! gain from one.

mod error;
mod local;
mod metrics;
mod run;
mod schema;
mod simulate;

pub use error::ClusterBenchError;
pub use local::{LocalCluster, metric_of, write_cluster};
pub use run::{
    ClusterOptions, ClusterOutcome, ClusterRound, QueryRound, QueryTimes, measure_cluster,
    query_rows,
};
pub use simulate::{Machine, simulated, simulated_configuration};
