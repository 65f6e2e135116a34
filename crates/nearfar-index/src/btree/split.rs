//! Splits: how a full leaf gets room.

use std::sync::atomic::Ordering::Release;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::descent::{Path, Step};
use super::node::{Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::OptimisticLock;
use crate::memory::OutOfMemory;
use crate::value::TreeValue;

/// One share in so many of a node goes into a new last one, when keys are appended: the nodes
/// before it stay full, as long as keys come nearly in order.
const APPENDED_SHARE: usize = 16;

/// The nodes that a split needs, made before it changes anything.
struct Spares<'g> {
    /// Right halves, from the uppermost to the leaf's.
    halves: Vec<Node<'g>>,
    /// The new root, if the old one is split.
    root: Option<Node<'g>>,
}

/// Locks that are held, to be let go of in the end.
pub(super) struct Held<'g, 'c, P: Probe> {
    locks: Vec<&'g OptimisticLock>,
    context: &'c Context<'c, 'c, P>,
}

impl<'g, 'c, P: Probe> Held<'g, 'c, P> {
    /// None yet.
    pub(super) fn new(context: &'c Context<'_, '_, P>) -> Self {
        Self {
            locks: Vec::new(),
            context,
        }
    }

    /// Takes one more if nothing was written since `version`; else lets all go.
    pub(super) fn take(
        &mut self,
        lock: &'g OptimisticLock,
        version: crate::lock::Version,
    ) -> Result<(), Restart> {
        if self.context.try_lock(lock, version) {
            self.locks.push(lock);
            return Ok(());
        }
        self.release_unchanged();
        Err(Restart)
    }

    /// Lets all go where nothing was written.
    fn release_unchanged(&mut self) {
        for lock in self.locks.drain(..).rev() {
            self.context.unlock_unchanged(lock);
        }
    }

    /// Lets all go after a write.
    pub(super) fn release(mut self) {
        for lock in self.locks.drain(..).rev() {
            self.context.unlock(lock);
        }
    }

    /// Leaves it to the caller to let them go, each in its way.
    pub(super) fn leave(mut self) {
        self.locks.clear();
    }
}

impl<P: Probe> Drop for Held<'_, '_, P> {
    fn drop(&mut self) {
        self.release_unchanged();
    }
}

impl<V: TreeValue> BPlusTree<V> {
    /// Splits the leaf for `key` if it is full, and those of its ancestors that are.
    #[cold]
    pub(super) fn make_room<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
    ) -> Result<(), OutOfMemory> {
        loop {
            if let Ok(result) = self.try_make_room(context, key) {
                return result;
            }
        }
    }

    fn try_make_room<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
    ) -> Result<Result<(), OutOfMemory>, Restart> {
        let path = self.path(context, key, |_, _| false)?;
        let is_full = |step: &&Step<'_>| step.node.count() == step.node.capacity();
        let full = path.steps.iter().rev().take_while(is_full).count();
        if full == 0 {
            return Ok(Ok(()));
        }
        let first = path.steps.len() - full;
        let spares = match self.spares(context, &path, first) {
            Ok(spares) => spares,
            Err(error) => return Ok(Err(error)),
        };
        match self.lock_from(context, &path, first) {
            Ok(held) => {
                self.split_from(context, &path, first, &spares);
                held.release();
                Ok(Ok(()))
            }
            Err(Restart) => {
                self.free_spares(&spares);
                Err(Restart)
            }
        }
    }

    /// Makes right halves for the nodes from `first` on, and a root above where that is the root.
    fn spares<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        path: &Path<'g>,
        first: usize,
    ) -> Result<Spares<'g>, OutOfMemory> {
        let mut spares = Spares {
            halves: Vec::with_capacity(path.steps.len() - first),
            root: None,
        };
        let result = self.fill_spares(context, path, first, &mut spares);
        if result.is_err() {
            self.free_spares(&spares);
        }
        result.map(|()| spares)
    }

    fn fill_spares<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        path: &Path<'g>,
        first: usize,
        spares: &mut Spares<'g>,
    ) -> Result<(), OutOfMemory> {
        let mut parent = TierId::NEAR;
        if let Some(above) = first.checked_sub(1) {
            parent = path.steps[above].node.tier();
        } else {
            let height = path.steps[0].node.height() + 1;
            let root = self.new_node(context, self.node_at(0, height, parent), height, 0)?;
            parent = root.tier();
            spares.root = Some(root);
        }
        let first_level = first as u32 + u32::from(first == 0);
        for (level, step) in (first_level..).zip(&path.steps[first..]) {
            let node = step.node;
            let new = self.node_at(level, node.height(), parent);
            let uses = node.counter().uses() / 2;
            let half = self.new_node(context, new, node.height(), uses)?;
            // A node below may come to hang on either half.
            parent = node.tier().max(half.tier());
            spares.halves.push(half);
        }
        Ok(())
    }

    fn free_spares(&self, spares: &Spares<'_>) {
        for node in spares.halves.iter().chain(&spares.root) {
            // SAFETY: nobody but this thread has seen the node.
            unsafe { self.free_node(*node) };
        }
    }

    /// Locks the nodes from `first` on, and what points to the first of them, from above.
    fn lock_from<'g, 'c, P: Probe>(
        &'g self,
        context: &'c Context<'_, '_, P>,
        path: &Path<'g>,
        first: usize,
    ) -> Result<Held<'g, 'c, P>, Restart> {
        let mut held = Held::new(context);
        if let Some(above) = first.checked_sub(1) {
            let step = &path.steps[above];
            held.take(step.node.lock(), step.version)?;
        } else {
            held.take(&self.root_lock, path.root_version)?;
        }
        for step in &path.steps[first..] {
            held.take(step.node.lock(), step.version)?;
        }
        Ok(held)
    }

    /// Splits the locked nodes from `first` on, from the leaf up.
    fn split_from<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        path: &Path<'_>,
        first: usize,
        spares: &Spares<'_>,
    ) {
        let appends = path.steps.iter().all(|step| step.rank == step.node.count());
        let middle = |count: usize| {
            if appends {
                count - (count / APPENDED_SHARE).max(1)
            } else {
                count / 2
            }
        };
        let mut separator_and_half = None;
        for (step, half) in path.steps[first..].iter().zip(&spares.halves).rev() {
            let at = middle(step.node.count());
            let separator = match separator_and_half {
                None => split_leaf(step.node, *half, at, context),
                Some((key, child)) => {
                    let separator = split_inner(step.node, *half, at, context);
                    if step.rank <= at {
                        step.node.insert_child(step.rank, key, child, context);
                    } else {
                        half.insert_child(step.rank - at - 1, key, child, context);
                    }
                    separator
                }
            };
            separator_and_half = Some((separator, *half));
        }
        let Some((key, half)) = separator_and_half else {
            return;
        };
        if let Some(above) = first.checked_sub(1) {
            let step = &path.steps[above];
            step.node.insert_child(step.rank, key, half, context);
        } else if let Some(root) = spares.root {
            let old = path.steps[0].node;
            root.fill_inner(&[key], &[old.as_ptr(), half.as_ptr()], context);
            self.root.store(root.as_ptr(), Release);
        }
    }
}

/// Moves the pairs from `at` on into an empty leaf; returns the first of their keys.
fn split_leaf<P: Probe>(
    leaf: Node<'_>,
    half: Node<'_>,
    at: usize,
    context: &Context<'_, '_, P>,
) -> u64 {
    let pairs = leaf.pairs();
    leaf.report_stream(at, pairs.len(), context);
    half.fill_leaf(0, &pairs[at..], context);
    leaf.fill_leaf(at, &[], context);
    leaf.counter().cool();
    pairs[at].0
}

/// Moves what is behind the separator at `at` into an empty inner node; returns that separator.
fn split_inner<P: Probe>(
    node: Node<'_>,
    half: Node<'_>,
    at: usize,
    context: &Context<'_, '_, P>,
) -> u64 {
    let (separators, children) = (node.separators(), node.child_pointers());
    node.report_stream(at, separators.len(), context);
    half.fill_inner(&separators[at + 1..], &children[at + 1..], context);
    node.truncate_inner(at, context);
    separators[at]
}
