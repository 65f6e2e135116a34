//! Access benchmarks: what a machine's tiers give to a workload that is described field by field
//! (weisgut-2025, section 3), in the memory of this machine or in virtual time on a profile's.
//!
//! * A [`Document`] is a specification as it was written, in TOML, YAML or as flags; it expands to
//!   one [`RunSpec`] per point of its matrix.
//! * A [`Plan`] has those checked against the machine: everything impossible is refused before
//!   anything runs, with the field's name and line.
//! * [`execute`] runs a plan and gives an [`Outcome`] per point, with what disturbed it.
//! * [`report`] and [`compare`](crate::compare) show results to people.

pub mod counters;
mod cpus;
mod kernels;
mod noise;
mod outcome;
mod plan;
mod prefetchers;
mod presets;
pub mod report;
pub mod resume;
mod run;
mod simulate;
pub mod spec;
mod units;

pub use self::cpus::CpuList;
pub use self::kernels::{Operation, Pattern};
pub use self::noise::{Noise, NoiseReport};
pub(crate) use self::outcome::Repetition;
pub use self::outcome::{Latencies, Outcome, Simulated, TaskOutcome, TierLines};
pub(crate) use self::plan::available_bytes;
pub use self::plan::{
    DevicePages, Plan, PlanError, PlanTarget, PlannedPlacement, PlannedRegion, PlannedRun, Window,
};
pub use self::prefetchers::PrefetcherError;
pub use self::presets::Preset;
pub use self::run::{ExecuteError, Observer, execute};
pub(crate) use self::run::{Target, Until};
pub(crate) use self::simulate::{DeviceTiers, HUGE_PAGE_BYTES, PAGE_BYTES, place, simulate};
pub(crate) use self::spec::Mistake;
pub use self::spec::{Document, Flag, RunSpec, SpecError, SpecErrorKind};
