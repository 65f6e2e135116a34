//! Our trees, each of which gives [`OrderedMap`](super::OrderedMap) through the tree's
//! `probed` view, and the tree itself to what moves its nodes ([`PlacedMap`](super::PlacedMap)).

mod btree;
mod byte_trees;

use super::OwnValue;
pub use btree::BPlusTreeMap;
pub(super) use byte_trees::{ArtMap, MasstreeMap};

/// The words of what a batch of lookups found, in place of what `words` held.
fn words_of<V: OwnValue>(values: &[Option<V>], words: &mut Vec<Option<u64>>) {
    words.clear();
    words.extend(values.iter().map(|value| Some(value.as_ref()?.word())));
}
