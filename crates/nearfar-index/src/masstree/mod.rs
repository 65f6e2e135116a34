//! Masstree: a trie of B+trees over slices of eight bytes.

mod batch;
mod descend;
mod handle;
mod insert;
mod leaf;
mod lookup;
mod migrate;
mod node;
mod permutation;
mod placed;
mod probed;
mod range;
mod record;
mod remove;
mod scan;
mod slice;
mod split;
mod tree;

pub use probed::Probed as ProbedMasstree;
pub use range::Range as MasstreeRange;
pub use tree::Masstree;
