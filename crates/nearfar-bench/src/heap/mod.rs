//! What it costs to have main storage, operator memory or temporary tables far.
//!
//! The workloads stand for those of ahn-2024, section 5 (TPC-DS, and procedures that keep
//! intermediate results in temporary tables), over TPC-H's two largest tables: queries that scan,
//! queries that live on hash tables and sorts, and a procedure over temporary tables. Each runs with
//! everything near and with one thing far: on this machine's own far tier, or on one that is modelled, once
//! with the profile's bandwidth and once with twice as much, as two interleaved devices give. Answers must be the same everywhere.

mod error;
mod metrics;
mod published;
mod queries;
mod run;

pub use error::HeapBenchError;
pub use published::{PublishedLoss, published};
pub use queries::Workload;
pub use run::{Configuration, HeapBenchOptions, HeapBenchOutcome, Timed, compare_heaps};
