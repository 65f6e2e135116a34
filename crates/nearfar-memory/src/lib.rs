//! Memory on tiers: regions with a placement, heaps per tier, and an exact account of both.
//!
//! This crate owns the `unsafe` of Nearfar. It knows of pages, nodes and bytes, never of tables or
//! trees.
//!
//! - [`MemorySystem`] holds the tiers, near to far, with a budget each, and the ledger of every byte
//!   taken. `used <= budget` holds at every moment, whatever races.
//! - [`Region`] is memory with a [`Placement`]: populated, page-verified, movable in place, and
//!   usable as Arrow buffers without a copy.
//! - [`TierHeap`] is a general-purpose heap on a tier; [`NearfarAllocator`] is a global allocator
//!   that follows the tier of the thread ([`ThreadTier`]).
//! - [`SlabHeap`] is small blocks of one owner in regions that end with it.
//! - [`kernel_tiering`] has the kernel move pages between tiers, to compare with.
//! - [`rdma`] is memory of another host.
//! - [`sys`] is the thin layer over the kernel's calls.
//!
//! It needs Linux 5.14 or later (`MADV_POPULATE_WRITE`).
#![deny(missing_docs)]

mod access;
mod collection;
mod dax;
mod headroom;
mod heap;
mod heap_counters;
mod keeper;
pub mod kernel_tiering;
mod layout;
mod ledger;
mod machine;
mod placement;
pub mod pool;
pub mod rdma;
mod region;
mod spec;
pub mod sys;
mod system;
mod tier;
mod zones;

pub use access::FileAccess;
pub use dax::DaxError;
pub use heap::{
    Exhaustion, GlobalHeaps, HeapError, HeapOptions, NearHeap, NearfarAllocator, ThreadTier,
    ThreadTierGuard, TierHeap,
};
pub use keeper::Keeper;
pub use machine::{CgroupLimit, MachineRoots};
pub use nearfar_topology::{TierKind, UnknownTier};
pub use placement::{OverBudget, PageSize, PlaceError, Placement, PlacementError, RegionOptions};
pub use region::{
    AppendArea, AppendedBytes, Region, RegionError, Shelf, ShelfBlock, SlabHeap, SlabUsage,
    Verification,
};
pub use spec::{PlaceName, PlacementSpec, SpecError, SpecProblem};
pub use system::{Budgets, MemorySystem, SystemError, TierUsage};
pub use tier::{MAX_TIERS, TierBackend, TierBytes, TierId, TierInfo, TierSpec};
