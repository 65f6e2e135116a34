//! TPC-H and TPC-DS under placements: generate, check, place, time, report.
//!
//! [`run`] generates the tables of a [`Suite`] in memory, checks the answers of the queries against
//! DataFusion's own tables in memory, and times the queries with all data near and under every
//! placement asked for (weisgut-2025 section 6 does so with Hyrise). The [`Outcome`] turns into
//! [`Outcome::metrics`] for programs and a [`report`](fn@report) for people.

pub mod answer;
mod data;
mod error;
mod metrics;
mod observer;
mod options;
mod outcome;
pub mod published;
pub mod queries;
mod report;
mod run;
mod suite;

pub use error::TpchError;
pub use observer::{Event, Observer};
pub use options::{TpchOptions, default_placements, parse_placement};
pub(crate) use outcome::summary;
pub use outcome::{
    BytesByTier, FarTier, Outcome, PlacementOutcome, QueryOutcome, TableOutcome, geometric_mean,
};
pub use report::report;
pub use run::run;
pub use suite::Suite;
