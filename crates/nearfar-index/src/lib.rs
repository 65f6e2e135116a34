//! Concurrent ordered maps whose nodes live on tiers, and the framework that decides on which.
//!
//! * [`memory`] holds the memory of nodes: heaps per tier, an exact ledger of it, and its
//!   reclamation while readers are about.
//! * [`lock`] is the optimistic lock of a node.
//! * [`placement`] says where nodes go: at birth by their level, later by how often their leaves
//!   are used (zhao-2026, sections 4 and 5).
//!
//! A tree operation takes a [`Probe`](nearfar_model::Probe) and tells it what it accesses, so that
//! the same code runs in the model; with [`Native`](nearfar_model::Native) these calls compile to
//! nothing.
#![deny(missing_docs)]

#[cfg(not(loom))]
mod art;
#[cfg(not(loom))]
mod btree;
mod context;
mod count;
mod error;
mod key;
pub mod lock;
#[cfg(not(loom))]
mod masstree;
pub mod memory;
pub mod placement;
mod prefetch;
mod sync;
mod value;

#[cfg(not(loom))]
pub use art::{Art, ArtRange, ProbedArt};
#[cfg(not(loom))]
pub use btree::{BPlusTree, BPlusTreeError, BPlusTreeOptions, ProbedBPlusTree, Range};
pub use context::Context;
pub use error::TreeError;
pub use key::{Key, KeyBytes};
#[cfg(not(loom))]
pub use masstree::{Masstree, MasstreeRange, ProbedMasstree};
pub use value::{BlockValue, TreeValue, ValueTooLong};
