//! Whether what is run fits into memory.

use nearfar_memory::{MemorySystem, TierId};

use super::error::TierRunError;
use super::tiers::OperatorTiers;
use super::{grouped, pipelines, sums};
use crate::access;
use crate::operators::grid::OperatorGrid;

/// Bytes that a tier can still give: what is left of its budget, of the free memory of its nodes, and of the memory
/// limit of this process.
pub fn available_bytes(system: &MemorySystem, tier: TierId) -> u64 {
    let limit = system.roots().memory_limit();
    let limit = limit.map_or(u64::MAX, |limit| limit.available_bytes());
    access::available_bytes(system, tier).min(limit)
}

/// Refuses sums ([`tier_sums`](super::tier_sums)), joins ([`tier_joins`](super::tier_joins)) and pipelines
/// ([`tier_pipelines`](super::tier_pipelines)) of a grid whose columns do not fit, before any of them is made.
///
/// # Errors
/// [`TierRunError::Room`].
pub fn check_room(
    tiers: &OperatorTiers,
    buffer_bytes: usize,
    large_bytes: usize,
    grid: &OperatorGrid,
) -> Result<(), TierRunError> {
    let needs = [
        (
            "column, threads and far-threads",
            sums::needed_bytes(buffer_bytes, grid),
        ),
        (
            "large, threads, joins and group",
            grouped::needed_bytes(large_bytes, grid),
        ),
        (
            "column, pipelines, chunk and ring-depth",
            pipelines::needed_bytes(buffer_bytes, grid),
        ),
    ];
    for (options, (near_bytes, far_bytes)) in needs {
        tiers.check_room(options, near_bytes, far_bytes)?;
    }
    Ok(())
}
