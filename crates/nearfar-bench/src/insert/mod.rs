//! How fast rows are inserted in memory, and with a data directory under each setting of `log_sync`.
//!
//! Contestants differ in when commits are on disk, in sessions and in rows per statement. They take
//! turns, round by round, so that a busy machine or disk disturbs all alike, and each is held against
//! the one in memory that inserts in the same way. Every run has an engine and a table of its own.

mod error;
mod metrics;
mod run;

pub use error::InsertBenchError;
pub use run::{
    InsertBenchOptions, InsertBenchOutcome, InsertContestant, InsertRun, measure_inserts,
};
