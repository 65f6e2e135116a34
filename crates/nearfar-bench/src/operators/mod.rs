//! Aggregate, filter and hash join against the machine's own bandwidth and against rivals, and over near and far
//! memory.
//!
//! Against Arrow's kernels, DataFusion's aggregate and join, and queries on DuckDB, everything runs on one thread over
//! near memory, turn by turn in every round; ratios are those within a round. Sums, joins and pipelines of several threads
//! run over near memory and the machine's own far tier, or an emulated one, or in virtual time; the join's own code also runs in
//! the simulator ([`nearfar_measure::operators`]).

mod aggregate;
mod duckdb;
mod error;
mod join;
mod metrics;
mod reads;
mod round;
mod run;

pub use duckdb::DuckDbOptions;
pub use error::OperatorsBenchError;
pub use run::{OperatorsBenchOptions, OperatorsBenchOutcome, bench_operators};
