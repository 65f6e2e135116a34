//! What can go wrong with the benchmark of clusters.

use arrow::datatypes::DataType;
use nearfar_sql::error::EngineError;
use std::io;
use std::path::PathBuf;

use crate::bench::BenchError;
use crate::server_process::ServerError;
use crate::tpch::Suite;

/// Errors of the benchmark of clusters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterBenchError {
    /// A server that does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The files of the benchmark can't be made.
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
    /// A column that no table can be made with.
    #[error("column `{column}` has the type {data_type}, for which there is none in SQL here")]
    ColumnType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Rows of the benchmark can't be made.
    #[error(transparent)]
    Rows(#[from] EngineError),
    /// A query that the benchmark has not.
    #[error("{suite} has no query {query}")]
    NoQuery {
        /// The benchmark.
        suite: Suite,
        /// The query.
        query: u8,
    },
    /// A cluster that answers otherwise than one process.
    #[error("a wrong answer: {difference}")]
    WrongAnswer {
        /// Where the answers differ.
        difference: String,
    },
    /// A connection that breaks.
    #[error("a client lost its connection")]
    Connection(#[from] io::Error),
}
