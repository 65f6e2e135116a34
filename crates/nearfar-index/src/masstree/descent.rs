//! The way from the root to the leaf where a key belongs.

use std::sync::atomic::AtomicPtr;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::handle::{At, Kind, NODE_BYTES_MAX, Restart, enter};
use super::leaf::{Found, Leaf};
use super::node::{Inner, Node};
use super::record::Record;
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::lock::{OptimisticLock, Version};
use crate::value::TreeValue;

/// What points to the root of a layer, and the lock that protects it: that of the tree, or of the
/// leaf above.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge<'g> {
    pub(super) lock: &'g OptimisticLock,
    pub(super) version: Version,
    pub(super) slot: &'g AtomicPtr<Node>,
    /// The leaf above and the slot there; none for the first layer.
    pub(super) above: Option<(At<'g, Leaf>, usize)>,
    /// The level of the layer's root.
    pub(super) level: u32,
}

impl Edge<'_> {
    /// What to say of a layer without a root, which only the first can be.
    #[cold]
    fn has_no_root<T, P: Probe>(&self, context: &Context<'_, '_, P>) -> Result<Option<T>, Restart> {
        match context.validate(self.lock, self.version) {
            true => Ok(None),
            false => Err(Restart),
        }
    }

    /// The tier of what is above the layer.
    pub(super) fn tier(&self) -> TierId {
        self.above.map_or(TierId::NEAR, |(leaf, _)| leaf.node.tier)
    }
}

/// An inner node on the way, and which of its children was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent<'g> {
    pub(super) node: At<'g, Inner>,
    pub(super) version: Version,
    pub(super) position: usize,
    /// The least slice of the node; none for the first one of its level.
    pub(super) lower: Option<u64>,
    /// The least slice above the node; none for the last one of its level.
    pub(super) upper: Option<u64>,
}

/// The leaf of one layer where a slice belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'g> {
    pub(super) edge: Edge<'g>,
    /// The inner node above the leaf; none where the leaf is the root of its layer.
    pub(super) parent: Option<Parent<'g>>,
    pub(super) leaf: At<'g, Leaf>,
    pub(super) version: Version,
    /// The level of the leaf.
    pub(super) level: u32,
    /// The least slice of the leaf; none for the first one of its layer, or where it was not asked
    /// for.
    pub(super) lower: Option<u64>,
    /// The least slice above the leaf; none for the last one of its layer, or where it was not
    /// asked for.
    pub(super) upper: Option<u64>,
    /// Whether it is the last leaf of its layer.
    pub(super) is_last: bool,
    /// Bytes of the key in the layers above.
    pub(super) depth: usize,
    /// What this layer sees of the key.
    pub(super) slice: Slice,
    /// The entry with this slice, which is not a layer.
    pub(super) found: Option<Found>,
}

impl Spot<'_> {
    /// Whether what was read of the leaf is of one state.
    #[inline(always)]
    pub(super) fn validate<P: Probe>(&self, context: &Context<'_, '_, P>) -> Result<(), Restart> {
        match context.validate(&self.leaf.node.lock, self.version) {
            true => Ok(()),
            false => Err(Restart),
        }
    }
}

impl<V: TreeValue> Masstree<V> {
    /// The edge to the first layer.
    #[inline(always)]
    pub(super) fn first_edge<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
    ) -> Result<Edge<'_>, Restart> {
        let lock = &self.anchor.lock;
        let version = lock.read(|| context.waiting(lock));
        Ok(Edge {
            lock,
            version: version.map_err(|_| Restart)?,
            slot: &self.anchor.root,
            above: None,
            level: 0,
        })
    }

    /// Goes down one layer to the leaf for `slice`, past the inner nodes that `pass` gets, and finds the
    /// leaf's `FENCES` where asked to. `None` where the tree has no root yet.
    #[inline(always)]
    pub(super) fn descend_layer<'g, P: Probe, const FENCES: bool>(
        &self,
        context: &'g Context<'_, '_, P>,
        edge: Edge<'g>,
        slice: Slice,
        depth: usize,
        mut pass: impl FnMut(Parent<'g>),
    ) -> Result<Option<Spot<'g>>, Restart> {
        let (mut lock, mut version) = (edge.lock, edge.version);
        let mut pointer = context.guard.load(edge.slot);
        if pointer.is_null() {
            return edge.has_no_root(context);
        }
        let (mut parent, mut lower, mut upper) = (None, None, None);
        let (mut level, mut is_last, mut bytes) = (edge.level, true, NODE_BYTES_MAX);
        loop {
            let (node, own) = enter(context, pointer, lock, version, bytes)?;
            match node.kind() {
                Kind::Inner(inner) => {
                    let (position, is_last_child) = inner.position(slice.bits);
                    inner.report_search(position, context);
                    self.frontend.use_inner(&inner.node.counter, context.probe);
                    pointer = context.guard.load(inner.get().child(position));
                    let passed = Parent {
                        node: inner,
                        version: own,
                        position,
                        lower,
                        upper,
                    };
                    pass(passed);
                    parent = Some(passed);
                    if FENCES {
                        lower = inner.lower(position).or(lower);
                        upper = inner.upper(position).or(upper);
                    }
                    is_last &= is_last_child;
                    bytes = inner.node.child_bytes();
                    (lock, version) = (&inner.get().node.lock, own);
                    level += 1;
                }
                Kind::Leaf(leaf) => {
                    return Ok(Some(Spot {
                        edge,
                        parent,
                        leaf,
                        version: own,
                        level,
                        lower,
                        upper,
                        is_last,
                        depth,
                        slice,
                        found: None,
                    }));
                }
            }
        }
    }

    /// Goes down to the leaf where the key belongs, through all layers. `None` where the tree has
    /// no root yet.
    #[inline(always)]
    pub(super) fn descend<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        key: &[u8],
    ) -> Result<Option<Spot<'g>>, Restart> {
        let mut edge = self.first_edge(context)?;
        let mut depth = 0;
        loop {
            let slice = Slice::of(&key[depth..]);
            let Some(spot) = self.descend_layer::<P, false>(context, edge, slice, depth, |_| ())?
            else {
                return Ok(None);
            };
            spot.leaf.report_search(context);
            let found = spot.leaf.find(slice);
            match found {
                Some(Found { slot, class: LAYER }) => edge = next_edge(&spot, slot),
                found => return Ok(Some(Spot { found, ..spot })),
            }
            depth += SLICE_BYTES;
        }
    }

    /// Where the value of a key is, if the key is there. What is loaded from it means something
    /// once the spot is validated.
    #[inline(always)]
    pub(super) fn value_cell<'g, P: Probe>(
        &self,
        context: &'g Context<'_, '_, P>,
        key: &[u8],
        spot: &Spot<'g>,
    ) -> Result<Option<&'g AtomicPtr<Node>>, Restart> {
        let Some(found) = spot.found else {
            spot.validate(context)?;
            return Ok(None);
        };
        let word = spot.leaf.get().word(found.slot);
        context.probe.read(std::ptr::from_ref(word).addr(), 8);
        if found.class < SUFFIX {
            return Ok(Some(word));
        }
        let record = context.guard.load(word);
        spot.validate(context)?;
        // SAFETY: the entry was found to be a record, and the leaf to be of one state.
        let (record, suffix) = unsafe { (Record::of(record), Record::suffix(record, context)) };
        let is_same = suffix == &key[spot.depth + SLICE_BYTES..];
        Ok(is_same.then_some(&record.value))
    }
}

/// The edge to the layer whose root is in a slot of the leaf.
#[inline(always)]
pub(super) fn next_edge<'g>(spot: &Spot<'g>, slot: usize) -> Edge<'g> {
    Edge {
        lock: &spot.leaf.get().node.lock,
        version: spot.version,
        slot: spot.leaf.get().word(slot),
        above: Some((spot.leaf, slot)),
        level: spot.level + 1,
    }
}
