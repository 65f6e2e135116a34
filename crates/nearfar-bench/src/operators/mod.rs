//! Aggregate, filter and hash join against the machine's own bandwidth and against DataFusion's join.
//!
//! Everything runs on one thread over near memory, turn by turn in every round; ratios are those within a
//! round. What needs far memory is modelled: the join's own code in the simulator, and joins over grouped
//! copies in virtual time ([`nearfar_measure::operators`]).

mod error;
mod join;
mod metrics;
mod reads;
mod run;

pub use error::OperatorsBenchError;
pub use run::{OperatorsBenchOptions, OperatorsBenchOutcome, bench_operators};
