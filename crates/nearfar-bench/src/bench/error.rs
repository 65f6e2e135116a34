//! What can go wrong with a comparison.

use std::io;
use std::path::PathBuf;

use crate::tpch::TpchError;
use crate::tpch::answer::Difference;

/// Errors of comparisons.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Options that no run of TPC-H takes.
    #[error(transparent)]
    Tpch(#[from] TpchError),
    /// Files that can't be written or read.
    #[error("`{}` can't be written or read", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A contender that can't be started.
    #[error("{contender} can't be started")]
    Start {
        /// Which contender.
        contender: String,
        /// Why.
        source: io::Error,
    },
    /// A contender that ended or can't be spoken to.
    #[error("{contender} does not answer: {reason}")]
    Silent {
        /// Which contender.
        contender: String,
        /// Why.
        reason: String,
    },
    /// A contender that does not speak the protocol.
    #[error("{contender} answers {reply:?}, which is no reply to {request}")]
    Reply {
        /// Which contender.
        contender: String,
        /// What it was asked for.
        request: &'static str,
        /// What it said.
        reply: String,
    },
    /// A contender without which there is nothing to compare can't take part.
    #[error("{contender} can't take part: {reason}")]
    Absent {
        /// Which contender.
        contender: String,
        /// Why.
        reason: String,
    },
    /// A request that a contender could not carry out.
    #[error("{contender}: {reason}")]
    Failed {
        /// Which contender.
        contender: String,
        /// Why.
        reason: String,
    },
    /// Two contenders disagree.
    #[error("query {number} has another answer on {contender} than on Nearfar: {difference}")]
    Mismatch {
        /// The query.
        number: u8,
        /// Which contender.
        contender: String,
        /// Where the answers differ.
        difference: Box<Difference>,
    },
}

impl BenchError {
    pub(super) fn file(
        path: impl Into<PathBuf>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::File {
            path: path.into(),
            source: source.into(),
        }
    }
}
