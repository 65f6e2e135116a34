//! What goes wrong in a cluster, in the words that its users are told.

use datafusion::error::DataFusionError;
use nearfar_sql::error::EngineError;

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
