//! Why a matrix cannot be run.

use std::io;

use nearfar_memory::UnknownTier;
use nearfar_memory::sys::SysError;
use nearfar_model::simulation::MachineError;

use super::application::ApplicationError;
use super::storage::StorageError;
use crate::access::{ExecuteError, PlanError};

/// Why a matrix cannot be run. What was done before remains valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterferenceError {
    /// Words that select nothing.
    #[error("{words:?} selects nothing; there are: {}", known.join(", "))]
    Selection {
        /// The words.
        words: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Nothing can run beside anything.
    #[error(
        "interference needs two processors, one for what is under test and one for the background; there is {cpus}"
    )]
    Processors {
        /// Processors that can be used.
        cpus: usize,
    },
    /// The processors of this process are not known.
    #[error("the kernel does not tell the processors of this process")]
    Cpus(#[source] SysError),
    /// Processors that the process may not use.
    #[error("processor {cpu} is not among those of this process: {allowed}")]
    Cpu {
        /// The processor.
        cpu: u32,
        /// Those that are.
        allowed: String,
    },
    /// A point that this machine does not take.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run that could not be made.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A run that the model does not take.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Storage that cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An application that cannot be measured.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// A tier that does not exist.
    #[error(transparent)]
    Tier(#[from] UnknownTier),
    /// The user stopped it.
    #[error("interrupted after {done} of {points} points")]
    Stopped {
        /// Points that were finished.
        done: usize,
        /// Points of the matrix.
        points: usize,
    },
    /// Results that could not be kept.
    #[error("results cannot be written")]
    Keep(#[source] io::Error),
}
