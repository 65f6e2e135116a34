//! Comparisons from options to results: what `nearfar bench index` calls.

mod given;
mod metrics;
mod options;
mod outcome;
mod report;
mod run;

pub use crate::placed::Mode;
pub use given::GivenOptions;
pub use options::{BenchOptions, KeyForm, KeySource, OptionError};
pub use outcome::{IndexBenchOutcome, PlacedRun};
pub use run::{IndexBenchError, Plan, PlannedRun, Progress, execute, plan};
