//! Our trees: a file for each, which gives [`OrderedMap`](super::OrderedMap) through the tree's
//! `probed` view, and the tree itself to what moves its nodes ([`PlacedMap`](super::PlacedMap)).

mod art;
mod btree;

pub(super) use art::ArtMap;
pub(super) use btree::BPlusTreeMap;
