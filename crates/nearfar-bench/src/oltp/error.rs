//! What can go wrong with the benchmark of small transactions.

use std::io;

use nearfar_sql::error::EngineError;

use crate::server_process::ServerError;

/// Errors of the benchmark of small transactions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OltpError {
    /// Nearfar's server does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// No folder for data can be made.
    #[error("cannot make a folder for data")]
    Folder(#[source] io::Error),
    /// A statement in this process that failed.
    #[error("a statement failed in this process")]
    Engine {
        /// Why.
        #[source]
        source: Box<EngineError>,
    },
    /// A statement in this process that was planned again.
    #[error("a prepared statement was planned again")]
    Planned,
    /// A program of PostgreSQL's that is not there.
    #[error(
        "{program} is neither in PATH nor below /usr/lib/postgresql: install PostgreSQL \
         (on Debian, apt-get install postgresql)"
    )]
    NotInstalled {
        /// Its name.
        program: &'static str,
    },
    /// PostgreSQL's server refuses to run as root, and there is nobody else to run it.
    #[error("PostgreSQL does not run as root, and there is no user postgres in /etc/passwd")]
    NoUser,
    /// A program that failed.
    #[error("{program} failed: {reason}")]
    Failed {
        /// Its name.
        program: String,
        /// What it said last.
        reason: String,
    },
    /// A program that could not be run, or files for it that could not be made.
    #[error("cannot run {program}")]
    Run {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// What `pgbench` printed is not what its version 15 does.
    #[error("pgbench printed no rate of transactions: {output}")]
    Output {
        /// What it printed.
        output: String,
    },
    /// Transactions that failed, which no rate counts.
    #[error("{count} transactions of {workload} failed on {engine}")]
    FailedTransactions {
        /// How many.
        count: u64,
        /// Of what.
        workload: &'static str,
        /// Where.
        engine: &'static str,
    },
}
