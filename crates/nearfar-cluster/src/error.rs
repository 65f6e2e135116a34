//! What goes wrong in a cluster, in the words that its users are told.

use datafusion::error::DataFusionError;
use nearfar_sql::error::EngineError;
use std::net::SocketAddr;

/// An error of the cluster with this message.
pub fn failed(message: impl Into<String>) -> EngineError {
    EngineError::Cluster {
        message: message.into(),
    }
}

/// The same among DataFusion's errors.
pub fn failed_query(message: impl Into<String>) -> DataFusionError {
    failed(message).into()
}

/// Why a node has not done what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// It can't be reached, or says nothing. Whether it has done it is not known.
    #[error("node `{node}` at {address} does not answer: {reason}")]
    Silent {
        /// The node.
        node: String,
        /// Where it should be.
        address: SocketAddr,
        /// What the connection says.
        reason: String,
    },
    /// It takes no more queries.
    #[error("node `{node}` is being stopped and takes no more queries")]
    Stopping {
        /// The node.
        node: String,
    },
    /// It has missed a change of the cluster.
    #[error(
        "the nodes are in different states of the cluster ({states}): one of them has missed a change. It gets what \
         it lacks where others have copies of its rows (its log says so): repeat the query; otherwise give it its data \
         directory of then, or make the tables again"
    )]
    Behind {
        /// The states of all nodes.
        states: String,
    },
    /// It has said that it can't, or something else than what was asked. It has done nothing.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
    },
}

impl AskError {
    /// The error of a query that needs the node's rows of `table`, of which there are so many copies.
    pub fn without_rows_of(&self, table: &str, copies: usize) -> DataFusionError {
        let others = match copies {
            1 => "are on no other".to_owned(),
            2 => "are on one other, which is missing too".to_owned(),
            copies => format!("are on {} others, which are missing too", copies - 1),
        };
        let what = format!("has rows of `{table}` that {others}");
        failed_query(match self {
            Self::Silent { node, address, .. } => {
                format!("node `{node}` at {address} does not answer, and {what}: start it again")
            }
            Self::Stopping { .. } => {
                format!("{self}, and {what}: repeat the query when it has been started again")
            }
            Self::Behind { .. } => format!("{self} (a node {what})"),
            Self::Refused { message } => format!("a node that {what} says: {message}"),
        })
    }
}

impl From<AskError> for EngineError {
    fn from(error: AskError) -> Self {
        failed(error.to_string())
    }
}

impl From<AskError> for DataFusionError {
    fn from(error: AskError) -> Self {
        failed_query(error.to_string())
    }
}
