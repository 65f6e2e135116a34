//! What concurrent queries over one far table gain by reading it together.
//!
//! So many sessions ask queries that scan TPC-H's largest table, which is far, for some seconds: each session begins with another
//! query. Turns in which each scan reads far memory for itself take turns with such in which they read it
//! together (`cooperative_scans`). Answers must be the same.

mod error;
mod metrics;
mod run;

pub use error::CooperativeBenchError;
pub use run::{CooperativeBenchOptions, CooperativeBenchOutcome, Turn, compare_cooperation};
