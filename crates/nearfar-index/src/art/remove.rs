//! Removing: a key by its bit, then whatever became superfluous.
//!
//! A removal needs no memory, so it cannot fail. What follows it does need some where a leaf or
//! a node is replaced by a smaller one, and is left out when there is none: the tree is then
//! larger than it need be, until the next removal nearby.

use std::sync::atomic::Ordering::Relaxed;

use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Target};
use super::descent::{HeldPlace, Spot};
use super::leaf::{self, BUCKET_BYTES_MAX, ENTRIES_MAX, Entry, HeldLeaf, Leaf};
use super::node::{HeldNode, Kind, Node, Shape};
use crate::context::Context;
use crate::value::TreeValue;

/// Whether there is something to look at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tidied {
    /// It was tidied, or somebody was faster.
    LookAgain,
    /// There was nothing to do, or no memory for it.
    Nothing,
}

impl<V: TreeValue> Art<V> {
    pub(super) fn remove_in<P: Probe>(
        &self,
        key: &[u8],
        context: &Context<'_, '_, P>,
    ) -> Option<V> {
        loop {
            let (leaf, rest) = self.leaf_of(key, context)?;
            context.follow(leaf.base().as_ptr(), super::lookup::LEAF_HEAD_BYTES);
            let index = leaf.find(rest)?;
            let Ok(held) = leaf.lock(context) else {
                continue;
            };
            if !leaf.is_live(index) {
                continue;
            }
            let word = leaf.value(index).load(Relaxed);
            let left = held.remove(index);
            context.probe.write(leaf.base().as_ptr().addr(), 8);
            drop(held);
            self.count.take_one();
            self.frontend.use_leaf(leaf.counter(), context.probe);
            if is_thin(left, leaf) {
                self.tidy(key, context);
            }
            // SAFETY: the word was in this tree until now, and this thread took it out.
            unsafe {
                let value = V::from_word(word, context);
                V::retire_word(word, context);
                return Some(value);
            }
        }
    }

    /// Makes what is on the way to a key as small as its keys allow.
    fn tidy<P: Probe>(&self, key: &[u8], context: &Context<'_, '_, P>) {
        loop {
            let spot = self.descend(key, context);
            // SAFETY: read from a slot under the guard of `context`.
            if let Target::Leaf(leaf) = unsafe { spot.child.target() }
                && is_thin(leaf.live().count_ones(), leaf)
            {
                match self.compact(spot, leaf, context) {
                    Tidied::LookAgain => continue,
                    Tidied::Nothing => return,
                }
            }
            let Some(node) = spot.at.node() else {
                return;
            };
            if self.shrink(spot, node, context) == Tidied::Nothing {
                return;
            }
        }
    }

    /// Replaces a leaf by one of the keys that are left, or by nothing.
    fn compact<P: Probe>(
        &self,
        spot: Spot<'_>,
        leaf: Leaf<'_>,
        context: &Context<'_, '_, P>,
    ) -> Tidied {
        let Some(mut held) = self.lock_child(spot.at, spot.child, context) else {
            return Tidied::LookAgain;
        };
        let Ok(old) = leaf.lock(context) else {
            return Tidied::LookAgain;
        };
        let mut entries = [Entry::default(); ENTRIES_MAX];
        let mut count = 0;
        for entry in old.entries(&[]) {
            entries[count] = entry;
            count += 1;
        }
        if count == 0 {
            held.clear(context);
        } else {
            let uses = leaf.counter().uses();
            let new = Leaf::allocate(&entries[..count], uses, leaf.tier(), context);
            let Ok(new) = new else {
                return Tidied::Nothing;
            };
            held.replace(Child::leaf(new), context);
        }
        drop(held);
        old.retire();
        Tidied::LookAgain
    }

    /// Replaces a node that has few children left: by nothing, by its only child with a longer
    /// path, by one leaf, or by a smaller node.
    fn shrink<P: Probe>(
        &self,
        spot: Spot<'_>,
        node: Node<'_>,
        context: &Context<'_, '_, P>,
    ) -> Tidied {
        let children = node.count();
        let kind = node.kind().after_removal(children);
        if kind == node.kind() && !may_become_a_leaf(node) {
            return Tidied::Nothing;
        }
        let Some(mut above) = self.lock_child(spot.above, Child::node(node), context) else {
            return Tidied::LookAgain;
        };
        let Ok(held) = node.lock(context) else {
            return Tidied::LookAgain;
        };
        let mut all = node.children_alone();
        let first = all.next();
        if first.is_none() {
            above.clear(context);
            drop(above);
            held.retire();
            return Tidied::LookAgain;
        }
        let only = first.filter(|_| all.next().is_none());
        if node.kind() == Kind::Small5 {
            if let Some((Some(byte), child)) = only
                // SAFETY: a child of a node that is locked and so part of the tree.
                && let Target::Plain(lower) | Target::Prefixed(lower) = unsafe { child.target() }
            {
                return merge(above, held, byte, lower, context);
            }
            return gather(above, held, context);
        }
        if kind == node.kind() {
            return Tidied::Nothing;
        }
        let shape = Shape {
            kind: node.kind().after_removal(node.count()),
            prefix: [node.prefix(), &[], &[]],
            has_end: node
                .end_slot()
                .is_some_and(|slot| !Child::load_alone(slot).is_nothing()),
        };
        let Ok(copy) = Node::allocate(shape, node.tier(), context) else {
            return Tidied::Nothing;
        };
        // SAFETY: the node is locked; the copy is nobody else's and has room.
        unsafe { copy.copy_from(node, context) };
        above.replace(Child::node(copy), context);
        drop(above);
        held.retire();
        Tidied::LookAgain
    }
}

/// Whether a leaf with so many keys left is to be replaced by a smaller one.
fn is_thin(left: u32, leaf: Leaf<'_>) -> bool {
    left as usize * 2 <= leaf.count()
}

/// A look without locks at whether all children are leaves with few keys.
fn may_become_a_leaf(node: Node<'_>) -> bool {
    if node.kind() != Kind::Small5 {
        return false;
    }
    let mut keys = 0;
    let mut children = 0;
    for (_, child) in node.children_alone() {
        children += 1;
        // SAFETY: the node was reached under a guard, and so were its children.
        match unsafe { child.target() } {
            Target::Leaf(leaf) => keys += leaf.live().count_ones() as usize,
            Target::Nothing => {}
            Target::Plain(_) | Target::Prefixed(_) => return children == 1 && node.count() == 1,
        }
    }
    children <= 1 || keys <= ENTRIES_MAX / 2
}

/// Replaces a node and its only child, a node too, by one.
fn merge<P: Probe>(
    above: HeldPlace<'_, P>,
    held: HeldNode<'_, P>,
    byte: u8,
    lower: Node<'_>,
    context: &Context<'_, '_, P>,
) -> Tidied {
    let Ok(held_lower) = lower.lock(context) else {
        return Tidied::LookAgain;
    };
    let shape = Shape {
        kind: lower.kind(),
        prefix: [held.node().prefix(), &[byte], lower.prefix()],
        has_end: lower.has_end(),
    };
    let Ok(copy) = Node::allocate(shape, lower.tier(), context) else {
        return Tidied::Nothing;
    };
    // SAFETY: the lower node is locked; the copy is nobody else's and has room.
    unsafe { copy.copy_from(lower, context) };
    above.replace(Child::node(copy), context);
    drop(above);
    held.retire();
    held_lower.retire();
    Tidied::LookAgain
}

/// Replaces a node whose children are leaves with few keys by one leaf, or by nothing.
fn gather<P: Probe>(
    mut above: HeldPlace<'_, P>,
    held: HeldNode<'_, P>,
    context: &Context<'_, '_, P>,
) -> Tidied {
    let node = held.node();
    let mut leaves: Vec<(HeldLeaf<'_, P>, Vec<u8>)> = Vec::new();
    for (byte, child) in node.children_alone() {
        // SAFETY: children of a node that is locked and so part of the tree.
        let Target::Leaf(leaf) = (unsafe { child.target() }) else {
            return Tidied::Nothing;
        };
        let Ok(leaf) = leaf.lock(context) else {
            return Tidied::LookAgain;
        };
        let path = node.prefix().iter().copied().chain(byte);
        leaves.push((leaf, path.collect()));
    }
    let entries = leaves.iter().flat_map(|(leaf, path)| leaf.entries(path));
    let entries: Vec<Entry<'_>> = entries.collect();
    if entries.is_empty() {
        above.clear(context);
    } else {
        let is_worth_it = leaves.len() == 1
            || entries.len() == 1
            || (entries.len() <= ENTRIES_MAX / 2
                && leaf::bytes_of(&entries) <= BUCKET_BYTES_MAX / 2);
        if !is_worth_it || !leaf::fits(&entries) {
            return Tidied::Nothing;
        }
        let uses = leaves.iter().map(|(leaf, _)| leaf.leaf().counter().uses());
        let tiers = leaves.iter().map(|(leaf, _)| leaf.leaf().tier());
        let (Some(uses), Some(tier)) = (uses.max(), tiers.min()) else {
            return Tidied::Nothing;
        };
        let Ok(new) = Leaf::allocate(&entries, uses, tier, context) else {
            return Tidied::Nothing;
        };
        above.replace(Child::leaf(new), context);
    }
    drop(above);
    drop(entries);
    held.retire();
    for (leaf, _) in leaves {
        leaf.retire();
    }
    Tidied::LookAgain
}
