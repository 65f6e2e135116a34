//! What can go wrong with the benchmark of fairness.

use std::io;

use crate::server_process::ServerError;

/// Errors of the benchmark of fairness.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FairnessError {
    /// A server that does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A connection that breaks.
    #[error("a client lost its connection")]
    Connection(#[from] io::Error),
    /// A statement that must not fail.
    #[error("{statement} failed with SQLSTATE {code}")]
    Statement {
        /// The statement.
        statement: String,
        /// Why.
        code: String,
    },
    /// A client that ended without a result.
    #[error("a client has panicked")]
    Panicked,
}
