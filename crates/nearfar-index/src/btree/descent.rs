//! The way from the root to a node, by optimistic lock coupling.

use std::ptr::NonNull;

use nearfar_model::Probe;

use super::node::{Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::Version;
use crate::value::TreeValue;

/// A node on the way, as of a version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'g> {
    pub(super) node: Node<'g>,
    pub(super) version: Version,
    /// The keys in it that are at most the key of the descent.
    pub(super) rank: usize,
}

/// All nodes on the way, from the root to where it ended.
#[derive(Debug)]
pub(super) struct Path<'g> {
    pub(super) root_version: Version,
    pub(super) steps: Vec<Step<'g>>,
}

impl<'g> Path<'g> {
    /// The node where the descent ended.
    pub(super) fn last(&self) -> &Step<'g> {
        self.steps.last().expect("a path has a root")
    }
}

impl<V: TreeValue> BPlusTree<V> {
    /// The root and its version, and that of the lock that protects it.
    #[inline(always)]
    pub(super) fn root<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
    ) -> Result<(Node<'g>, Version, Version), Restart> {
        let lock = &self.root_lock;
        context.probe.read(std::ptr::from_ref(lock).addr(), 16);
        let root_version = lock.read(|| context.waiting(lock))?;
        let root = context.guard.load(&self.root);
        // SAFETY: the tree has a root from its making to its end, and the guard keeps it.
        let root = unsafe { Node::new(NonNull::new_unchecked(root), &self.geometry) };
        let version = root.read(context)?;
        if !context.validate(lock, root_version) {
            return Err(Restart);
        }
        Ok((root, version, root_version))
    }

    /// The child at `index` of a node, and its version at a moment when it was the child.
    #[inline(always)]
    pub(super) fn child<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        node: Node<'g>,
        version: Version,
        index: usize,
    ) -> Result<(Node<'g>, Version), Restart> {
        node.read_slot(index, context);
        let child = node.child(index, version, context)?;
        let child_version = child.read(context)?;
        node.validate(version, context)?;
        Ok((child, child_version))
    }

    /// The leaf for `key`.
    #[inline(always)]
    pub(super) fn leaf<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: u64,
    ) -> Result<(Node<'g>, Version), Restart> {
        let (mut node, mut version, _) = self.root(context)?;
        for _ in 0..node.height() {
            let rank = node.rank(key, context);
            self.frontend.use_inner(node.counter(), context.probe);
            (node, version) = self.child(context, node, version, rank)?;
        }
        Ok((node, version))
    }

    /// The way to the node for `key` that has so many levels below it, or so many above it.
    pub(super) fn path<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: u64,
        is_last: impl Fn(Node<'_>, usize) -> bool,
    ) -> Result<Path<'g>, Restart> {
        let (mut node, mut version, root_version) = self.root(context)?;
        let mut steps = Vec::with_capacity(usize::from(node.height()) + 1);
        loop {
            let rank = node.rank(key, context);
            steps.push(Step {
                node,
                version,
                rank,
            });
            if node.height() == 0 || is_last(node, steps.len() - 1) {
                // The ranks below the root were validated on the way.
                node.validate(version, context)?;
                return Ok(Path {
                    root_version,
                    steps,
                });
            }
            (node, version) = self.child(context, node, version, rank)?;
        }
    }
}
