//! Migration of one node to another tier.

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, Release};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::handle::{Allocation, At, Kind, Locked, NODE_BYTES_MAX, Restart, bytes_of, enter};
use super::leaf::{Entry, Found, Leaf};
use super::node::{Inner, Node};
use super::record::{Record, pointer_to_word, word_to_pointer};
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::lock::{OptimisticLock, Version};
use crate::memory::OutOfMemory;
use crate::placement::{MigrateError, Migration, Placed};
use crate::value::{NewWords, TreeValue};

/// A node that was found by its name, and what points to it.
pub(super) struct Located<'g> {
    lock: &'g OptimisticLock,
    version: Version,
    slot: &'g AtomicPtr<Node>,
    /// The tier of the node above; none for the root.
    above: Option<TierId>,
    pub(super) node: At<'g, Node>,
    own: Version,
}

impl<V: TreeValue> Masstree<V> {
    /// The node at a level on the way to a key; `None` where the way ends before.
    pub(super) fn locate<'g, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        name: &Placed<Box<[u8]>>,
    ) -> Result<Option<Located<'g>>, Restart> {
        let edge = self.first_edge(context)?;
        let (mut lock, mut version, mut slot) = (edge.lock, edge.version, edge.slot);
        let (mut above, mut depth) = (None, 0);
        for level in 0.. {
            let pointer = context.guard.load(slot);
            if pointer.is_null() {
                break;
            }
            let (node, own) = enter(context, pointer, lock, version, NODE_BYTES_MAX)?;
            if level == name.level {
                return Ok(Some(Located {
                    lock,
                    version,
                    slot,
                    above,
                    node,
                    own,
                }));
            }
            let slice = Slice::of(&name.key[depth..]);
            match node.kind() {
                Kind::Inner(inner) => {
                    let (position, _) = inner.position(slice.bits);
                    inner.report_search(position, context);
                    slot = inner.get().child(position);
                }
                Kind::Leaf(leaf) => {
                    leaf.report_search(context);
                    let found = leaf.find(slice);
                    let Some(Found {
                        slot: at,
                        class: LAYER,
                    }) = found
                    else {
                        break;
                    };
                    slot = leaf.get().word(at);
                    depth += SLICE_BYTES;
                }
            }
            (lock, version, above) = (&node.get().lock, own, Some(node.tier));
        }
        match context.validate(lock, version) {
            true => Ok(None),
            false => Err(Restart),
        }
    }

    /// Bytes of a node with what moves along, and the nearest tier of what is below it.
    pub(super) fn surroundings<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        located: &Located<'_>,
    ) -> Result<(usize, Option<TierId>), Restart> {
        let node = located.node;
        let validate = || match context.validate(&node.lock, located.own) {
            true => Ok(()),
            false => Err(Restart),
        };
        let inner = match node.kind() {
            Kind::Leaf(leaf) => return self.around(context, &leaf, validate),
            Kind::Inner(inner) => inner,
        };
        let mut nearest = None;
        for position in 0..=inner.count() {
            let child = context.guard.load(inner.child(position));
            validate()?;
            // SAFETY: the child is in the tree under the guard, as the lock says.
            let tier = unsafe { At::<Node>::new(child) }.tier;
            nearest = Some(nearest.map_or(tier, |nearest: TierId| nearest.min(tier)));
        }
        Ok((bytes_of(&node), nearest))
    }

    /// Moves the node, or says why not; begins again where others are at it.
    pub(super) fn try_migrate<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        name: &Placed<Box<[u8]>>,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Result<Migration, MigrateError>, Restart> {
        let Some(located) = self.locate(context, name)? else {
            return Ok(Err(MigrateError::Gone));
        };
        let node = located.node;
        let from = node.tier;
        if from == to {
            return Ok(Ok(Migration::AlreadyThere));
        }
        let (bytes, nearest_child) = self.surroundings(context, &located)?;
        let crosses = located.above.is_some_and(|above| above > to)
            || nearest_child.is_some_and(|child| child < to);
        if keep_boundary && crosses {
            return Ok(Err(MigrateError::CrossesBoundary));
        }
        let above = Locked::new(located.lock, located.version, context)?;
        let locked = Locked::new(&node.get().lock, located.own, context)?;
        let moved = match node.kind() {
            Kind::Leaf(leaf) => self.copy_leaf(context, &leaf, to),
            Kind::Inner(inner) => copy_inner(context, &inner, to),
        };
        let Some(copy) = moved else {
            return Ok(Err(MigrateError::NoRoom { tier: to, bytes }));
        };
        context
            .probe
            .write(std::ptr::from_ref(located.slot).addr(), 8);
        located.slot.store(copy, Release);
        // Old and new are the same to readers. Those who got the old one begin again, once it is
        // obsolete.
        drop(above);
        if let Kind::Leaf(leaf) = node.kind() {
            self.retire_contents(context, &leaf);
        }
        // SAFETY: the slot no longer points to the node, whose lock this is.
        unsafe { node.retire(locked, context) };
        Ok(Ok(Migration::Moved { from, bytes }))
    }

    /// A copy of a leaf on another tier, with its records and values, or `None` where there is no
    /// room for all of it. The lock is held.
    fn copy_leaf<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        leaf: &Leaf,
        to: TierId,
    ) -> Option<*mut Node> {
        let copy = LeafCopy {
            leaf: Some(Allocation::leaf_on(context, to, leaf.node.counter.uses())?),
            tree: self,
        };
        for entry in leaf.entries() {
            let entry = self.copy_entry(context, entry, to).ok()?;
            copy.leaf.as_ref()?.insert(entry);
        }
        copy.publish()
    }

    fn copy_entry<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        entry: Entry,
        to: TierId,
    ) -> Result<Entry, OutOfMemory> {
        if entry.class == LAYER {
            return Ok(entry);
        }
        let mut words = NewWords::<V>::new(&self.memory);
        if entry.class < SUFFIX {
            // SAFETY: the word is in the leaf, whose lock is held.
            let word = unsafe { words.move_word(pointer_to_word(entry.word), context, to)? };
            words.keep();
            return Ok(Entry {
                word: word_to_pointer(word),
                ..entry
            });
        }
        // SAFETY: the record is in the leaf, whose lock is held.
        let (value, suffix) = unsafe {
            let value = Record::of(entry.word).value.load(Relaxed);
            (value, Record::suffix(entry.word, context))
        };
        // SAFETY: as above.
        let value = unsafe { words.move_word(pointer_to_word(value), context, to)? };
        let record = Record::place_on(suffix, word_to_pointer(value), context, to)?;
        words.keep();
        Ok(Entry {
            word: Record::word(record),
            ..entry
        })
    }

    /// Gives up the records and values of a leaf that was replaced by a copy. The lock is held.
    fn retire_contents<P: Probe>(&self, context: &Context<'_, '_, P>, leaf: &Leaf) {
        for Entry { class, word, .. } in leaf.entries() {
            // SAFETY: the copy has copies of them, and nobody comes to the leaf any more.
            unsafe {
                match class {
                    LAYER => {}
                    SUFFIX => {
                        let value = Record::of(word).value.load(Relaxed);
                        V::retire_word(pointer_to_word(value), context);
                        Record::retire(word, context);
                    }
                    _ => V::retire_word(pointer_to_word(word), context),
                }
            }
        }
    }
}

/// A copy of a leaf that is not in the tree yet: given up, with what its entries have, unless it is
/// published.
struct LeafCopy<'m, V: TreeValue> {
    leaf: Option<Allocation<'m, Leaf>>,
    tree: &'m Masstree<V>,
}

impl<V: TreeValue> LeafCopy<'_, V> {
    fn publish(mut self) -> Option<*mut Node> {
        self.leaf.take().map(Allocation::publish)
    }
}

impl<V: TreeValue> Drop for LeafCopy<'_, V> {
    fn drop(&mut self) {
        for Entry { class, word, .. } in self.leaf.iter().flat_map(|leaf| leaf.entries()) {
            match class {
                LAYER => {}
                // SAFETY: the copies were just made, and nobody knows of them.
                SUFFIX => unsafe { self.tree.free_record(word) },
                // SAFETY: as above.
                _ => unsafe { V::free_word(pointer_to_word(word), &self.tree.memory) },
            }
        }
    }
}

fn copy_inner<P: Probe>(
    context: &Context<'_, '_, P>,
    inner: &Inner,
    to: TierId,
) -> Option<*mut Node> {
    let copy = Allocation::inner_on(context, to, inner.node.height())?;
    copy.copy_from(inner);
    Some(copy.publish())
}
