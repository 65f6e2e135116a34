//! The memory of one statement beside its operators, and of what a client keeps.

use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::sync::Arc;

use super::QueryMemory;
use crate::error::EngineError;

/// What a statement takes from its planning to its end.
#[derive(Debug)]
pub struct StatementMemory {
    memory: Arc<QueryMemory>,
    kept: MemoryReservation,
}

impl StatementMemory {
    /// Charges to `memory`.
    pub fn new(memory: Arc<QueryMemory>) -> Arc<Self> {
        let kept = reservation(&memory, "the statement");
        Arc::new(Self { memory, kept })
    }

    /// Takes `bytes` until the statement has ended.
    ///
    /// # Errors
    /// More than the statement may take.
    pub fn keep(&self, bytes: usize) -> Result<()> {
        Ok(grow(&self.memory, &self.kept, bytes)?)
    }

    /// Takes `bytes` for `what`, until the reservation is dropped.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn reserve(&self, what: &str, bytes: usize) -> Result<MemoryReservation> {
        let taken = reservation(&self.memory, what);
        grow(&self.memory, &taken, bytes)?;
        Ok(taken)
    }
}

/// Memory that a client's statements and values take of its session while it keeps them.
#[derive(Debug)]
pub struct Charge {
    _taken: MemoryReservation,
}

impl Charge {
    /// Takes `bytes` of `memory` for `what`.
    ///
    /// # Errors
    /// More than there is.
    pub fn new(memory: &Arc<QueryMemory>, what: &str, bytes: u64) -> Result<Self, EngineError> {
        let taken = reservation(memory, what);
        grow(
            memory,
            &taken,
            usize::try_from(bytes).unwrap_or(usize::MAX >> 4),
        )?;
        Ok(Self { _taken: taken })
    }
}

fn reservation(memory: &Arc<QueryMemory>, what: &str) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(memory) as _;
    MemoryConsumer::new(what).register(&pool)
}

/// The refusal instead of the error that operators look for.
fn grow(memory: &QueryMemory, taken: &MemoryReservation, bytes: usize) -> Result<(), EngineError> {
    taken
        .try_grow(bytes)
        .map_err(|error| match memory.refusal() {
            Some(refusal) => refusal.into(),
            None => error.into(),
        })
}
