//! Places in the tree that hold a child, and the way down to one.

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Slot, Target};
use super::node::{HeldNode, Node};
use crate::context::Context;
use crate::lock::{Obsolete, OptimisticLock};
use crate::value::TreeValue;

/// What holds a child.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'g> {
    /// The tree itself.
    Root,
    /// A node, for the byte.
    Byte(Node<'g>, u8),
    /// A node, for the key that ends at it.
    End(Node<'g>),
}

impl<'g> Place<'g> {
    /// The node that holds it.
    pub(super) fn node(self) -> Option<Node<'g>> {
        match self {
            Self::Root => None,
            Self::Byte(node, _) | Self::End(node) => Some(node),
        }
    }

    /// Where the node lies that holds it; of no meaning for the root.
    pub(super) fn tier(self) -> TierId {
        self.node().map_or(TierId::NEAR, Node::tier)
    }
}

/// A place that nobody else writes.
#[derive(Debug)]
pub(super) struct HeldPlace<'g, P: Probe> {
    place: Place<'g>,
    holder: Holder<'g, P>,
    root: &'g Slot,
}

#[derive(Debug)]
enum Holder<'g, P: Probe> {
    Root {
        /// Unlocks when it is dropped.
        _held: HeldRoot<'g, P>,
    },
    Node(HeldNode<'g, P>),
}

/// The lock of the place that holds the topmost node.
#[derive(Debug)]
struct HeldRoot<'g, P: Probe> {
    lock: &'g OptimisticLock,
    context: &'g Context<'g, 'g, P>,
}

impl<P: Probe> Drop for HeldRoot<'_, P> {
    fn drop(&mut self) {
        self.context.unlock_unchanged(self.lock);
    }
}

impl<'g, P: Probe> HeldPlace<'g, P> {
    fn slot(&self) -> Option<&'g Slot> {
        match self.place {
            Place::Root => Some(self.root),
            Place::Byte(node, byte) => node.slot_of(byte),
            Place::End(node) => node.end_slot(),
        }
    }

    /// The child.
    pub(super) fn child(&self) -> Child {
        self.slot().map_or(Child::NOTHING, Child::load_alone)
    }

    /// Puts another child where one is. Readers see the old one or the new one.
    pub(super) fn replace(&self, child: Child, context: &Context<'_, '_, P>) {
        if let Some(slot) = self.slot() {
            context.probe.write(std::ptr::from_ref(slot).addr(), 8);
            child.store(slot);
        }
    }

    /// Puts a child where none is; false where the node has no room for it.
    pub(super) fn fill(&mut self, child: Child, context: &Context<'_, '_, P>) -> bool {
        match (&mut self.holder, self.place) {
            (Holder::Node(held), Place::Byte(node, byte)) => {
                if !held.add(byte, child) {
                    return false;
                }
                let slot = node
                    .slot_of(byte)
                    .map_or(0, |slot| std::ptr::from_ref(slot).addr());
                context.probe.write(slot, 8);
                true
            }
            _ => {
                self.replace(child, context);
                self.slot().is_some()
            }
        }
    }

    /// Takes the child away.
    pub(super) fn clear(&mut self, context: &Context<'_, '_, P>) {
        match (&mut self.holder, self.place) {
            (Holder::Node(held), Place::Byte(_, byte)) => held.remove(byte),
            _ => self.replace(Child::NOTHING, context),
        }
    }
}

/// Where the way to a key led.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'g> {
    /// What holds the node of `at`.
    pub(super) above: Place<'g>,
    /// What holds, or would hold, the child where the way ended.
    pub(super) at: Place<'g>,
    /// That child: nothing, a leaf, or a node whose prefix is not the key's.
    pub(super) child: Child,
    /// Bytes of the key before the child.
    pub(super) depth: usize,
    /// Nodes above the child.
    pub(super) level: u32,
}

impl<V: TreeValue> Art<V> {
    /// Goes down the way of a key, to a leaf or to where there is none, or to a level.
    #[inline(always)]
    pub(super) fn descend_to<'g, P: Probe>(
        &self,
        key: &[u8],
        level: u32,
        context: &'g Context<'_, '_, P>,
    ) -> Spot<'g> {
        let mut spot = self.top(context);
        while spot.level < level {
            // SAFETY: children are read from slots under the guard of `context`.
            let (node, rest) = match unsafe { spot.child.target() } {
                Target::Nothing | Target::Leaf(_) => break,
                // No prefix: its header is not touched on the way.
                Target::Plain(node) => (node, &key[spot.depth..]),
                Target::Prefixed(node) => match node.after_prefix(&key[spot.depth..]) {
                    Some(rest) => (node, rest),
                    None => break,
                },
            };
            spot = spot.below(node, rest, key.len() - rest.len(), context);
        }
        spot
    }

    /// Goes down the way of a key, to a leaf or to where there is none.
    #[inline]
    pub(super) fn descend<'g, P: Probe>(
        &self,
        key: &[u8],
        context: &'g Context<'_, '_, P>,
    ) -> Spot<'g> {
        self.descend_to(key, u32::MAX, context)
    }

    /// The way's beginning.
    fn top<'g, P: Probe>(&self, context: &'g Context<'_, '_, P>) -> Spot<'g> {
        Spot {
            above: Place::Root,
            at: Place::Root,
            child: Child::load(&self.root, &context.guard),
            depth: 0,
            level: 0,
        }
    }

    /// Keeps other writers out of a place.
    pub(super) fn lock_place<'g, P: Probe>(
        &'g self,
        place: Place<'g>,
        context: &'g Context<'_, '_, P>,
    ) -> Result<HeldPlace<'g, P>, Obsolete> {
        let holder = if let Some(node) = place.node() {
            Holder::Node(node.lock(context)?)
        } else {
            let lock = &self.root_lock;
            context.lock(lock)?;
            Holder::Root {
                _held: HeldRoot { lock, context },
            }
        };
        Ok(HeldPlace {
            place,
            holder,
            root: &self.root,
        })
    }

    /// Keeps other writers out of a place that still holds `child`; `None` where it does not.
    pub(super) fn lock_child<'g, P: Probe>(
        &'g self,
        place: Place<'g>,
        child: Child,
        context: &'g Context<'_, '_, P>,
    ) -> Option<HeldPlace<'g, P>> {
        let held = self.lock_place(place, context).ok()?;
        (held.child() == child).then_some(held)
    }
}

impl<'g> Spot<'g> {
    /// One node further down, past its prefix: `rest` of the key is left after `depth` bytes.
    #[inline(always)]
    fn below<P: Probe>(
        &self,
        node: Node<'g>,
        rest: &[u8],
        depth: usize,
        context: &'g Context<'_, '_, P>,
    ) -> Self {
        let (at, child, depth) = if let Some(byte) = rest.first() {
            (
                Place::Byte(node, *byte),
                node.child(*byte, context),
                depth + 1,
            )
        } else {
            let end = node.end_slot();
            let child = end.map_or(Child::NOTHING, |slot| Child::load(slot, &context.guard));
            (Place::End(node), child, depth)
        };
        Self {
            above: self.at,
            at,
            child,
            depth,
            level: self.level + 1,
        }
    }
}
