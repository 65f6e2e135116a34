//! What placement sees of the tree.

use std::ops::ControlFlow;

use nearfar_memory::TierId;

use super::descent::{Path, Step};
use super::node::{Node, Restart};
use super::scan::{Cursor, LEAVES_PER_GUARD};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::NodeMemory;
use crate::placement::{Frontend, LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
use crate::value::TreeValue;

/// Attempts before a mover lets the writers have the node.
const ATTEMPTS: usize = 64;

impl<V: TreeValue> PlacedTree for BPlusTree<V> {
    type Node = Placed<u64>;

    fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    fn frontend(&self) -> &Frontend {
        &self.frontend
    }

    fn height(&self) -> u32 {
        let context = Context::native(&self.memory);
        self.seek(&context, 0).level + 1
    }

    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Placed<u64>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visit_leaves_upwards(0, visitor)
    }

    fn visit_leaves_from(
        &self,
        from: &Placed<u64>,
        visitor: &mut dyn FnMut(LeafView<'_, Placed<u64>>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        Some(self.visit_leaves_upwards(from.key, visitor))
    }

    fn identity(&self, node: &Placed<u64>) -> Option<usize> {
        let context = Context::native(&self.memory);
        loop {
            if let Ok(path) = self.path_to(&context, node) {
                return path.map(|path| path.last().node.as_ptr().addr());
            }
        }
    }

    fn parent(&self, node: &Placed<u64>) -> Option<Placed<u64>> {
        node.parent()
    }

    fn view(&self, node: &Placed<u64>) -> Option<NodeView> {
        let context = Context::native(&self.memory);
        loop {
            if let Ok(view) = self.try_view(&context, node) {
                return view;
            }
        }
    }

    fn migrate(
        &self,
        node: &Placed<u64>,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError> {
        for _ in 0..ATTEMPTS {
            let context = Context::native(&self.memory);
            if let Ok(result) = self.try_migrate(&context, node, to, keep_boundary) {
                return result;
            }
        }
        Err(MigrateError::Busy)
    }
}

impl<V: TreeValue> BPlusTree<V> {
    /// Visits the leaf for `key` and all behind it, some under one guard.
    fn visit_leaves_upwards(
        &self,
        key: u64,
        visitor: &mut dyn FnMut(LeafView<'_, Placed<u64>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut next = Some(key);
        while next.is_some() {
            let context = Context::native(&self.memory);
            let mut cursor: Option<Cursor<'_>> = None;
            for _ in 0..LEAVES_PER_GUARD {
                let Some(key) = next else { break };
                let here = self.seek_up(&context, cursor, key);
                visitor(LeafView {
                    node: &Placed {
                        key: here.range.low,
                        level: here.level,
                    },
                    level: here.level,
                    tier: here.leaf.tier(),
                    bytes: self.bytes_with_values(&context, here.leaf, || here.validate(&context)),
                    counter: here.leaf.counter(),
                })?;
                next = here.range.high.checked_add(1);
                cursor = Some(here);
            }
        }
        ControlFlow::Continue(())
    }

    /// The way to a node by its name; `None` where the tree has no such level.
    pub(super) fn path_to<'g>(
        &'g self,
        context: &'g Context<'_, '_>,
        node: &Placed<u64>,
    ) -> Result<Option<Path<'g>>, Restart> {
        let level = node.level as usize;
        let path = self.path(context, node.key, |_, above| above == level)?;
        Ok(Some(path).filter(|path| path.steps.len() == level + 1))
    }

    /// Bytes of a node and of the values that belong to it, of which there are none unless the
    /// words that were read are good.
    pub(super) fn bytes_with_values(
        &self,
        context: &Context<'_, '_>,
        node: Node<'_>,
        are_words_good: impl FnOnce() -> bool,
    ) -> usize {
        let mut bytes = self.geometry.bytes();
        if !V::INLINE && node.height() == 0 {
            let pairs = node.pairs();
            if are_words_good() {
                for (_, word) in pairs {
                    // SAFETY: the word was the tree's at the validation, under this guard.
                    bytes += unsafe { V::bytes_beside(word, context) };
                }
            }
        }
        bytes
    }

    fn try_view(
        &self,
        context: &Context<'_, '_>,
        name: &Placed<u64>,
    ) -> Result<Option<NodeView>, Restart> {
        let Some(path) = self.path_to(context, name)? else {
            return Ok(None);
        };
        let Step { node, version, .. } = *path.last();
        let mut nearest_child = None;
        if node.height() > 0 {
            for index in 0..=node.count() {
                let tier = node.child(index, version, context)?.tier();
                nearest_child = Some(nearest_child.map_or(tier, |nearest| tier.min(nearest)));
            }
        }
        let is_good = || node.validate(version, context).is_ok();
        let bytes = self.bytes_with_values(context, node, is_good);
        node.validate(version, context)?;
        Ok(Some(NodeView {
            level: name.level,
            tier: node.tier(),
            bytes,
            is_leaf: node.height() == 0,
            nearest_child,
        }))
    }
}
