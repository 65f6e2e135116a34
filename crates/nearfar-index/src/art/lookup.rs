//! Point lookups.

use std::sync::atomic::Ordering::SeqCst;

use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Target};
use super::leaf::Leaf;
use super::node::Node;
use crate::context::Context;
use crate::value::TreeValue;

/// The bytes of a leaf that a lookup reads at least: its header and some of the suffixes.
pub(super) const LEAF_HEAD_BYTES: usize = 16;

impl<V: TreeValue> Art<V> {
    pub(super) fn get_in<P: Probe>(&self, key: &[u8], context: &Context<'_, '_, P>) -> Option<V> {
        let (leaf, rest) = self.leaf_of(key, context)?;
        self.get_in_leaf(leaf, rest, context)
    }

    /// The leaf where a key is, if it is anywhere, and what is left of the key there.
    #[inline(always)]
    pub(super) fn leaf_of<'g, 'k, P: Probe>(
        &self,
        key: &'k [u8],
        context: &'g Context<'_, '_, P>,
    ) -> Option<(Leaf<'g>, &'k [u8])> {
        let mut child = Child::load(&self.root, &context.guard);
        let mut rest = key;
        loop {
            // SAFETY: children are read from slots under the guard of `context`.
            (child, rest) = match unsafe { child.target() } {
                Target::Nothing => return None,
                Target::Leaf(leaf) => return Some((leaf, rest)),
                Target::Plain(node) => step(node, rest, context),
                Target::Prefixed(node) => {
                    context.follow(node.base().as_ptr(), 16);
                    step(node, node.after_prefix(rest)?, context)
                }
            };
        }
    }

    /// The value of a key in its leaf.
    #[inline(always)]
    pub(super) fn get_in_leaf<P: Probe>(
        &self,
        leaf: Leaf<'_>,
        rest: &[u8],
        context: &Context<'_, '_, P>,
    ) -> Option<V> {
        context.follow(leaf.base().as_ptr(), LEAF_HEAD_BYTES);
        let index = leaf.find(rest)?;
        self.frontend.use_leaf(leaf.counter(), context.probe);
        let value = leaf.value(index);
        context.probe.read(std::ptr::from_ref(value).addr(), 8);
        // In the order of the guard's loads, which a value in a block of its own needs.
        let word = value.load(SeqCst);
        // SAFETY: a word of this tree's memory, read under the guard.
        Some(unsafe { V::from_word(word, context) })
    }
}

/// The child of a node, whose prefix was passed, on the way of the rest of a key.
#[inline(always)]
fn step<'k, P: Probe>(
    node: Node<'_>,
    rest: &'k [u8],
    context: &Context<'_, '_, P>,
) -> (Child, &'k [u8]) {
    if let Some((byte, below)) = rest.split_first() {
        (node.child(*byte, context), below)
    } else {
        let end = node.end_slot();
        let child = end.map_or(Child::NOTHING, |slot| Child::load(slot, &context.guard));
        (child, rest)
    }
}
