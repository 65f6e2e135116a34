//! Runs of our trees under placement policies: what virtual time and emulation have in common.
//!
//! * `options` says what is run, `outcome` what it gave.
//! * `policy` has the policies by name, `oracle` what the best of them knows, `memory` the memory that
//!   stands in for modelled tiers.
//! * `loading` fills the trees, `scale` makes them and their machine smaller.

mod error;
mod loading;
mod memory;
mod options;
pub(crate) mod oracle;
mod outcome;
mod policy;
mod scale;

pub use error::PlacedError;
pub(crate) use loading::{counter_bytes, store_all, tree_bytes};
pub(crate) use memory::{PolicyMemory, stand_in_system};
pub use nearfar_model::emulation::Charged;
pub use options::PlacedOptions;
pub use outcome::{EmulatedFigures, Moment, PlacedOutcome, TierTraffic};
pub use policy::{PageRule, Policy, PolicyError};
pub use scale::{Scale, ScaleRule};
