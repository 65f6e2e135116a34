//! What can go wrong with the operators benchmark.

use nearfar_kernels::JoinError;
use nearfar_measure::operators::OperatorMachineError;
use nearfar_measure::operators::native::{Joined, ReadColumnError};
use nearfar_memory::SystemError;
use nearfar_model::simulation::MachineError;

/// Errors of the operators benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorsBenchError {
    /// Options that mean nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The machine gives no memory system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// There is no column to read.
    #[error(transparent)]
    Column(#[from] ReadColumnError),
    /// A join that was refused.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A profile that is not known well enough for the simulator.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A profile that is not known well enough for virtual time.
    #[error(transparent)]
    OperatorMachine(#[from] OperatorMachineError),
    /// DataFusion's join failed.
    #[error("DataFusion's join failed")]
    DataFusion(#[from] datafusion::error::DataFusionError),
    /// Arrow refuses the columns.
    #[error("Arrow refuses the columns")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The runtime of DataFusion's join does not start.
    #[error("no runtime for DataFusion's join")]
    Runtime(#[source] std::io::Error),
    /// Both joins found other rows.
    #[error("the joins of a build side of {build_bytes} bytes disagree: {ours:?} and {theirs:?}")]
    Mismatch {
        /// Bytes of the build side.
        build_bytes: usize,
        /// What ours found.
        ours: Joined,
        /// What DataFusion's found.
        theirs: Joined,
    },
}
