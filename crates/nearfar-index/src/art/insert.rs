//! Inserting: over a value, into a leaf, or as a new leaf.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::Art;
use super::build::discard;
use super::child::{Child, Target};
use super::descent::{Place, Spot};
use super::leaf::{self, ENTRIES_MAX, Entry, Leaf};
use super::node::{Kind, Node, Shape};
use crate::context::Context;
use crate::error::TreeError;
use crate::memory::OutOfMemory;
use crate::placement::NewNode;
use crate::value::TreeValue;

/// The longest key, in bytes: two prefixes of nodes and a leaf's suffix of it still fit a block.
pub(super) const KEY_BYTES_MAX: usize = 8192;

/// What becomes of a value that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    Keep,
    Replace,
}

/// How an attempt ended.
enum Attempt<T> {
    Done(T),
    /// Somebody was faster: look again.
    Again,
}

/// A value on its way into the tree.
struct Incoming<V: TreeValue> {
    value: Option<V>,
    word: Option<u64>,
}

impl<V: TreeValue> Incoming<V> {
    /// The value's word, with its bytes on `tier` if they are nowhere yet.
    fn word<P: Probe>(
        &mut self,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Result<u64, OutOfMemory> {
        if let Some(value) = self.value.take() {
            self.word = Some(value.into_word(context, tier)?);
        }
        Ok(self.word.unwrap_or_default())
    }

    /// Frees the word of a value that did not get into the tree.
    fn give_up<P: Probe>(self, context: &Context<'_, '_, P>) {
        if let Some(word) = self.word {
            // SAFETY: made by `word` and never published.
            unsafe { V::free_word(word, context.guard.memory()) };
        }
    }
}

impl<V: TreeValue> Art<V> {
    pub(super) fn insert_in<P: Probe>(
        &self,
        key: &[u8],
        value: V,
        present: Present,
        context: &Context<'_, '_, P>,
    ) -> Result<Option<V>, TreeError> {
        check_length(key)?;
        let mut incoming = Incoming {
            value: Some(value),
            word: None,
        };
        loop {
            let attempt = match self.try_insert(key, &mut incoming, present, context) {
                Ok(attempt) => attempt,
                Err(error) => {
                    incoming.give_up(context);
                    return Err(error.into());
                }
            };
            match attempt {
                Attempt::Done(None) => {
                    self.count.add_one();
                    return Ok(None);
                }
                Attempt::Done(Some(old)) => {
                    if present == Present::Keep {
                        incoming.give_up(context);
                    }
                    return Ok(Some(old));
                }
                Attempt::Again => {}
            }
        }
    }

    fn try_insert<P: Probe>(
        &self,
        key: &[u8],
        incoming: &mut Incoming<V>,
        present: Present,
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let spot = self.descend(key, context);
        let rest = &key[spot.depth..];
        // SAFETY: read from a slot under the guard of `context`.
        match unsafe { spot.child.target() } {
            Target::Nothing => self.add_leaf(spot, rest, incoming, context),
            Target::Leaf(leaf) => {
                context.follow(leaf.base().as_ptr(), super::lookup::LEAF_HEAD_BYTES);
                match leaf.find(rest) {
                    Some(index) if present == Present::Keep => {
                        self.frontend.use_leaf(leaf.counter(), context.probe);
                        let word = leaf.value(index).load(SeqCst);
                        // SAFETY: a word of this tree's memory, read under the guard.
                        Ok(Attempt::Done(Some(unsafe { V::from_word(word, context) })))
                    }
                    Some(index) => self.overwrite(leaf, index, incoming, context),
                    None => self.extend_leaf(spot, leaf, rest, incoming, context),
                }
            }
            Target::Plain(node) | Target::Prefixed(node) => {
                self.split_prefix(spot, node, rest, incoming, context)
            }
        }
    }

    /// Puts the value where the key's old one is.
    #[inline]
    fn overwrite<P: Probe>(
        &self,
        leaf: Leaf<'_>,
        index: usize,
        incoming: &mut Incoming<V>,
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let tier = if V::INLINE { TierId::NEAR } else { leaf.tier() };
        let word = incoming.word(tier, context)?;
        let Ok(held) = leaf.lock(context) else {
            return Ok(Attempt::Again);
        };
        if !leaf.is_live(index) {
            return Ok(Attempt::Again);
        }
        self.frontend.use_leaf(leaf.counter(), context.probe);
        let value = leaf.value(index);
        let old = value.load(Relaxed);
        value.store(word, Release);
        context.probe.write(std::ptr::from_ref(value).addr(), 8);
        drop(held);
        // SAFETY: the word was in this tree until now, and this thread took it out.
        unsafe {
            let value = V::from_word(old, context);
            V::retire_word(old, context);
            Ok(Attempt::Done(Some(value)))
        }
    }

    /// A leaf for the key where there is none.
    fn add_leaf<P: Probe>(
        &self,
        spot: Spot<'_>,
        rest: &[u8],
        incoming: &mut Incoming<V>,
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let leaf = self.new_leaf(rest, spot.level, spot.at.tier(), incoming, context)?;
        let child = Child::leaf(leaf);
        let Some(mut held) = self.lock_child(spot.at, Child::NOTHING, context) else {
            discard(child, context);
            return Ok(Attempt::Again);
        };
        if held.fill(child, context) {
            return Ok(Attempt::Done(None));
        }
        drop(held);
        match self.grow(spot, child, context) {
            Ok(true) => Ok(Attempt::Done(None)),
            Ok(false) => {
                discard(child, context);
                Ok(Attempt::Again)
            }
            Err(error) => {
                discard(child, context);
                Err(error)
            }
        }
    }

    fn new_leaf<'g, P: Probe>(
        &self,
        suffix: &[u8],
        level: u32,
        parent: TierId,
        incoming: &mut Incoming<V>,
        context: &'g Context<'_, '_, P>,
    ) -> Result<Leaf<'g>, OutOfMemory> {
        let mut entry = Entry {
            path: &[],
            suffix,
            word: 0,
        };
        let tier = self.frontend.tier_for(NewNode {
            level,
            is_leaf: true,
            parent,
            bytes: leaf::bytes_of(&[entry]),
        });
        entry.word = incoming.word(tier, context)?;
        let leaf = Leaf::allocate(&[entry], 0, tier, context)?;
        self.frontend.use_leaf(leaf.counter(), context.probe);
        Ok(leaf)
    }

    /// Replaces the node of `spot.at`, which has no room for a child there, by one that has; false
    /// where somebody was faster.
    fn grow<P: Probe>(
        &self,
        spot: Spot<'_>,
        child: Child,
        context: &Context<'_, '_, P>,
    ) -> Result<bool, OutOfMemory> {
        let Some(node) = spot.at.node() else {
            return Ok(false);
        };
        let Some(above) = self.lock_child(spot.above, Child::node(node), context) else {
            return Ok(false);
        };
        let Ok(held) = node.lock(context) else {
            return Ok(false);
        };
        let shape = match spot.at {
            Place::Byte(_, byte) if node.slot_of(byte).is_none() => Shape {
                kind: kind_with_room(node),
                prefix: [node.prefix(), &[], &[]],
                has_end: node.has_end(),
            },
            Place::End(_) if !node.has_end() => Shape {
                kind: node.kind(),
                prefix: [node.prefix(), &[], &[]],
                has_end: true,
            },
            _ => return Ok(false),
        };
        let copy = Node::allocate(shape, node.tier(), context)?;
        // SAFETY: the node is locked; the copy is nobody else's and has room for one more.
        unsafe {
            copy.copy_from(node, context);
            copy.put(spot.at, child);
        }
        above.replace(Child::node(copy), context);
        held.retire();
        Ok(true)
    }

    /// Puts the key into a leaf that does not have it: a leaf with one more, or several.
    fn extend_leaf<P: Probe>(
        &self,
        spot: Spot<'_>,
        leaf: Leaf<'_>,
        rest: &[u8],
        incoming: &mut Incoming<V>,
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let tier = if V::INLINE { TierId::NEAR } else { leaf.tier() };
        let word = incoming.word(tier, context)?;
        let Some(held) = self.lock_child(spot.at, spot.child, context) else {
            return Ok(Attempt::Again);
        };
        let Ok(old) = leaf.lock(context) else {
            return Ok(Attempt::Again);
        };
        let mut entries = [Entry::default(); ENTRIES_MAX + 1];
        let mut count = 0;
        for entry in old.entries(&[]) {
            entries[count] = entry;
            count += 1;
        }
        let at = entries[..count].partition_point(|entry| entry.suffix < rest);
        if at < count && entries[at].suffix == rest {
            return Ok(Attempt::Again);
        }
        entries.copy_within(at..count, at + 1);
        entries[at] = Entry {
            path: &[],
            suffix: rest,
            word,
        };
        let entries = &entries[..=count];
        let uses = leaf.counter().uses();
        let new = if leaf::fits(entries) {
            Child::leaf(Leaf::allocate(entries, uses, leaf.tier(), context)?)
        } else {
            self.build(entries, uses, spot.level, spot.at.tier(), context)?
        };
        held.replace(new, context);
        drop(held);
        old.retire();
        Ok(Attempt::Done(None))
    }

    /// Parts a node's prefix where the key leaves it: a node above for both.
    fn split_prefix<P: Probe>(
        &self,
        spot: Spot<'_>,
        node: Node<'_>,
        rest: &[u8],
        incoming: &mut Incoming<V>,
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let prefix = node.prefix();
        let shared = prefix.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let upper_shape = Shape {
            kind: Kind::Small5,
            prefix: [&prefix[..shared], &[], &[]],
            has_end: shared == rest.len(),
        };
        let upper_tier = self.frontend.tier_for(NewNode {
            level: spot.level,
            is_leaf: false,
            parent: spot.at.tier(),
            bytes: upper_shape.bytes(),
        });
        // Not farther than what is below it.
        let upper_tier = upper_tier.min(node.tier());
        let suffix = rest.get(shared + 1..).unwrap_or_default();
        let leaf = self.new_leaf(suffix, spot.level + 1, upper_tier, incoming, context)?;
        let leaf = Child::leaf(leaf);
        let attempt = self.put_above(spot, node, upper_shape, upper_tier, (leaf, rest), context);
        if !matches!(attempt, Ok(Attempt::Done(_))) {
            discard(leaf, context);
        }
        attempt
    }

    fn put_above<P: Probe>(
        &self,
        spot: Spot<'_>,
        node: Node<'_>,
        upper_shape: Shape<'_>,
        upper_tier: TierId,
        (leaf, rest): (Child, &[u8]),
        context: &Context<'_, '_, P>,
    ) -> Result<Attempt<Option<V>>, OutOfMemory> {
        let shared = upper_shape.prefix[0].len();
        let Some(held) = self.lock_child(spot.at, spot.child, context) else {
            return Ok(Attempt::Again);
        };
        let Ok(old) = node.lock(context) else {
            return Ok(Attempt::Again);
        };
        let upper = Node::allocate(upper_shape, upper_tier, context)?;
        let lower_shape = Shape {
            kind: node.kind(),
            prefix: [&node.prefix()[shared + 1..], &[], &[]],
            has_end: node.has_end(),
        };
        let lower = match Node::allocate(lower_shape, node.tier(), context) {
            Ok(lower) => lower,
            Err(error) => {
                // SAFETY: nobody else knows it.
                unsafe { upper.free(context.guard.memory()) };
                return Err(error);
            }
        };
        let place = match rest.get(shared) {
            Some(byte) => Place::Byte(upper, *byte),
            None => Place::End(upper),
        };
        // SAFETY: the node is locked; the new ones are nobody else's and have room.
        unsafe {
            lower.copy_from(node, context);
            upper.put(place, leaf);
            upper.add(node.prefix()[shared], Child::node(lower));
        }
        held.replace(Child::node(upper), context);
        drop(held);
        old.retire();
        Ok(Attempt::Done(None))
    }

    pub(super) fn update_in<P: Probe>(
        &self,
        key: &[u8],
        mut change: impl FnMut(V) -> V,
        context: &Context<'_, '_, P>,
    ) -> Result<Option<V>, TreeError> {
        loop {
            let Some((leaf, rest)) = self.leaf_of(key, context) else {
                return Ok(None);
            };
            context.follow(leaf.base().as_ptr(), super::lookup::LEAF_HEAD_BYTES);
            let Some(index) = leaf.find(rest) else {
                return Ok(None);
            };
            let value = leaf.value(index);
            let seen = value.load(SeqCst);
            // SAFETY: a word of this tree's memory, read under the guard.
            let changed = change(unsafe { V::from_word(seen, context) });
            let word = changed.clone().into_word(context, leaf.tier())?;
            let held = leaf.lock(context);
            if held.is_ok() && leaf.is_live(index) && value.load(Relaxed) == seen {
                value.store(word, Release);
                context.probe.write(std::ptr::from_ref(value).addr(), 8);
                drop(held);
                self.frontend.use_leaf(leaf.counter(), context.probe);
                // SAFETY: the word was in this tree until now, and this thread took it out.
                unsafe { V::retire_word(seen, context) };
                return Ok(Some(changed));
            }
            drop(held);
            // SAFETY: never published.
            unsafe { V::free_word(word, context.guard.memory()) };
        }
    }
}

/// The kind that holds one more child than a full node does.
fn kind_with_room(node: Node<'_>) -> Kind {
    let children = node.count() + 1;
    match node.kind() {
        // Removals have used up its slots: a copy has them again, if there were enough.
        Kind::Indexed if children > Kind::Indexed.capacity() - 6 => Kind::Direct,
        _ => Kind::with_room(children),
    }
}

fn check_length(key: &[u8]) -> Result<(), TreeError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(TreeError::KeyTooLong {
            bytes: key.len(),
            bytes_max: KEY_BYTES_MAX,
        });
    }
    Ok(())
}
