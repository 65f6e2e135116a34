//! What can go wrong with the benchmark of cooperative scans.

use nearfar_sql::error::EngineError;

/// Errors of the benchmark of cooperative scans.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CooperativeBenchError {
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
    /// A statement that failed, or a table that could not be loaded.
    #[error("`{what}` failed")]
    Engine {
        /// The statement.
        what: String,
        /// Why.
        #[source]
        source: Box<EngineError>,
    },
    /// A query that gave another answer than alone.
    #[error("`{query}` gives another answer beside other queries than alone")]
    Mismatch {
        /// The query.
        query: &'static str,
    },
}
