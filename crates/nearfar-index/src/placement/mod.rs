//! Where nodes go: at birth by their level, later by how often their leaves are used.
//!
//! * [`Frontend`] is the part that runs within tree operations: it chooses the tier of a new node
//!   and counts uses of leaves (zhao-2026, section 4.1).
//! * [`PlacedTree`] is what a tree offers for its nodes to be moved.

mod frontend;
mod tree;

pub use frontend::{Allocation, Frontend, LeafCounter, NewNode, Tracking};
pub use tree::{LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
