//! Migration: a node moves to another tier while others use the tree.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Release;

use nearfar_memory::TierId;

use super::descent::{Path, Step};
use super::node::{Node, Restart};
use super::scan::{Cursor, LEAVES_PER_GUARD};
use super::split::Held;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::{NodeMemory, Purpose};
use crate::placement::{Frontend, LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
use crate::value::{NewWords, TreeValue};

/// Attempts before a mover lets the writers have the node.
const ATTEMPTS: usize = 64;

/// A copy of a node that is not in the tree yet: freed unless it is published.
struct NodeCopy<'t, V: TreeValue> {
    node: Node<'t>,
    tree: &'t BPlusTree<V>,
}

impl<'t, V: TreeValue> NodeCopy<'t, V> {
    fn publish(self) -> Node<'t> {
        let node = self.node;
        std::mem::forget(self);
        node
    }
}

impl<V: TreeValue> Drop for NodeCopy<'_, V> {
    fn drop(&mut self) {
        // SAFETY: nobody else has seen the node.
        unsafe { self.tree.free_node(self.node) };
    }
}

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
                    bytes: self.bytes_with_values(&context, here.leaf, || here.validate()),
                    counter: here.leaf.counter(),
                })?;
                next = here.range.high.checked_add(1);
                cursor = Some(here);
            }
        }
        ControlFlow::Continue(())
    }

    /// The way to a node by its name; `None` where the tree has no such level.
    fn path_to<'g>(
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
    fn bytes_with_values(
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
        let is_good = || node.validate(version).is_ok();
        let bytes = self.bytes_with_values(context, node, is_good);
        node.validate(version)?;
        Ok(Some(NodeView {
            level: name.level,
            tier: node.tier(),
            bytes,
            is_leaf: node.height() == 0,
            nearest_child,
        }))
    }

    fn try_migrate(
        &self,
        context: &Context<'_, '_>,
        name: &Placed<u64>,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Result<Migration, MigrateError>, Restart> {
        let Some(path) = self.path_to(context, name)? else {
            return Ok(Err(MigrateError::Gone));
        };
        let Step { node, version, .. } = *path.last();
        if node.tier() == to {
            return Ok(Ok(Migration::AlreadyThere));
        }
        let above = path.steps.len().checked_sub(2);
        let parent = above.map(|above| path.steps[above]);
        let is_before_parent = parent.is_some_and(|parent| to < parent.node.tier());
        if keep_boundary && is_before_parent {
            return Ok(Err(MigrateError::CrossesBoundary));
        }
        let bytes = self.geometry.bytes();
        let Some(block) = self.memory.allocate_on(bytes, to, Purpose::Node) else {
            return Ok(Err(MigrateError::NoRoom { tier: to, bytes }));
        };
        let uses = node.counter().uses();
        let copy = NodeCopy {
            // SAFETY: the block is fresh, of that size, and is freed unless it is published.
            node: unsafe { Node::create(block, &self.geometry, node.height(), to, uses) },
            tree: self,
        };
        let mut held = Held::new();
        let above = parent.map_or((&self.root_lock, path.root_version), |parent| {
            (parent.node.lock(), parent.version)
        });
        held.take(above.0, above.1)?;
        held.take(node.lock(), version)?;
        let bytes = match self.copy_locked(context, node, copy.node, keep_boundary) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let copy = copy.publish();
        held.leave();
        match parent {
            Some(parent) => parent.node.set_child(parent.rank, copy),
            None => self.root.store(copy.as_ptr(), Release),
        }
        self.retire_copied(context, node);
        node.lock().unlock_obsolete();
        above.0.unlock();
        let from = node.tier();
        Ok(Ok(Migration::Moved { from, bytes }))
    }

    /// Copies a locked node to one that nobody else can reach, with the values that belong to it;
    /// returns the bytes of both.
    fn copy_locked(
        &self,
        context: &Context<'_, '_>,
        node: Node<'_>,
        copy: Node<'_>,
        keep_boundary: bool,
    ) -> Result<usize, MigrateError> {
        node.report_stream(0, node.count(), context);
        if node.height() == 0 {
            return self.copy_leaf_locked(context, node, copy);
        }
        let children = 0..=node.count();
        // SAFETY: the node is locked.
        let mut tiers = children.map(|index| unsafe { node.child_of_locked(index) }.tier());
        if keep_boundary && tiers.any(|tier| tier < copy.tier()) {
            return Err(MigrateError::CrossesBoundary);
        }
        copy.fill_inner(&node.separators(), &node.child_pointers(), context);
        Ok(self.geometry.bytes())
    }

    fn copy_leaf_locked(
        &self,
        context: &Context<'_, '_>,
        leaf: Node<'_>,
        copy: Node<'_>,
    ) -> Result<usize, MigrateError> {
        let to = copy.tier();
        let bytes = self.bytes_with_values(context, leaf, || true);
        let mut pairs = leaf.pairs();
        let mut words = NewWords::<V>::new(&self.memory);
        for (_, word) in &mut pairs {
            // SAFETY: the word is the locked leaf's.
            let moved = unsafe { words.move_word(*word, context, to) };
            *word = moved.map_err(|_| MigrateError::NoRoom { tier: to, bytes })?;
        }
        copy.fill_leaf(0, &pairs, context);
        words.keep();
        Ok(bytes)
    }

    /// Gives up a locked node whose copy has taken its place, with the values that moved.
    fn retire_copied(&self, context: &Context<'_, '_>, node: Node<'_>) {
        if !V::INLINE && node.height() == 0 {
            for (_, word) in node.pairs() {
                // SAFETY: the word was taken out with the leaf, by this thread.
                unsafe { V::retire_word(word, context) };
            }
        }
        // SAFETY: the node was taken out just now, by this thread.
        unsafe { self.retire_node(context, node) };
    }
}
