//! What can go wrong with the benchmark of merges.

use nearfar_sql::error::EngineError;

/// Errors of the benchmark of merges.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeBenchError {
    /// Options that mean nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A statement that failed.
    #[error("`{sql}` failed")]
    Statement {
        /// The statement.
        sql: String,
        /// Why.
        #[source]
        source: Box<EngineError>,
    },
    /// A query that gave another answer beside a merge than without.
    #[error("a query beside a merge gave another answer than before it")]
    Mismatch,
}
