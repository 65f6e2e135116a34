//! Small transactions over the wire, beside PostgreSQL, and in this process.
//!
//! `pgbench` is the client of both: it fills its tables, and runs scripts of one statement each, prepared,
//! and its own TPC-B. Nearfar's server and PostgreSQL's run on the same machine and take turns, so that
//! a busy machine disturbs both. A server that does nothing but answer tells what is left for them to be faster.

mod ceiling;
mod error;
mod in_process;
mod metrics;
mod pgbench;
pub(crate) mod postgres;
mod programs;
mod run;
mod workload;

pub use error::OltpError;
pub use in_process::{InProcess, measure_in_process};
pub use run::{OltpOptions, OltpOutcome, OltpRounds, measure_oltp};
pub use workload::Workload;
