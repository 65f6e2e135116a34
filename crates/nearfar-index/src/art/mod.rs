//! The adaptive radix tree: an ordered map over byte strings (Leis et al., The Adaptive Radix
//! Tree, ICDE 2013), whose nodes lie on tiers.
//!
//! What it owns: inner nodes in four sizes ([`node`]), leaves that hold a few keys each
//! ([`leaf`]), and the protocol between those who use them at the same time:
//!
//! * Writers lock the nodes that they change, from above to below, and look again at what they
//!   had seen without locks (optimistic lock coupling). A node that needs another size or prefix is
//!   replaced by a copy and left *obsolete*, as it was; nothing is written to it any more.
//! * Readers lock nothing. What a node is responsible for, the bytes on the way to it, never
//!   changes, so a reader that is in a node which was replaced reads the tree as it was at that
//!   moment, which lies within its operation. Small nodes, whose keys move as others come, are
//!   validated by their version; in the others every change is a single store ([`children`]).
//! * A leaf's keys never change; its values are exchanged, and its keys removed, under its own
//!   lock, so that writers of values do not meet in inner nodes ([`leaf`]).
//!
//! A leaf stores what the way to it leaves of its keys, and a key may end in an inner node, so keys
//! may be prefixes of others and hold any bytes.

mod batch;
mod build;
mod child;
mod children;
mod descent;
mod index;
mod insert;
mod leaf;
mod lookup;
mod migrate;
mod node;
mod placed;
mod range;
mod remove;
mod scan;
#[cfg(test)]
mod tests;
mod tree;

pub use range::ArtRange;
pub use tree::Art;
