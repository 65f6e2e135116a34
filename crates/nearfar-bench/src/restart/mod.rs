//! How long a restart takes: a pool that is attached beside tables that are loaded again.
//!
//! Every restart is a process of its own, and times count from before it is started: until its tables
//! are there, and until it has answered its first query. All restarts of one size follow each other in
//! every run, so that a busy machine disturbs all of them alike.

mod error;
mod metrics;
mod run;
mod start;

pub use error::RestartBenchError;
pub use run::{
    RestartBenchOptions, RestartBenchOutcome, RestartRun, RestartTimes, SizeOutcome, Way,
    measure_restarts,
};
pub use start::start;
