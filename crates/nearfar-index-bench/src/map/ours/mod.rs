//! Our trees, each of which gives [`OrderedMap`](super::OrderedMap) through the tree's
//! `probed` view, and the tree itself to what moves its nodes ([`PlacedMap`](super::PlacedMap)).

mod btree;
mod byte_trees;

pub use btree::BPlusTreeMap;
pub(super) use byte_trees::{ArtMap, MasstreeMap};
