//! Migration: a node moves to another tier while others use the tree.

use std::sync::atomic::Ordering::Release;

use nearfar_memory::TierId;

use super::descent::Step;
use super::node::{Node, Restart};
use super::split::Held;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::Purpose;
use crate::placement::{MigrateError, Migration, Placed};
use crate::value::{NewWords, TreeValue};

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

impl<V: TreeValue> BPlusTree<V> {
    /// Moves a node; `Err` where others changed it meanwhile.
    pub(super) fn try_migrate(
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
        let mut held = Held::new(context);
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
        context.unlock_obsolete(node.lock());
        context.unlock(above.0);
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
