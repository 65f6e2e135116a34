//! The filtering scan against the machine's own bandwidth and against Arrow's kernels.
//!
//! Every thread has a column of its own and a buffer for positions, as in weisgut-2025,
//! section 5.2. In each round, all contestants run once, one after the other, over the same memory;
//! ratios are taken within a round, so that what disturbs a shared machine for longer than a round
//! disturbs both sides alike. The scan and the plain read run in virtual time too, on the machine of a profile
//! ([`ScanModel`]).

mod contest;
mod error;
mod metrics;
mod model;
mod run;

pub use contest::{ArrowResult, Contestant};
pub use error::ScanBenchError;
pub use model::ScanModel;
pub use run::{Round, ScanBenchOptions, ScanBenchOutcome, compare_scans};
