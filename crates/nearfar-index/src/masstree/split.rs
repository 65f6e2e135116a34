//! Splits of full nodes.

use std::sync::atomic::Ordering::{Relaxed, Release};

use nearfar_model::Probe;

use super::descent::{Edge, Parent, Spot};
use super::handle::{Allocation, Failure, Locked};
use super::insert::Incoming;
use super::leaf::{LEAF_WIDTH, Leaf};
use super::node::{INNER_WIDTH, Inner};
use super::slice::Slice;
use super::tree::Masstree;
use crate::context::Context;
use crate::value::TreeValue;

/// Where a full leaf is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// Entries that stay.
    position: usize,
    /// The least slice of the right half.
    separator: u64,
}

/// The cut nearest to the middle that leaves equal slices together. A slice behind all others of
/// its layer goes into a leaf of its own, so that leaves that are filled in order are full.
fn cut(leaf: &Leaf, slice: Slice, is_last: bool) -> Cut {
    let mut bits = [0; LEAF_WIDTH];
    for (bits, entry) in bits.iter_mut().zip(leaf.entries()) {
        *bits = entry.bits;
    }
    if is_last && slice.bits > bits[LEAF_WIDTH - 1] {
        return Cut {
            position: LEAF_WIDTH,
            separator: slice.bits,
        };
    }
    let middle = LEAF_WIDTH / 2;
    let near_middle = (0..middle).flat_map(|distance| [middle - distance, middle + distance]);
    let position = near_middle
        .filter(|position| *position > 0)
        .find(|position| bits[*position - 1] != bits[*position])
        // A slice has ten entries at most, so there is another one.
        .unwrap_or(middle);
    Cut {
        position,
        separator: bits[position],
    }
}

/// A full inner node on the way, and what points to it.
struct Full<'g> {
    above: Option<Parent<'g>>,
    node: Parent<'g>,
    level: u32,
}

impl<V: TreeValue> Masstree<V> {
    /// Adds a key to a full leaf, which gives half of its entries to a new one. The inner node
    /// above gets room first where it has none; then the operation begins again.
    #[cold]
    pub(super) fn split_leaf<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        spot: &Spot<'_>,
        value: &mut Incoming<V>,
    ) -> Result<(), Failure> {
        let (edge, leaf) = (&spot.edge, spot.leaf);
        let above = match &spot.parent {
            Some(parent) if parent.node.is_full() => {
                self.make_room(context, edge, spot.slice.bits)?;
                return Err(Failure::Restart);
            }
            Some(parent) => Locked::new(&parent.node.get().node.lock, parent.version, context)?,
            None => Locked::new(edge.lock, edge.version, context)?,
        };
        let locked = Locked::new(&leaf.get().node.lock, spot.version, context)?;
        let root = match spot.parent {
            Some(_) => None,
            None => Some(self.new_root(context, edge, 1)?),
        };
        let (level, tier) = match (&root, &spot.parent) {
            (Some(root), _) => (spot.level + 1, root.node.tier),
            (None, Some(parent)) => (spot.level, parent.node.node.tier),
            (None, None) => (spot.level, edge.tier()),
        };
        let uses = leaf.node.counter.uses();
        let right = Allocation::leaf(context, &self.frontend, level, tier, uses)?;
        let cut = cut(&leaf, spot.slice, spot.is_last);
        let home = match spot.slice.bits >= cut.separator {
            true => &*right,
            false => &*leaf,
        };
        let entry = value.make_entry(&key[spot.depth..], context, home.node.tier)?;
        leaf.split_off(cut.position, &right);
        home.insert(entry);
        leaf.report_insert(context);
        right.report_insert(context);
        let right = right.publish();
        let has_new_root = root.is_some();
        match (root, &spot.parent) {
            (Some(root), _) => {
                root.fill(leaf.pointer(), cut.separator, right);
                edge.slot.store(root.publish(), Release);
            }
            (None, Some(parent)) => parent.node.insert(parent.position, cut.separator, right),
            (None, None) => {}
        }
        locked.changed();
        above.changed();
        if has_new_root {
            self.height.may_change();
        }
        Ok(())
    }

    /// A root above the root of a layer.
    fn new_root<'m, P: Probe>(
        &self,
        context: &Context<'m, '_, P>,
        edge: &Edge<'_>,
        height: u8,
    ) -> Result<Allocation<'m, Inner>, Failure> {
        let tier = edge.tier();
        let root = Allocation::inner(context, &self.frontend, edge.level, tier, height)?;
        Ok(root)
    }

    /// Splits one full inner node of a layer, the topmost of those that are full all the way down
    /// to the leaf for `bits`.
    fn make_room<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        edge: &Edge<'_>,
        bits: u64,
    ) -> Result<(), Failure> {
        let (mut above, mut full, mut level) = (None, None, edge.level);
        let slice = Slice { bits, class: 0 };
        self.descend_layer::<P, true>(context, *edge, slice, 0, |node| {
            full = match node.node.is_full() {
                true => full.take().or(Some(Full { above, node, level })),
                false => None,
            };
            above = Some(node);
            level += 1;
        })?;
        match full {
            Some(full) => self.split_inner(context, edge, &full),
            None => Ok(()),
        }
    }

    fn split_inner<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        edge: &Edge<'_>,
        full: &Full<'_>,
    ) -> Result<(), Failure> {
        let node = full.node.node;
        let above = match &full.above {
            Some(parent) => Locked::new(&parent.node.get().node.lock, parent.version, context)?,
            None => Locked::new(edge.lock, edge.version, context)?,
        };
        let locked = Locked::new(&node.get().node.lock, full.node.version, context)?;
        let height = node.node.height();
        let root = match full.above {
            Some(_) => None,
            None => Some(self.new_root(context, edge, height + 1)?),
        };
        let (level, tier) = match (&root, &full.above) {
            (Some(root), _) => (full.level + 1, root.node.tier),
            (None, Some(parent)) => (full.level, parent.node.node.tier),
            (None, None) => (full.level, edge.tier()),
        };
        let right = Allocation::inner(context, &self.frontend, level, tier, height)?;
        // Where keys come in order, the left half gets no more of them.
        let is_last = full.node.upper.is_none() && full.node.position == INNER_WIDTH;
        let position = match is_last {
            true => INNER_WIDTH - 2,
            false => INNER_WIDTH / 2,
        };
        let separator = node.split_off(position, &right);
        node.report_write(context);
        let right = right.publish();
        let has_new_root = root.is_some();
        match (root, &full.above) {
            (Some(root), _) => {
                root.fill(node.pointer(), separator, right);
                edge.slot.store(root.publish(), Relaxed);
            }
            (None, Some(parent)) => {
                parent.node.insert(parent.position, separator, right);
                parent.node.report_write(context);
            }
            (None, None) => {}
        }
        locked.changed();
        above.changed();
        if has_new_root {
            self.height.may_change();
        }
        Ok(())
    }
}
