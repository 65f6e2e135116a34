//! Scans in order, both ways.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use nearfar_model::Probe;

use super::descent::{Parent, Spot, next_edge};
use super::handle::{Kind, Restart, enter};
use super::leaf::{Entry, Found, LEAF_BYTES, Page};
use super::record::{Record, pointer_to_word};
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice, advance_past};
use super::tree::Masstree;
use crate::context::Context;
use crate::value::TreeValue;

/// Leaves that are asked for before a scan gets to them.
const LEAVES_AHEAD: usize = 2;

/// How a cursor's key limits what is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The key itself comes too.
    Included,
    /// The key itself does not.
    Excluded,
    /// On the way back: all keys that begin with these bytes come too.
    Prefixed,
}

/// Where a scan goes on: from here upwards, or from here downwards.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    pub(super) key: Vec<u8>,
    pub(super) limit: Limit,
}

/// Where a scan goes after a leaf.
#[expect(
    clippy::large_enum_variant,
    reason = "lives for a moment, on the stack"
)]
pub(super) enum Onward<'g> {
    /// To the leaf beside it.
    Leaf(Spot<'g>),
    /// To where the cursor says.
    Seek,
    /// There is nothing more.
    End,
}

/// How a part of a scan ended.
enum Step {
    /// The cursor says where to go on.
    More,
    /// There are no more keys, or the visitor has had enough.
    End,
}

impl Limit {
    /// The limit behind the slice of a layer that comes next.
    fn into_layer(back: bool) -> Self {
        if back { Self::Prefixed } else { Self::Excluded }
    }
}

impl Cursor {
    pub(super) fn new(key: &[u8], limit: Limit) -> Self {
        let mut own = Vec::with_capacity(key.len().max(2 * SLICE_BYTES));
        own.extend_from_slice(key);
        Self { key: own, limit }
    }

    /// The first slice that comes in the layer at `depth`, in the direction of the scan; `None`
    /// where none does.
    #[inline]
    fn bound<const BACK: bool>(&self, depth: usize) -> Option<Slice> {
        let rest = &self.key[depth..];
        let slice = Slice::of(rest);
        match self.limit {
            _ if slice.class == SUFFIX => Some(slice),
            Limit::Included => Some(slice),
            Limit::Excluded if BACK => slice.predecessor(),
            Limit::Excluded => slice.successor(),
            Limit::Prefixed if rest.is_empty() => Some(Slice::GREATEST),
            Limit::Prefixed => Some(Slice {
                class: SUFFIX,
                ..slice
            }),
        }
    }

    /// Whether the key goes on after its slice in the layer at `depth`.
    fn goes_on(&self, depth: usize) -> bool {
        self.key.len() > depth + SLICE_BYTES
    }

    /// Whether the way of the key leads on from a slice of the layer at `depth`.
    fn is_in(&self, slice: Slice, depth: usize) -> bool {
        let rest = &self.key[depth..];
        rest.len() >= SLICE_BYTES && Slice::of(rest).bits == slice.bits
    }

    /// Whether the record with this suffix comes, whose slice is the cursor's own.
    fn admits<const BACK: bool>(&self, depth: usize, suffix: &[u8]) -> bool {
        let own = &self.key[depth + SLICE_BYTES..];
        match self.limit {
            Limit::Prefixed => suffix.starts_with(own) || suffix < own,
            Limit::Included if suffix == own => true,
            _ if BACK => suffix < own,
            _ => suffix > own,
        }
    }

    /// Goes on at a slice of the layer at `depth`.
    pub(super) fn set(&mut self, depth: usize, slice: Slice, limit: Limit) {
        self.key.truncate(depth);
        slice.append_to(&mut self.key);
        self.limit = limit;
    }
}

impl<V: TreeValue> Masstree<V> {
    /// Visits keys from the cursor on, upwards or downwards, until the visitor has had enough. The
    /// cursor then says where to go on.
    pub(super) fn scan_in<P: Probe, const BACK: bool>(
        &self,
        context: &mut Context<'_, '_, P>,
        cursor: &mut Cursor,
        visit: &mut impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) {
        let mut is_first = true;
        loop {
            match self.scan_run::<P, BACK>(context, cursor, &mut is_first, visit) {
                Ok(Step::End) => return,
                // What was passed need not be kept any longer.
                Ok(Step::More) => context.guard.refresh(),
                Err(Restart) => {}
            }
        }
    }

    /// Scans the leaves below one inner node.
    #[inline]
    fn scan_run<P: Probe, const BACK: bool>(
        &self,
        context: &Context<'_, '_, P>,
        cursor: &mut Cursor,
        is_first: &mut bool,
        visit: &mut impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) -> Result<Step, Restart> {
        let Some((mut spot, bound)) = self.seek::<P, BACK>(context, cursor)? else {
            return Ok(Step::End);
        };
        let depth = spot.depth;
        let (mut from, mut to) = match BACK {
            true => (Slice::LEAST, bound),
            false => (bound, Slice::GREATEST),
        };
        let mut is_bounded = cursor.goes_on(depth);
        let mut page = Page::new();
        for distance in 1..LEAVES_AHEAD {
            prefetch_sibling::<P, BACK>(&spot, context, distance);
        }
        loop {
            prefetch_sibling::<P, BACK>(&spot, context, LEAVES_AHEAD);
            spot.leaf.copy(from, to, context, &mut page);
            spot.validate(context)?;
            let counter = &spot.leaf.node.counter;
            self.frontend.scan_leaf(counter, is_first, context.probe);
            let entries = page.entries();
            for index in 0..entries.len() {
                let entry = match BACK {
                    true => &entries[entries.len() - 1 - index],
                    false => &entries[index],
                };
                if entry.class == LAYER {
                    cursor.set(depth, entry.slice(), Limit::into_layer(BACK));
                    return Ok(Step::More);
                }
                let may_be_out = is_bounded && entry.slice() == bound;
                is_bounded = false;
                let value = read::<V, P, BACK>(entry, depth, may_be_out, cursor, context);
                if let Some(value) = value
                    && visit(&cursor.key, value).is_break()
                {
                    return Ok(Step::End);
                }
            }
            (from, to) = (Slice::LEAST, Slice::GREATEST);
            is_bounded = false;
            match step::<P, BACK>(&spot, cursor, context)? {
                Onward::Leaf(next) => spot = next,
                Onward::Seek => return Ok(Step::More),
                Onward::End => return Ok(Step::End),
            }
        }
    }

    /// The leaf where the scan goes on, and the first slice that comes there.
    #[inline]
    pub(super) fn seek<'g, P: Probe, const BACK: bool>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        cursor: &Cursor,
    ) -> Result<Option<(Spot<'g>, Slice)>, Restart> {
        let mut edge = self.first_edge(context)?;
        let mut depth = 0;
        loop {
            let Some(bound) = cursor.bound::<BACK>(depth) else {
                return Ok(None);
            };
            let spot = self.descend_layer::<P, true>(context, edge, bound, depth, |_| ())?;
            let Some(spot) = spot else {
                return Ok(None);
            };
            if bound.class < SUFFIX {
                return Ok(Some((spot, bound)));
            }
            match spot.leaf.find(bound) {
                Some(Found { slot, class: LAYER }) if cursor.is_in(bound, depth) => {
                    edge = next_edge(&spot, slot);
                }
                _ => return Ok(Some((spot, bound))),
            }
            depth += SLICE_BYTES;
        }
    }
}

/// The value of an entry, whose key becomes the cursor's; `None` for a record that does not come.
#[inline(always)]
fn read<V: TreeValue, P: Probe, const BACK: bool>(
    entry: &Entry,
    depth: usize,
    may_be_out: bool,
    cursor: &mut Cursor,
    context: &Context<'_, '_, P>,
) -> Option<V> {
    let mut word = entry.word;
    if entry.class == SUFFIX {
        // SAFETY: the entry was found to be a record, in a leaf of one state, under the guard.
        let (record, suffix) = unsafe { (Record::of(word), Record::suffix(word, context)) };
        if may_be_out && !cursor.admits::<BACK>(depth, suffix) {
            return None;
        }
        cursor.set(depth, entry.slice(), Limit::Excluded);
        cursor.key.extend_from_slice(suffix);
        word = context.guard.load(&record.value);
    } else {
        cursor.set(depth, entry.slice(), Limit::Excluded);
    }
    // SAFETY: the word was the key's, in a leaf of one state, under the guard.
    Some(unsafe { V::from_word(pointer_to_word(word), context) })
}

/// Goes from a leaf that was scanned to the next one.
#[inline]
pub(super) fn step<'g, P: Probe, const BACK: bool>(
    spot: &Spot<'g>,
    cursor: &mut Cursor,
    context: &'g Context<'_, '_, P>,
) -> Result<Onward<'g>, Restart> {
    let fence = if BACK { spot.lower } else { spot.upper };
    let Some(fence) = fence else {
        return Ok(leave_layer::<BACK>(spot.depth, cursor));
    };
    let Some((parent, position)) = sibling::<BACK>(spot, 1) else {
        let limit = if BACK {
            Limit::Excluded
        } else {
            Limit::Included
        };
        cursor.set(spot.depth, Slice::first_of(fence), limit);
        return Ok(Onward::Seek);
    };
    let node = parent.node.get();
    let pointer = context.guard.load(node.child(position));
    let lower = node.lower(position).or(parent.lower);
    let upper = node.upper(position).or(parent.upper);
    let (leaf, version) = enter(
        context,
        pointer,
        &node.node.lock,
        parent.version,
        LEAF_BYTES,
    )?;
    let Kind::Leaf(leaf) = leaf.kind() else {
        return Err(Restart);
    };
    Ok(Onward::Leaf(Spot {
        parent: Some(Parent { position, ..parent }),
        leaf,
        version,
        lower,
        upper,
        ..*spot
    }))
}

/// Goes back to the layer above, behind what has been scanned.
fn leave_layer<const BACK: bool>(depth: usize, cursor: &mut Cursor) -> Onward<'static> {
    if depth == 0 {
        return Onward::End;
    }
    cursor.key.truncate(depth);
    cursor.limit = Limit::Included;
    // Upwards, after all keys of the layer; downwards, the key that all of them begin with.
    if BACK || advance_past(&mut cursor.key) {
        Onward::Seek
    } else {
        Onward::End
    }
}

/// The leaf so many further below the same inner node.
#[inline(always)]
fn sibling<'g, const BACK: bool>(spot: &Spot<'g>, distance: usize) -> Option<(Parent<'g>, usize)> {
    let parent = spot.parent?;
    let position = if BACK {
        parent.position.checked_sub(distance)?
    } else {
        parent.position + distance
    };
    (position <= parent.node.count()).then_some((parent, position))
}

/// Begins to fetch a leaf that comes soon.
#[inline(always)]
fn prefetch_sibling<P: Probe, const BACK: bool>(
    spot: &Spot<'_>,
    context: &Context<'_, '_, P>,
    distance: usize,
) {
    if let Some((parent, position)) = sibling::<BACK>(spot, distance) {
        context.prefetch(parent.node.child(position).load(Relaxed), LEAF_BYTES);
    }
}
