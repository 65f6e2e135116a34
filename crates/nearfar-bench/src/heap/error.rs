//! What can go wrong with the benchmark of heaps.

use nearfar_sql::error::EngineError;

/// Errors of the benchmark of heaps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapBenchError {
    /// Options that mean nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing can be far.
    #[error(
        "this machine has only one tier: give a profile, and a modelled far tier stands in for it"
    )]
    NoFarTier,
    /// The machine can't be read.
    #[error(transparent)]
    Machine(#[from] nearfar_topology::DiscoverError),
    /// An engine that can't be made, or a table that is refused.
    #[error("{what}")]
    Engine {
        /// What was to be made.
        what: String,
        /// Why it was not.
        #[source]
        source: Box<EngineError>,
    },
    /// A query that failed.
    #[error("{query} failed with {configuration}")]
    Query {
        /// Its name.
        query: &'static str,
        /// What was far.
        configuration: String,
        /// Why.
        #[source]
        source: Box<EngineError>,
    },
    /// A query that gave another answer than with everything near.
    #[error("{query} gives another answer with {configuration} than with everything near")]
    Mismatch {
        /// Its name.
        query: &'static str,
        /// What was far.
        configuration: String,
    },
}
