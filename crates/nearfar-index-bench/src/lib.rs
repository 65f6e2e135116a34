//! Tree indexes under workloads, placements and models, side by side with other crates' trees.
//!
//! * [`mod@bench`]: comparisons from options to results.
//! * [`map`]: the maps under test, behind one pair of traits.
//! * [`workload`]: what is asked of them.
//! * [`native`]: runs on this machine as it is, all contestants in turn.
//! * [`placed`]: what runs under placement policies have in common.
//! * [`modelled`]: runs of our trees in virtual time, under placement policies.
//! * [`real_time`]: runs of our trees on this machine, under the same policies, on its own tiers or with modelled far memory.
//! * [`reproduce`]: published experiments with trees.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bench;
mod latencies;
pub mod map;
pub mod modelled;
pub mod native;
mod perform;
pub mod placed;
mod random;
pub mod real_time;
pub mod reproduce;
pub mod workload;

pub use latencies::Latencies;
