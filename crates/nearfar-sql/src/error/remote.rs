//! What can go wrong with tables on other hosts.

use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use nearfar_kernels::copy::CopyError;
use nearfar_memory::RegionError;
use nearfar_memory::rdma::RdmaError;
use nearfar_rdma::RemoteError;

use super::EngineError;

/// What goes wrong with a table on another host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteTableError {
    /// The host does not take it.
    #[error(transparent)]
    Host(#[from] RemoteError),
    /// The host was lost, and the next query that needs the table has it rebuilt.
    #[error("{lost}; the next query that needs its rows has them rebuilt from {from}")]
    Lost {
        /// The host, and what was noticed.
        #[source]
        lost: Box<RemoteError>,
        /// Where the rows are kept.
        from: String,
    },
    /// The host was lost, and with it all that there was of the rows.
    #[error("{lost}; its rows have no durable copy to be rebuilt from: put them there again")]
    NoCopy {
        /// The host, and what was noticed.
        #[source]
        lost: Box<RemoteError>,
    },
    /// The host was lost, and the rows cannot be read where they are kept.
    #[error("{lost}; its rows cannot be rebuilt from {from}: {error}")]
    Unread {
        /// The host, and what was noticed.
        lost: Box<RemoteError>,
        /// Where the rows are kept.
        from: String,
        /// Why.
        #[source]
        error: Box<EngineError>,
    },
    /// The host was lost, and the rows that they were made from are others by now.
    #[error(
        "{lost}; its rows cannot be rebuilt: {from}, which had {before_rows} rows when they were put there, has \
         changed since and has {now_rows} now: put them there again"
    )]
    Changed {
        /// The host, and what was noticed.
        #[source]
        lost: Box<RemoteError>,
        /// Where the rows are kept.
        from: String,
        /// Rows that were put on the host.
        before_rows: u64,
        /// Rows that there are now.
        now_rows: u64,
    },
    /// The host was lost, takes the rows no more, and they do not fit near.
    #[error("{lost}; its rows are not put there again ({again}), and have no room near: {near}")]
    NoRoom {
        /// The host, and what was noticed.
        #[source]
        lost: Box<RemoteError>,
        /// Why it does not take them.
        again: Box<RemoteError>,
        /// What the near tier says.
        near: Box<RegionError>,
    },
    /// Rows cannot be read that are to be put on the host.
    #[error("the rows of {from} cannot be read: {error}")]
    Source {
        /// Where they are kept.
        from: String,
        /// Why.
        #[source]
        error: Box<EngineError>,
    },
    /// Its columns were not fetched.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A batch that is not of the schema, or a type that Arrow's format does not have.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Bytes that came back whole hold no column.
    #[error("column {column:?} of a table on another host holds no rows where it should")]
    Empty {
        /// The column.
        column: String,
    },
    /// The query fails that needs it, or whose rows it was to have; for one, as it has no memory.
    #[error(transparent)]
    Query(DataFusionError),
}

impl RemoteTableError {
    /// Whether a host, or a tier of this machine, has no room for it.
    pub fn is_out_of_memory(&self) -> bool {
        let full = |error: &RemoteError| match error {
            RemoteError::Refused { .. } | RemoteError::Region(_) => true,
            RemoteError::Rdma { source, .. } => matches!(source, RdmaError::Budget(_)),
            _ => false,
        };
        match self {
            Self::NoRoom { .. } => true,
            Self::Host(error) => full(error),
            _ => false,
        }
    }
}

impl From<RemoteTableError> for EngineError {
    fn from(error: RemoteTableError) -> Self {
        match error {
            RemoteTableError::Query(failed) => failed.into(),
            other => Self::Remote(Arc::new(other)),
        }
    }
}

impl From<RemoteTableError> for DataFusionError {
    fn from(error: RemoteTableError) -> Self {
        EngineError::from(error).into()
    }
}
