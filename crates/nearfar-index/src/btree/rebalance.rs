//! Merges: what happens to nodes with few keys.

use std::sync::atomic::Ordering::Release;

use nearfar_model::Probe;

use super::descent::Path;
use super::node::{Node, Restart};
use super::split::Held;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::value::TreeValue;

/// Whether a node has so few keys that it is to be merged with a neighbour, or to get some of it.
#[inline(always)]
pub(super) fn is_low(node: Node<'_>) -> bool {
    node.count() < node.capacity() / 4
}

/// How an attempt ended.
enum Outcome {
    /// There was nothing to do, or the parent has as many keys as before.
    Done,
    /// The parent has one key less.
    ParentShrank,
    /// The node has no neighbour below its parent, which must get a second child first.
    NoNeighbor,
}

impl<V: TreeValue> BPlusTree<V> {
    /// Merges the leaf for `key` with a neighbour if both are small, or evens them out, and goes
    /// on with the parent.
    #[cold]
    pub(super) fn rebalance<P: Probe>(&self, context: &Context<'_, '_, P>, key: u64) {
        self.rebalance_from(context, key, 0);
    }

    fn rebalance_from<P: Probe>(&self, context: &Context<'_, '_, P>, key: u64, first: u8) {
        let mut height = first;
        loop {
            match self.try_rebalance(context, key, height) {
                Ok(Outcome::Done) => return,
                Ok(Outcome::ParentShrank) => height += 1,
                Ok(Outcome::NoNeighbor) => self.rebalance_from(context, key, height + 1),
                Err(Restart) => {}
            }
        }
    }

    fn try_rebalance<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        height: u8,
    ) -> Result<Outcome, Restart> {
        let path = self.path(context, key, |node, _| node.height() == height)?;
        let node = path.last().node;
        if node.height() != height {
            return Ok(Outcome::Done);
        }
        let Some(above) = path.steps.len().checked_sub(2) else {
            return self.try_collapse(context, &path);
        };
        if !is_low(node) {
            return Ok(Outcome::Done);
        }
        let parent = &path.steps[above];
        if parent.node.count() == 0 {
            return Ok(Outcome::NoNeighbor);
        }
        let index = parent.rank.min(parent.node.count() - 1);
        parent.node.try_lock(parent.version, context)?;
        // SAFETY: the parent is locked, and has a child on either side of its separators.
        let (left, right) = unsafe {
            let (left, right) = (index, index + 1);
            (
                parent.node.child_of_locked(left),
                parent.node.child_of_locked(right),
            )
        };
        Ok(self.merge(context, parent.node, index, left, right))
    }

    /// Merges two children of a locked node, or evens them out; unlocks it.
    fn merge<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        parent: Node<'_>,
        index: usize,
        left: Node<'_>,
        right: Node<'_>,
    ) -> Outcome {
        // Whoever holds these waits for nobody: locks are waited for from above and from the left
        // only. And they cannot be taken out as long as the parent is locked.
        for node in [left, right] {
            let taken = context.lock(node.lock());
            debug_assert!(taken.is_ok(), "children of a locked node stay");
        }
        let keys = left.count() + right.count() + usize::from(left.height() > 0);
        let fits_well = keys <= left.capacity() * 3 / 4;
        if fits_well {
            join(parent, index, left, right, context);
            context.unlock_obsolete(right.lock());
        } else {
            if is_low(left) || is_low(right) {
                even_out(parent, index, left, right, context);
            }
            context.unlock(right.lock());
        }
        context.unlock(left.lock());
        context.unlock(parent.lock());
        if !fits_well {
            return Outcome::Done;
        }
        // SAFETY: the node was taken out just now, by this thread.
        unsafe { self.retire_node(context, right) };
        Outcome::ParentShrank
    }

    /// Puts the root's child in its place, if it has only one.
    fn try_collapse<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        path: &Path<'_>,
    ) -> Result<Outcome, Restart> {
        let root = path.last();
        if root.node.height() == 0 || root.node.count() > 0 {
            return Ok(Outcome::Done);
        }
        let mut held = Held::new(context);
        held.take(&self.root_lock, path.root_version)?;
        held.take(root.node.lock(), root.version)?;
        held.leave();
        // SAFETY: the root is locked.
        let child = unsafe { root.node.child_of_locked(0) };
        self.root.store(child.as_ptr(), Release);
        context.unlock_obsolete(root.node.lock());
        context.unlock(&self.root_lock);
        // SAFETY: the root was taken out just now, by this thread.
        unsafe { self.retire_node(context, root.node) };
        Ok(Outcome::ParentShrank)
    }
}

/// Moves all of `right` into `left`, and takes it out of the parent. All are locked.
fn join<P: Probe>(
    parent: Node<'_>,
    index: usize,
    left: Node<'_>,
    right: Node<'_>,
    context: &Context<'_, '_, P>,
) {
    right.report_stream(0, right.count(), context);
    if left.height() == 0 {
        left.fill_leaf(left.count(), &right.pairs(), context);
    } else {
        let mut separators = left.separators();
        separators.push(parent.separator(index));
        separators.extend(right.separators());
        let mut children = left.child_pointers();
        children.extend(right.child_pointers());
        left.fill_inner(&separators, &children, context);
    }
    parent.remove_child(index, context);
}

/// Gives both neighbours as many keys. All are locked.
fn even_out<P: Probe>(
    parent: Node<'_>,
    index: usize,
    left: Node<'_>,
    right: Node<'_>,
    context: &Context<'_, '_, P>,
) {
    left.report_stream(0, left.count(), context);
    right.report_stream(0, right.count(), context);
    let separator = if left.height() == 0 {
        let mut pairs = left.pairs();
        pairs.extend(right.pairs());
        let half = pairs.len() / 2;
        left.fill_leaf(0, &pairs[..half], context);
        right.fill_leaf(0, &pairs[half..], context);
        pairs[half].0
    } else {
        let mut separators = left.separators();
        separators.push(parent.separator(index));
        separators.extend(right.separators());
        let mut children = left.child_pointers();
        children.extend(right.child_pointers());
        let half = separators.len() / 2;
        left.fill_inner(&separators[..half], &children[..=half], context);
        right.fill_inner(&separators[half + 1..], &children[half + 1..], context);
        separators[half]
    };
    parent.set_separator(index, separator, context);
}
