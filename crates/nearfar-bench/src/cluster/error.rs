//! What can go wrong with the benchmark of clusters.

use std::io;
use std::path::PathBuf;

use crate::bench::BenchError;
use crate::server_process::ServerError;

/// Errors of the benchmark of clusters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterBenchError {
    /// A server that does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The files of TPC-H can't be made.
    #[error(transparent)]
    Files(#[from] BenchError),
    /// A file of the cluster can't be written.
    #[error("`{}` can't be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Certificates can't be made.
    #[error("no certificates can be made for the nodes")]
    Certificates(#[from] rcgen::Error),
    /// A statement that must not fail.
    #[error("{statement} failed: {reason}")]
    Statement {
        /// The statement.
        statement: String,
        /// Why.
        reason: String,
    },
    /// A connection that breaks.
    #[error("a client lost its connection")]
    Connection(#[from] io::Error),
    /// A cluster that answers otherwise than one process.
    #[error("query {query} on {workers} workers: {difference}")]
    WrongAnswer {
        /// The query.
        query: u8,
        /// Nodes of the cluster.
        workers: usize,
        /// Where the answers differ.
        difference: String,
    },
}
