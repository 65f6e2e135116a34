//! Concurrent ordered maps whose nodes live on tiers, and the framework that decides on which.
//!
//! * [`OrderedIndex`] is what all of them can do; [`Art`], [`BPlusTree`] and [`Masstree`] are the maps.
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
mod index;
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
pub use art::{Art, ArtRange};
#[cfg(not(loom))]
pub use btree::{BPlusTree, BPlusTreeError, BPlusTreeOptions, BPlusTreeRange};
pub use context::Context;
pub use error::TreeError;
pub use index::{OrderedIndex, Probed};
pub use key::{Key, KeyBytes};
#[cfg(not(loom))]
pub use masstree::{Masstree, MasstreeRange};
pub use value::{BlockValue, TreeValue, ValueTooLong};

/// The examples of docs/index.md, which are run as tests.
#[cfg(all(doctest, not(loom)))]
#[doc = include_str!("../../../docs/index.md")]
struct Guide;
