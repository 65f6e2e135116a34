//! How fast merges are, and what they do to the queries beside them.
//!
//! In every round, rows are written to a table's delta and others deleted; queries run one after
//! another, first without and then beside a merge that turns it all into main storage. Latencies of
//! both phases are those of the same run, of the same rows.

mod error;
mod metrics;
mod run;

pub use error::MergeBenchError;
pub use run::{MergeBenchOptions, MergeBenchOutcome, MergeRound, measure_merges};
