//! What placement sees of the tree.

use std::ops::{Bound, ControlFlow};

use nearfar_memory::TierId;
use nearfar_model::Native;

use super::Art;
use super::child::{Child, Target};
use super::children::Direction;
use super::descent::Spot;
use super::leaf::Leaf;
use super::node::Node;
use super::scan::Walk;
use crate::context::Context;
use crate::memory::NodeMemory;
use crate::placement::{Frontend, LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
use crate::value::TreeValue;

/// Leaves that are visited under one guard.
const LEAVES_PER_GUARD: usize = 64;
/// Looks at a node that others change meanwhile, before giving up.
const ATTEMPTS: usize = 8;

/// The name of a node.
type Name = Placed<Box<[u8]>>;

impl<V: TreeValue> PlacedTree for Art<V> {
    type Node = Name;

    fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    fn frontend(&self) -> &Frontend {
        &self.frontend
    }

    fn height(&self) -> u32 {
        let mut height = 1;
        let _ = self.visit_leaves(&mut |leaf| {
            height = height.max(leaf.level + 1);
            ControlFlow::Continue(())
        });
        height
    }

    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visit_leaves_behind(None, visitor)
    }

    fn visit_leaves_from(
        &self,
        from: &Name,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let first = self.visit_some_leaves(Bound::Included(&from.key), visitor);
        Some(match first {
            ControlFlow::Continue(Some(last)) => self.visit_leaves_behind(Some(last), visitor),
            ControlFlow::Continue(None) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        })
    }

    fn identity(&self, node: &Name) -> Option<usize> {
        let context = Context::native(&self.memory);
        let spot = self.named(node, &context)?;
        // SAFETY: read from a slot under the guard of `context`.
        match unsafe { spot.child.target() } {
            Target::Nothing => None,
            Target::Leaf(leaf) => Some(leaf.base().as_ptr().addr()),
            Target::Plain(node) | Target::Prefixed(node) => Some(node.base().as_ptr().addr()),
        }
    }

    fn parent(&self, node: &Name) -> Option<Name> {
        node.parent()
    }

    fn view(&self, node: &Name) -> Option<NodeView> {
        let context = Context::native(&self.memory);
        let spot = self.named(node, &context)?;
        // SAFETY: read from a slot under the guard of `context`.
        match unsafe { spot.child.target() } {
            Target::Nothing => None,
            Target::Leaf(leaf) => Some(NodeView {
                level: spot.level,
                tier: leaf.tier(),
                bytes: leaf_bytes::<V>(leaf, &context),
                is_leaf: true,
                nearest_child: None,
            }),
            Target::Plain(node) | Target::Prefixed(node) => Some(NodeView {
                level: spot.level,
                tier: node.tier(),
                bytes: node.bytes(),
                is_leaf: false,
                nearest_child: nearest_child(node),
            }),
        }
    }

    fn migrate(
        &self,
        node: &Name,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError> {
        let context = Context::native(&self.memory);
        for _ in 0..ATTEMPTS {
            let spot = self.named(node, &context).ok_or(MigrateError::Gone)?;
            // SAFETY: read from a slot under the guard of `context`.
            let moved = match unsafe { spot.child.target() } {
                Target::Nothing => return Err(MigrateError::Gone),
                Target::Leaf(leaf) => self.move_leaf(spot, leaf, to, keep_boundary, &context)?,
                Target::Plain(node) | Target::Prefixed(node) => {
                    self.move_node(spot, node, to, keep_boundary, &context)?
                }
            };
            if let Some(moved) = moved {
                return Ok(moved);
            }
        }
        Err(MigrateError::Busy)
    }
}

impl<V: TreeValue> Art<V> {
    /// Visits the leaves behind a key, or all.
    fn visit_leaves_behind(
        &self,
        mut last: Option<Box<[u8]>>,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            last = self.visit_some_leaves(from, visitor)?;
            if last.is_none() {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Visits as many leaves as may be under one guard; returns the last key of the last of them,
    /// if more may follow. The leaf where `from` is included comes even if it has no such key any
    /// more.
    fn visit_some_leaves(
        &self,
        from: Bound<&[u8]>,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Option<Box<[u8]>>> {
        let context = Context::native(&self.memory);
        let root = Child::load(&self.root, &context.guard);
        let mut walk = Walk::new(root, from, Direction::Forward, &context);
        let mut visited = 0;
        while let Some(leaf) = walk.next_leaf() {
            let Some(index) = (0..leaf.count()).rev().find(|index| leaf.is_live(*index)) else {
                continue;
            };
            let key = [walk.path.as_slice(), leaf.suffix(index)].concat();
            if matches!(from, Bound::Excluded(last) if *key <= *last) {
                continue;
            }
            let node = Placed {
                key: key.into_boxed_slice(),
                level: walk.level(),
            };
            visitor(LeafView {
                node: &node,
                level: node.level,
                tier: leaf.tier(),
                bytes: leaf_bytes::<V>(leaf, &context),
                counter: leaf.counter(),
            })?;
            visited += 1;
            if visited == LEAVES_PER_GUARD {
                return ControlFlow::Continue(Some(node.key));
            }
        }
        ControlFlow::Continue(None)
    }

    /// The place of a named node, and what is there.
    fn named<'g>(&self, name: &Name, context: &'g Context<'_, '_, Native>) -> Option<Spot<'g>> {
        let spot = self.descend_to(&name.key, name.level, context);
        let is_there = spot.level == name.level && !spot.child.is_nothing();
        is_there.then_some(spot)
    }
}

/// Bytes of a leaf with its values.
pub(super) fn leaf_bytes<V: TreeValue>(leaf: Leaf<'_>, context: &Context<'_, '_, Native>) -> usize {
    let block = leaf.bytes();
    if V::INLINE {
        return block;
    }
    let live = (0..leaf.count()).filter(|index| leaf.is_live(*index));
    let values = live.map(|index| {
        let word = leaf.value(index).load(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: a word of this tree's memory, read under the guard.
        unsafe { V::bytes_beside(word, context) }
    });
    block + values.sum::<usize>()
}

/// The nearest tier of a node's children.
pub(super) fn nearest_child(node: Node<'_>) -> Option<TierId> {
    let tiers = node.children_alone().filter_map(|(_, child)| {
        // SAFETY: the node was reached under a guard, and so were its children.
        match unsafe { child.target() } {
            Target::Nothing => None,
            Target::Leaf(leaf) => Some(leaf.tier()),
            Target::Plain(node) | Target::Prefixed(node) => Some(node.tier()),
        }
    });
    tiers.min()
}
