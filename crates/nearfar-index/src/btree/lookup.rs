//! The lookup of one key.

use std::sync::atomic::Ordering::Relaxed;

use nearfar_model::Probe;

use super::node::{Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::Version;
use crate::value::TreeValue;

/// Where a key is in its leaf, or would be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'g> {
    pub(super) leaf: Node<'g>,
    pub(super) version: Version,
    /// The keys of the leaf that are at most the key.
    pub(super) rank: usize,
    pub(super) is_there: bool,
}

impl<V: TreeValue> BPlusTree<V> {
    /// Where `key` is: to be validated.
    #[inline(always)]
    pub(super) fn find<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: u64,
    ) -> Result<Found<'g>, Restart> {
        let (leaf, version) = self.leaf(context, key)?;
        let rank = leaf.rank(key, context);
        Ok(Found {
            leaf,
            version,
            rank,
            is_there: leaf.has_key_before(rank, key),
        })
    }

    /// The word of a key's value.
    #[inline(always)]
    fn try_word<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
    ) -> Result<Option<u64>, Restart> {
        let found = self.find(context, key)?;
        let mut word = None;
        if found.is_there {
            found.leaf.read_slot(found.rank - 1, context);
            word = Some(found.leaf.load_value(found.rank - 1));
        }
        found.leaf.validate(found.version, context)?;
        self.frontend.use_leaf(found.leaf.counter(), context.probe);
        Ok(word)
    }

    #[inline(always)]
    pub(super) fn get_in<P: Probe>(&self, context: &Context<'_, '_, P>, key: u64) -> Option<V> {
        loop {
            if let Ok(word) = self.try_word(context, key) {
                // SAFETY: the word was the key's when its leaf was validated, under this guard.
                return word.map(|word| unsafe { V::from_word(word, context) });
            }
        }
    }

    #[inline(always)]
    pub(super) fn contains_in<P: Probe>(&self, context: &Context<'_, '_, P>, key: u64) -> bool {
        loop {
            if let Ok(word) = self.try_word(context, key) {
                return word.is_some();
            }
        }
    }
}

impl Node<'_> {
    /// Whether the key before `rank` is `key`.
    #[inline(always)]
    pub(super) fn has_key_before(self, rank: usize, key: u64) -> bool {
        let before = rank.checked_sub(1).and_then(|index| self.keys().get(index));
        before.is_some_and(|before| before.load(Relaxed) == key)
    }
}
