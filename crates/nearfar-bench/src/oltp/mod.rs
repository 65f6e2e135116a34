//! Small transactions over the wire, beside PostgreSQL.
//!
//! `pgbench` is the client of both: it fills its tables, and runs scripts of one statement each, prepared,
//! and its own TPC-B. Nearfar's server and PostgreSQL's run on the same machine and take turns, so that
//! a busy machine disturbs both.

mod error;
mod metrics;
mod pgbench;
pub(crate) mod postgres;
mod programs;
mod run;
mod workload;

pub use error::OltpError;
pub use run::{OltpOptions, OltpOutcome, OltpRounds, measure_oltp};
pub use workload::Workload;
