//! Rounds over a column of this machine's near memory.

use nearfar_measure::operators::native::{ReadColumn, ReadRound};
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;

use super::error::OperatorsBenchError;

/// Runs the rounds over a column of this many bytes.
pub(super) fn rounds(
    column_bytes: usize,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<ReadRound>, OperatorsBenchError> {
    let topology = Topology::this_machine().map_err(|error| OperatorsBenchError::Options {
        field: "machine",
        reason: error.to_string(),
    })?;
    let system = MemorySystem::new(&topology, &Budgets::new())?;
    let column = ReadColumn::new(&system, column_bytes)?;
    let mut taken = Vec::new();
    for round in 0..rounds {
        progress(round);
        taken.push(column.round()?);
    }
    Ok(taken)
}
