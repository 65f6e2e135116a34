//! Tier heaps: general-purpose allocation on a tier, charged to its budget as it is used.

mod arena;
mod blocks;
mod global;
mod near;
mod space;
mod thread_ends;
mod thread_tier;
mod tier_heap;

use crate::dax::DaxError;
use crate::sys::SysError;

pub use global::{GlobalHeaps, NearfarAllocator};
pub use near::NearHeap;
pub use thread_tier::{ThreadTier, ThreadTierGuard};
pub use tier_heap::{Exhaustion, HeapOptions, TierHeap};

/// Why a heap could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The kernel cannot allocate on this tier.
    #[error("tier {tier:?} has no memory nodes: the kernel cannot allocate on it")]
    NotAllocatable {
        /// The tier's name.
        tier: String,
    },
    /// The DAX device of the tier gives no memory.
    #[error("tier {tier:?} gives no memory for a heap: {source}")]
    Dax {
        /// The tier's name.
        tier: String,
        /// Why.
        #[source]
        source: DaxError,
    },
    /// Address space could not be reserved.
    #[error("no address space for a heap of {reserve_bytes} bytes on tier {tier:?}")]
    Map {
        /// The tier's name.
        tier: String,
        /// The bytes to be reserved.
        reserve_bytes: usize,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The kernel refused to bind memory to the tier.
    #[error("a heap cannot be bound to tier {tier:?} (nodes {nodes})")]
    Bind {
        /// The tier's name.
        tier: String,
        /// Its nodes, as the kernel lists them.
        nodes: String,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The budget does not allow for the records of an empty heap, or the process has as many heaps
    /// as mimalloc supports (160 arenas).
    #[error(
        "a heap of {reserve_bytes} bytes cannot be made on tier {tier:?}, which has \
         {available_bytes} bytes left of its budget: raise the budget"
    )]
    Arena {
        /// The tier's name.
        tier: String,
        /// The bytes to be reserved.
        reserve_bytes: usize,
        /// What is left of the budget.
        available_bytes: u64,
    },
    /// Heaps can't be kept apart from ends of threads.
    #[error(
        "a heap needs a key of thread-specific data, and the process has none left (error {errno})"
    )]
    ThreadEnds {
        /// The system's error number.
        errno: i32,
    },
    /// The global allocator's heaps were installed before.
    #[error("the heaps of the global allocator are installed once per process, and were before")]
    Installed,
}
