//! What statements that take long do to the others of a server.
//!
//! A server in a process of its own, a few sessions that run one hostile statement again and again under
//! a limit of time, and a peer that asks small questions meanwhile: how long it waits, and by how much
//! the hostile ones exceed their limit.

mod client;
mod error;
mod metrics;
mod run;
mod statements;

pub use error::FairnessError;
pub use run::{FairnessOptions, FairnessOutcome, FairnessRound, measure_fairness};
pub use statements::{Hostile, Question};
