//! Runs of our trees under placement policies: what virtual time and emulation have in common.
//!
//! * `options` says what is run, `tuning` what of the framework is other than usual, `outcome` what it gave.
//! * `policy` has the policies by name, `mode` where they run, `oracle` what the best of them knows, `memory` the memory that
//!   stands in for modelled tiers.
//! * `loading` fills the trees, `scale` makes them and their machine smaller, `hot_set` says what of them is used most.

mod error;
mod hot_set;
mod loading;
mod memory;
mod mode;
mod options;
pub(crate) mod oracle;
mod outcome;
mod policy;
mod scale;
mod tuning;

pub use error::PlacedError;
pub use hot_set::{HOT_REQUESTS_SHARE, HotSet};
pub(crate) use loading::{
    counter_bytes, estimated_tree_bytes, leaves, store_all, store_all_sorted, tree_bytes,
};
pub(crate) use memory::{PolicyMemory, stand_in_system};
pub use mode::Mode;
pub use nearfar_index::placement::{Watermarks, Worker};
pub use nearfar_model::emulation::Charged;
pub use options::PlacedOptions;
pub use outcome::{
    EmulatedFigures, Moment, PlacedOutcome, SampledFigures, TierTraffic, WorkerShares,
};
pub use policy::{PageRule, Policy, PolicyError};
pub use scale::{Scale, ScaleRule};
pub use tuning::{Tuning, watermarks};
