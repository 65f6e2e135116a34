//! Why a run ended early.

use std::io;

use nearfar_index::placement::PlacementError;
use nearfar_memory::SystemError;
use nearfar_memory::kernel_tiering::KernelTieringError;
use nearfar_model::ParameterError;
use nearfar_model::simulation::MachineError;

use crate::map::{Contestant, MapError, OpenError};

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacedError {
    /// An option that means nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such tree.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A tree took a key no more.
    #[error("{contestant}: {error}")]
    Map {
        /// Which.
        contestant: Contestant,
        /// Why.
        error: MapError,
    },
    /// The machine cannot be simulated so.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Placement refuses.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The modelled far tier cannot be emulated.
    #[error(transparent)]
    Emulation(#[from] ParameterError),
    /// The system gives no threads for placement.
    #[error("no threads for placement")]
    Workers(#[source] io::Error),
    /// The kernel places no pages here.
    #[error(transparent)]
    KernelTiering(#[from] KernelTieringError),
    /// No memory for the tree.
    #[error(transparent)]
    System(#[from] SystemError),
}
