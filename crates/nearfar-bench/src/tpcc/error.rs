//! What can go wrong with TPC-C.

use std::io;

use nearfar_sql::error::EngineError;

use super::value::Value;
use crate::oltp::OltpError;
use crate::server_process::ServerError;

/// Errors of the benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpccError {
    /// An option that can't be carried out.
    #[error("{option}: {reason}")]
    Options {
        /// Which.
        option: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// Nearfar's server does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// PostgreSQL does not start.
    #[error(transparent)]
    Postgres(#[from] OltpError),
    /// Nearfar's engine does not start.
    #[error("Nearfar's engine does not start")]
    Engine(#[source] Box<EngineError>),
    /// A folder that can't be made.
    #[error("cannot make a folder")]
    Folder(#[source] io::Error),
    /// A statement that fails, or a connection that is lost.
    #[error("{what} failed on {system}")]
    Failed {
        /// What was done.
        what: String,
        /// Where.
        system: String,
        /// Why.
        source: Failure,
    },
}

/// A statement that fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The database refuses it.
    #[error("{message} ({code})")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// What the database says.
        message: String,
    },
    /// The connection is lost.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// An answer that is not as it should be.
    #[error("an answer has {found} where {expected} should be")]
    Answer {
        /// What should be there.
        expected: &'static str,
        /// What is.
        found: String,
    },
}

impl Failure {
    /// The SQLSTATE of a transaction that others were in the way of: it is to be run again.
    pub fn retried_code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } if ["40001", "40P01"].contains(&code.as_str()) => Some(code),
            _ => None,
        }
    }

    pub(super) fn unexpected(expected: &'static str, found: Option<&Value>) -> Self {
        Self::Answer {
            expected,
            found: found.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}")),
        }
    }
}
