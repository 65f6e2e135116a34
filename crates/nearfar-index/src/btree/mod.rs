//! A concurrent B+tree over 8-byte keys, with nodes of a size of one's choice.
//!
//! * [`BPlusTree`] is the map; [`BPlusTreeOptions`] choose its node size.
//! * Readers take no locks: they go down by optimistic lock coupling (Leis et al., The ART of
//!   Practical Synchronization, DaMoN 2016), and begin again where a writer came in between.
//!   Writers lock the leaf, and its ancestors only where it is split or merged.
//! * A search in a node touches two or three cache lines, however large the node is (`geometry`).
//! * No node knows its neighbours or its parent: what an operation needs of them, it has seen on
//!   its way down. So a node moves to another tier by a change of one pointer.

mod batch;
mod build;
#[cfg(test)]
mod check;
mod descent;
mod geometry;
mod index;
mod insert;
mod lookup;
mod migrate;
mod node;
mod options;
mod placed;
mod range;
mod rebalance;
mod remove;
mod scan;
mod split;
mod tree;
mod write;

pub use options::{BPlusTreeError, BPlusTreeOptions};
pub use range::BPlusTreeRange;
pub use tree::BPlusTree;
