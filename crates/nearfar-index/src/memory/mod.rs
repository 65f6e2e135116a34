//! Memory of nodes and values: blocks on tiers, an exact ledger, and reclamation.
//!
//! * [`NodeMemory`] gives out blocks on tiers and takes them back. A budget per tier is never
//!   exceeded, not even for a moment, and retired blocks count until they are really free.
//! * [`Guard`] keeps what a thread may be looking at from being freed.
//! * [`NodeBox`] owns a node of a tree that locks, without any of that.

mod account;
mod block;
mod node_box;
mod node_memory;
mod reclaim;

pub use account::TierLedger;
pub use block::{BLOCK_BYTES_MAX, Purpose};
pub use node_box::NodeBox;
pub use node_memory::{BlockAllocator, NodeMemory, OutOfMemory};
pub use reclaim::Guard;
