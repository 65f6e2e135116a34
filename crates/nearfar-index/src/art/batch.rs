//! Many lookups together, so that their waits for memory overlap.
//!
//! Each lookup of a group has a lane with what it waits for. A round takes every lane one memory
//! access further and asks for the next one, so that the memory works on all of them at a time.

use nearfar_model::Probe;

use super::Art;
use super::child::{Child, Slot, Target};
use super::lookup::LEAF_HEAD_BYTES;
use super::node::{HEADER_BYTES, Kind, Node};
use crate::context::Context;
use crate::key::{Key, KeyBytes};
use crate::value::TreeValue;

/// Lookups that are under way concurrently.
const LANES: usize = 16;
/// Bytes of most leaves of one integer.
const SMALL_LEAF_BYTES: usize = 24;

/// What a lookup waits for.
#[derive(Debug, Clone, Copy)]
enum Waiting<'g> {
    /// The block of a child.
    Child(Child),
    /// A slot, where finding it took an access of its own.
    Slot(&'g Slot),
    /// Nothing: it has ended.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
struct Lane<'g, 'k> {
    waiting: Waiting<'g>,
    rest: &'k [u8],
}

impl<V: TreeValue> Art<V> {
    pub(super) fn get_batch_in<K: Key, P: Probe>(
        &self,
        keys: &[K],
        values: &mut Vec<Option<V>>,
        context: &Context<'_, '_, P>,
    ) {
        values.reserve(keys.len());
        for group in keys.chunks(LANES) {
            let first = values.len();
            values.resize_with(first + group.len(), || None);
            self.get_group(group, &mut values[first..], context);
        }
    }

    fn get_group<K: Key, P: Probe>(
        &self,
        keys: &[K],
        values: &mut [Option<V>],
        context: &Context<'_, '_, P>,
    ) {
        const NO_KEY: KeyBytes<'_> = KeyBytes::Borrowed(&[]);
        let mut bytes = [NO_KEY; LANES];
        for (bytes, key) in bytes.iter_mut().zip(keys) {
            *bytes = key.key_bytes();
        }
        let root = Child::load(&self.root, &context.guard);
        let mut lanes: [Lane<'_, '_>; LANES] = std::array::from_fn(|at| Lane {
            waiting: Waiting::Child(root),
            rest: bytes[at].as_ref(),
        });
        let mut left = keys.len();
        while left > 0 {
            for (lane, value) in lanes.iter_mut().zip(&mut *values) {
                if !matches!(lane.waiting, Waiting::Nothing) {
                    lane.waiting = self.advance(lane, value, context);
                    left -= usize::from(matches!(lane.waiting, Waiting::Nothing));
                }
            }
        }
    }

    /// Takes a lane one access further, and asks for the next one.
    #[inline(always)]
    fn advance<'g, P: Probe>(
        &self,
        lane: &mut Lane<'g, '_>,
        value: &mut Option<V>,
        context: &'g Context<'_, '_, P>,
    ) -> Waiting<'g> {
        let child = match lane.waiting {
            Waiting::Nothing => return Waiting::Nothing,
            Waiting::Slot(slot) => {
                context.probe.read(std::ptr::from_ref(slot).addr(), 8);
                Child::load(slot, &context.guard)
            }
            // SAFETY: children are read from slots under the guard of `context`.
            Waiting::Child(child) => match unsafe { child.target() } {
                Target::Nothing => return Waiting::Nothing,
                Target::Leaf(leaf) => {
                    *value = self.get_in_leaf(leaf, lane.rest, context);
                    return Waiting::Nothing;
                }
                Target::Prefixed(node) => {
                    let Some(below) = node.after_prefix(lane.rest) else {
                        return Waiting::Nothing;
                    };
                    lane.rest = below;
                    match find(node, lane, context) {
                        Ok(child) => child,
                        Err(slot) => return slot,
                    }
                }
                Target::Plain(node) => match find(node, lane, context) {
                    Ok(child) => child,
                    Err(slot) => return slot,
                },
            },
        };
        if child.is_nothing() {
            return Waiting::Nothing;
        }
        ask_for(child, lane.rest, context);
        Waiting::Child(child)
    }
}

/// The child of a node whose prefix was passed, or the slot where it will be.
#[inline(always)]
fn find<'g, P: Probe>(
    node: Node<'g>,
    lane: &mut Lane<'_, '_>,
    context: &'g Context<'_, '_, P>,
) -> Result<Child, Waiting<'g>> {
    let Some((byte, below)) = lane.rest.split_first() else {
        let end = node.end_slot();
        return Ok(end.map_or(Child::NOTHING, |slot| Child::load(slot, &context.guard)));
    };
    lane.rest = below;
    if node.kind() != Kind::Indexed {
        return Ok(node.child(*byte, context));
    }
    let Some(slot) = node.indexed_slot(*byte, context) else {
        return Ok(Child::NOTHING);
    };
    context.prefetch(slot, 8);
    Err(Waiting::Slot(slot))
}

/// Asks for the bytes of a child that the rest of a key leads to.
#[inline(always)]
fn ask_for<P: Probe>(child: Child, rest: &[u8], context: &Context<'_, '_, P>) {
    let byte = rest.first().map_or(0, |byte| usize::from(*byte));
    // SAFETY: the child was read from a slot under the guard of `context`.
    let (first, bytes) = match unsafe { child.target() } {
        Target::Nothing => return,
        Target::Leaf(leaf) => (
            leaf.base().as_ptr().cast_const(),
            SMALL_LEAF_BYTES.max(LEAF_HEAD_BYTES),
        ),
        Target::Plain(node) | Target::Prefixed(node) => {
            let base = node.base().as_ptr().cast_const();
            match node.kind() {
                Kind::Direct => (std::ptr::from_ref(node.slot(byte)).cast(), 8),
                Kind::Indexed => (base.wrapping_add(HEADER_BYTES + byte), 1),
                kind => (base, kind.slots_at() + 8),
            }
        }
    };
    context.prefetch(first, bytes);
}
