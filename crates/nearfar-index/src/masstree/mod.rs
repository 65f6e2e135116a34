//! Masstree: a trie of B+trees over slices of eight bytes.

mod batch;
mod descent;
mod handle;
mod index;
mod insert;
mod leaf;
mod lookup;
mod migrate;
mod node;
mod permutation;
mod placed;
mod range;
mod record;
mod remove;
mod scan;
mod slice;
mod split;
mod tree;

pub use range::MasstreeRange;
pub use tree::Masstree;
