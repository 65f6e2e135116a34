//! What can go wrong with the operators benchmark.

use nearfar_kernels::{JoinError, NoRoomForGroups};
use nearfar_measure::operators::native::{
    Joined, OperatorTiersError, ReadColumnError, TierRunError,
};
use nearfar_measure::operators::{GridError, OperatorMachineError};
use nearfar_memory::SystemError;
use nearfar_model::simulation::MachineError;

use crate::bench::BenchError;
use crate::tpch::answer::Difference;

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
    /// A grid that means nothing.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// Columns and tables do not fit into near memory.
    #[error(
        "{option}: columns and tables of {needed_bytes} bytes in all, but near memory has {available_bytes} bytes \
         left: give less"
    )]
    Room {
        /// The option that says how much is needed.
        option: &'static str,
        /// Bytes of columns, and of the tables of both contestants.
        needed_bytes: u64,
        /// Bytes that there are.
        available_bytes: u64,
    },
    /// There are no two tiers to run on.
    #[error(transparent)]
    Tiers(#[from] OperatorTiersError),
    /// Sums or joins over two tiers were not run.
    #[error(transparent)]
    TierRun(#[from] TierRunError),
    /// The machine gives no memory system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// There is no column to read.
    #[error(transparent)]
    Column(#[from] ReadColumnError),
    /// A join that was refused.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An aggregate that gets no memory.
    #[error(transparent)]
    Groups(#[from] NoRoomForGroups),
    /// A profile that is not known well enough for the simulator.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A profile that is not known well enough for virtual time.
    #[error(transparent)]
    OperatorMachine(#[from] OperatorMachineError),
    /// DataFusion's join or aggregate failed.
    #[error("DataFusion's join or aggregate failed")]
    DataFusion(#[from] datafusion::error::DataFusionError),
    /// Arrow refuses the columns.
    #[error("Arrow refuses the columns")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The runtime of DataFusion does not start.
    #[error("no runtime for DataFusion")]
    Runtime(#[source] std::io::Error),
    /// A rival finds something else.
    #[error("the rival's {what} differs from ours on the same column")]
    Differs {
        /// What differs.
        what: &'static str,
    },
    /// DuckDB cannot be spoken to.
    #[error(transparent)]
    Rival(#[from] BenchError),
    /// DuckDB answers a query differently.
    #[error("{metric}: DuckDB has another answer: {difference}")]
    DuckDb {
        /// The metric of the query.
        metric: &'static str,
        /// Where the answers differ.
        difference: Box<Difference>,
    },
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
