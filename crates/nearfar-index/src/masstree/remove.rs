//! Removing one key, and the nodes that are empty after it.

use std::sync::atomic::Ordering::Relaxed;

use nearfar_model::Probe;

use super::descent::{Edge, Parent, Spot, next_edge};
use super::handle::{At, Locked, Restart};
use super::leaf::{Found, Leaf};
use super::node::Node;
use super::record::{Record, pointer_to_word};
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::value::TreeValue;

impl<V: TreeValue> Masstree<V> {
    pub(super) fn remove_in<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
    ) -> Option<V> {
        loop {
            if let Ok(removed) = self.try_remove(context, key) {
                let (value, left) = removed?;
                self.count.take_one();
                if left == 0 {
                    self.prune(context, key);
                }
                return Some(value);
            }
        }
    }

    /// The value that was removed, and how many entries the leaf has left.
    fn try_remove<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
    ) -> Result<Option<(V, usize)>, Restart> {
        let Some(spot) = self.descend(context, key)? else {
            return Ok(None);
        };
        self.frontend
            .use_leaf_to_change(&spot.leaf.node.counter, context.probe);
        let (Some(cell), Some(found)) = (self.value_cell(context, key, &spot)?, spot.found) else {
            return Ok(None);
        };
        let leaf = spot.leaf.get();
        let locked = Locked::new(&leaf.node.lock, spot.version, context)?;
        let word = pointer_to_word(cell.load(Relaxed));
        let record = leaf.word(found.slot).load(Relaxed);
        let left = leaf.remove(found.slot);
        leaf.report_insert(context);
        locked.changed();
        // SAFETY: the word was the key's, and now nobody can reach it without a guard.
        let value = unsafe { self.leave(word, context) };
        if found.class == SUFFIX {
            // SAFETY: the entry was a record, and now nobody can reach it without a guard.
            unsafe { Record::retire(record, context) };
        }
        Ok(Some((value, left)))
    }

    /// Takes out of the tree what is empty on the way to a key.
    #[cold]
    fn prune<P: Probe>(&self, context: &Context<'_, '_, P>, key: &[u8]) {
        while !matches!(self.try_prune(context, key), Ok(false)) {}
    }

    /// Takes one thing out, and says whether there was one.
    fn try_prune<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
    ) -> Result<bool, Restart> {
        let mut edge = self.first_edge(context)?;
        for depth in (0..).step_by(SLICE_BYTES) {
            let slice = Slice::of(&key[depth..]);
            let mut path: Vec<Parent<'_>> = Vec::new();
            let spot = self
                .descend_layer::<P, false>(context, edge, slice, depth, |node| path.push(node))?;
            let Some(spot) = spot else {
                return Ok(false);
            };
            if path.first().is_some_and(|root| root.node.count() == 0) {
                return self.lower_root(context, &edge, &path[0]);
            }
            if let Some(Found { slot, class: LAYER }) = spot.leaf.find(slice) {
                edge = next_edge(&spot, slot);
                continue;
            }
            let is_empty = spot.leaf.permutation().count() == 0;
            spot.validate(context)?;
            return match is_empty {
                true => self.unlink(context, &path, &spot),
                false => Ok(false),
            };
        }
        Ok(false)
    }

    /// Puts the only child of a layer's root into its place.
    fn lower_root<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        edge: &Edge<'_>,
        root: &Parent<'_>,
    ) -> Result<bool, Restart> {
        let above = Locked::new(edge.lock, edge.version, context)?;
        let locked = Locked::new(&root.node.get().node.lock, root.version, context)?;
        let child = root.node.child(0).load(Relaxed);
        edge.slot.store(child, Relaxed);
        above.changed();
        self.height.may_change();
        // SAFETY: the edge no longer points to the root, whose lock this is.
        unsafe { At::<Node>::new(root.node.pointer()).retire(locked, context) };
        Ok(true)
    }

    /// Takes an empty leaf out of its layer, with the inner nodes that have nothing but it.
    fn unlink<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        path: &[Parent<'_>],
        spot: &Spot<'_>,
    ) -> Result<bool, Restart> {
        let Some(keep) = path.iter().rposition(|parent| parent.node.count() > 0) else {
            return self.unlink_layer(context, spot);
        };
        let parent = &path[keep];
        let above = Locked::new(&parent.node.get().node.lock, parent.version, context)?;
        let mut alone = Vec::with_capacity(path.len() - keep);
        for parent in &path[keep + 1..] {
            let locked = Locked::new(&parent.node.get().node.lock, parent.version, context)?;
            alone.push((parent.node.pointer(), locked));
        }
        let locked = Locked::new(&spot.leaf.get().node.lock, spot.version, context)?;
        alone.push((spot.leaf.pointer(), locked));
        parent.node.remove(parent.position);
        parent.node.report_write(context);
        above.changed();
        for (node, locked) in alone {
            // SAFETY: the node above no longer points to these nodes, whose locks these are.
            unsafe { At::<Node>::new(node).retire(locked, context) };
        }
        Ok(true)
    }

    /// Takes a layer out that has nothing but an empty leaf. The first layer keeps it.
    fn unlink_layer<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        spot: &Spot<'_>,
    ) -> Result<bool, Restart> {
        let edge = &spot.edge;
        let Some((above, slot)): Option<(At<'_, Leaf>, usize)> = edge.above else {
            return Ok(false);
        };
        let above_locked = Locked::new(edge.lock, edge.version, context)?;
        let locked = Locked::new(&spot.leaf.get().node.lock, spot.version, context)?;
        above.remove(slot);
        above.report_insert(context);
        above_locked.changed();
        self.height.may_change();
        // SAFETY: the leaf above no longer points to the layer's leaf, whose lock this is.
        unsafe { At::<Node>::new(spot.leaf.pointer()).retire(locked, context) };
        Ok(true)
    }
}
