//! Moving nodes between tiers: a copy on the other tier takes the node's place.

use nearfar_memory::TierId;
use nearfar_model::Native;

use super::Art;
use super::child::Child;
use super::descent::Spot;
use super::leaf::{ENTRIES_MAX, Entry, HeldLeaf, Leaf};
use super::node::{Node, Shape};
use super::placed::{leaf_bytes, nearest_child};
use crate::context::Context;
use crate::placement::{MigrateError, Migration};
use crate::value::{NewWords, TreeValue};

impl<V: TreeValue> Art<V> {
    /// Moves a leaf with its values; `None` where somebody was faster.
    pub(super) fn move_leaf(
        &self,
        spot: Spot<'_>,
        leaf: Leaf<'_>,
        to: TierId,
        keep_boundary: bool,
        context: &Context<'_, '_, Native>,
    ) -> Result<Option<Migration>, MigrateError> {
        let from = leaf.tier();
        if from == to {
            return Ok(Some(Migration::AlreadyThere));
        }
        if keep_boundary && to < spot.at.tier() {
            return Err(MigrateError::CrossesBoundary);
        }
        let Some(held) = self.lock_child(spot.at, spot.child, context) else {
            return Ok(None);
        };
        let Ok(old) = leaf.lock(context) else {
            return Ok(None);
        };
        let bytes = leaf_bytes::<V>(leaf, context);
        let Some(new) = copy_leaf::<V>(&old, to, context) else {
            return if leaf.live() == 0 {
                Err(MigrateError::Gone)
            } else {
                Err(MigrateError::NoRoom { tier: to, bytes })
            };
        };
        held.replace(Child::leaf(new), context);
        drop(held);
        let words: Vec<u64> = old.entries(&[]).map(|entry| entry.word).collect();
        old.retire();
        if !V::INLINE {
            for word in words {
                // SAFETY: the copy has words of its own, and this thread took the old ones out.
                unsafe { V::retire_word(word, context) };
            }
        }
        Ok(Some(Migration::Moved { from, bytes }))
    }

    /// Moves an inner node; `None` where somebody was faster.
    pub(super) fn move_node(
        &self,
        spot: Spot<'_>,
        node: Node<'_>,
        to: TierId,
        keep_boundary: bool,
        context: &Context<'_, '_, Native>,
    ) -> Result<Option<Migration>, MigrateError> {
        let from = node.tier();
        if from == to {
            return Ok(Some(Migration::AlreadyThere));
        }
        let Some(held) = self.lock_child(spot.at, spot.child, context) else {
            return Ok(None);
        };
        let Ok(old) = node.lock(context) else {
            return Ok(None);
        };
        let is_crossing =
            to < spot.at.tier() || nearest_child(node).is_some_and(|nearest| nearest < to);
        if keep_boundary && is_crossing {
            return Err(MigrateError::CrossesBoundary);
        }
        let shape = Shape {
            kind: node.kind(),
            prefix: [node.prefix(), &[], &[]],
            has_end: node.has_end(),
        };
        let bytes = shape.bytes();
        let Some(copy) = Node::allocate_on(shape, to, context) else {
            return Err(MigrateError::NoRoom { tier: to, bytes });
        };
        // SAFETY: the node is locked; the copy is nobody else's and has room.
        unsafe { copy.copy_from(node, context) };
        held.replace(Child::node(copy), context);
        drop(held);
        old.retire();
        Ok(Some(Migration::Moved { from, bytes }))
    }
}

/// A copy of a leaf and its values on a tier; `None` where there is no room, or no key left.
fn copy_leaf<'g, V: TreeValue>(
    old: &HeldLeaf<'_, Native>,
    to: TierId,
    context: &'g Context<'_, '_, Native>,
) -> Option<Leaf<'g>> {
    let mut words = NewWords::<V>::new(context.guard.memory());
    let mut entries = [Entry::default(); ENTRIES_MAX];
    let mut count = 0;
    for entry in old.entries(&[]) {
        // SAFETY: a word of the tree, whose leaf is locked.
        let word = unsafe { words.move_word(entry.word, context, to) }.ok()?;
        entries[count] = Entry { word, ..entry };
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let uses = old.leaf().counter().uses();
    let leaf = Leaf::allocate_on(&entries[..count], uses, to, context)?;
    words.keep();
    Some(leaf)
}
