//! Subtrees that nobody knows yet: made whole, published in one step, or given up.

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Target};
use super::descent::Place;
use super::leaf::{self, Entry, Leaf};
use super::node::{Kind, Node, Shape};
use crate::context::Context;
use crate::memory::{NodeMemory, OutOfMemory, Purpose};
use crate::placement::NewNode;
use crate::value::TreeValue;

impl Node<'_> {
    /// Puts a child where the place says, on a node that has room.
    ///
    /// # Safety
    /// Nobody else knows the node.
    pub(super) unsafe fn put(self, place: Place<'_>, child: Child) {
        match place {
            Place::Byte(_, byte) => {
                // SAFETY: the caller's promise.
                let is_added = unsafe { self.add(byte, child) };
                debug_assert!(is_added, "a new node has room");
            }
            Place::End(_) | Place::Root => {
                if let Some(slot) = self.end_slot() {
                    child.store(slot);
                }
            }
        }
    }
}

impl<V: TreeValue> Art<V> {
    /// Leaves for keys in order, none of which has a path, below as few nodes as they need.
    pub(super) fn build<P: Probe>(
        &self,
        entries: &[Entry<'_>],
        uses: u16,
        level: u32,
        parent: TierId,
        context: &Context<'_, '_, P>,
    ) -> Result<Child, OutOfMemory> {
        let mut new = NewNode {
            level,
            is_leaf: true,
            parent,
            bytes: 0,
        };
        if leaf::fits(entries) {
            new.bytes = leaf::bytes_of(entries);
            let tier = self.frontend.tier_for(new);
            return Leaf::allocate(entries, uses, tier, context).map(Child::leaf);
        }
        let (first, last) = (entries[0].suffix, entries[entries.len() - 1].suffix);
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let byte = |entry: &Entry<'_>| entry.suffix.get(shared).copied();
        let has_end = byte(&entries[0]).is_none();
        let groups = entries.chunk_by(|a, b| byte(a) == byte(b));
        let shape = Shape {
            kind: Kind::with_room(groups.clone().count() - usize::from(has_end)),
            prefix: [&first[..shared], &[], &[]],
            has_end,
        };
        (new.is_leaf, new.bytes) = (false, shape.bytes());
        let tier = self.frontend.tier_for(new);
        let node = Node::allocate(shape, tier, context)?;
        for group in groups {
            let mut below = [Entry::default(); leaf::ENTRIES_MAX + 1];
            let below = &mut below[..group.len()];
            for (to, from) in below.iter_mut().zip(group) {
                *to = *from;
                to.suffix = from.suffix.get(shared + 1..).unwrap_or_default();
            }
            let child = match self.build(below, uses, level + 1, node.tier(), context) {
                Ok(child) => child,
                Err(error) => {
                    discard(Child::node(node), context);
                    return Err(error);
                }
            };
            let place = match byte(&group[0]) {
                Some(byte) => Place::Byte(node, byte),
                None => Place::End(node),
            };
            // SAFETY: nobody else knows the node.
            unsafe { node.put(place, child) };
        }
        Ok(Child::node(node))
    }
}

/// Frees the blocks of a subtree that was never published, but not its values.
pub(super) fn discard<P: Probe>(child: Child, context: &Context<'_, '_, P>) {
    // SAFETY: made in this operation, and nobody else knows it.
    unsafe { free_subtree(child, context.guard.memory(), |_| ()) };
}

/// Frees the blocks of a subtree, and calls `value` with the word of each key in it.
///
/// # Safety
/// Nobody else can reach it, its blocks came from `memory`, and it is freed once.
pub(super) unsafe fn free_subtree(child: Child, memory: &NodeMemory, mut value: impl FnMut(u64)) {
    // Not by recursion: a tree can be as deep as a key is long.
    let mut waiting = vec![child];
    while let Some(child) = waiting.pop() {
        // SAFETY: the subtree is nobody else's and still whole below this child.
        match unsafe { child.target() } {
            Target::Nothing => {}
            Target::Leaf(leaf) => {
                for index in (0..leaf.count()).filter(|index| leaf.is_live(*index)) {
                    value(leaf.value(index).load(std::sync::atomic::Ordering::Relaxed));
                }
                // SAFETY: as above; size and tier are those of the allocation.
                unsafe { memory.free(leaf.base(), leaf.bytes(), leaf.tier(), Purpose::Node) };
            }
            Target::Plain(node) | Target::Prefixed(node) => {
                waiting.extend(node.children_alone().map(|(_, child)| child));
                // SAFETY: as above; its children were noted.
                unsafe { node.free(memory) };
            }
        }
    }
}
