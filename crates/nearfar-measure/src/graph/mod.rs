//! `PageRank` on a Kronecker graph in placed memory: an application for interference (mao-2025, section IV).
//!
//! A [`KroneckerGraph`] is drawn from a seed, [`PlacedGraph`] puts it and its ranks where a placement says, and
//! [`PlacedGraph::trial`] ranks its nodes from the start on, with threads that divide them.

mod kronecker;
mod placed;

pub use self::kronecker::{DEGREE_MAX, KroneckerError, KroneckerGraph, SCALE_MAX};
pub use self::placed::{PlacedGraph, PlacedGraphError, Trial, trial_metrics};
