//! Writing one key.

use std::sync::atomic::{AtomicPtr, Ordering};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::descent::Spot;
use super::handle::{Allocation, Failure, Locked};
use super::leaf::{Entry, Leaf};
use super::node::Node;
use super::record::{Record, pointer_to_word, word_to_pointer};
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::error::TreeError;
use crate::memory::OutOfMemory;
use crate::value::TreeValue;

/// The longest key, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 4096;

/// What to do with a value that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Keep,
    Replace,
}

/// A value on its way into the tree: its word is made once everything else is ready.
pub(super) struct Incoming<V>(Option<V>);

impl<V: TreeValue> Incoming<V> {
    pub(super) fn new(value: V) -> Self {
        Self(Some(value))
    }

    #[inline]
    fn make_pointer<P: Probe>(
        &mut self,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<*mut Node, OutOfMemory> {
        let value = self.0.take().expect("a value goes into the tree once");
        value.into_word(context, tier).map(word_to_pointer)
    }

    /// The entry for what is left of a key.
    pub(super) fn make_entry<P: Probe>(
        &mut self,
        rest: &[u8],
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<Entry, OutOfMemory> {
        let Slice { bits, class } = Slice::of(rest);
        if class < SUFFIX {
            let word = self.make_pointer(context, tier)?;
            return Ok(Entry { bits, class, word });
        }
        let suffix = &rest[SLICE_BYTES..];
        let record = Record::place(suffix, std::ptr::null_mut(), context, tier)?;
        let word = Record::word(record);
        match self.make_pointer(context, tier) {
            // SAFETY: the record was just made.
            Ok(value) => unsafe { Record::of(word) }
                .value
                .store(value, Ordering::Relaxed),
            Err(error) => {
                // SAFETY: the record was just made, and nobody knows of it.
                unsafe { Record::free(word, context.guard.memory()) };
                return Err(error);
            }
        }
        Ok(Entry { bits, class, word })
    }
}

/// Exchanges the word of a value under the leaf's lock. Those who load the new word see what it
/// may point to, and old and new are both good, so nobody need begin again.
#[inline]
fn exchange(cell: &AtomicPtr<Node>, word: *mut Node) -> u64 {
    let old = cell.load(Ordering::Relaxed);
    cell.store(word, Ordering::Release);
    pointer_to_word(old)
}

impl<V: TreeValue> Masstree<V> {
    #[inline]
    pub(super) fn put<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        value: V,
        existing: Existing,
    ) -> Result<Option<V>, TreeError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(TreeError::KeyTooLong {
                bytes: key.len(),
                bytes_max: KEY_BYTES_MAX,
            });
        }
        let mut value = Incoming::new(value);
        loop {
            match self.try_put(context, key, &mut value, existing) {
                Ok(old) => return Ok(old),
                Err(Failure::Restart) => {}
                Err(Failure::OutOfMemory(error)) => return Err(error.into()),
            }
        }
    }

    #[inline(always)]
    fn try_put<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        value: &mut Incoming<V>,
        existing: Existing,
    ) -> Result<Option<V>, Failure> {
        let Some(spot) = self.descend(context, key)? else {
            self.plant(context)?;
            return Err(Failure::Restart);
        };
        self.frontend
            .use_leaf_to_change(&spot.leaf.node.counter, context.probe);
        let Some(cell) = self.value_cell(context, key, &spot)? else {
            self.add(context, key, &spot, value)?;
            return Ok(None);
        };
        if existing == Existing::Keep {
            let word = pointer_to_word(context.guard.load(cell));
            spot.validate(context)?;
            // SAFETY: the word was the key's under the guard, and the leaf was of one state.
            return Ok(Some(unsafe { V::from_word(word, context) }));
        }
        let locked = Locked::new(&spot.leaf.get().node.lock, spot.version, context)?;
        let word = value.make_pointer(context, spot.leaf.node.tier)?;
        context.probe.write(std::ptr::from_ref(cell).addr(), 8);
        let old = exchange(cell, word);
        drop(locked);
        // SAFETY: the old word was the key's, and now nobody can reach it without a guard.
        Ok(Some(unsafe { self.leave(old, context) }))
    }

    /// The value of a word that was taken out of the tree, whose block is given up.
    ///
    /// # Safety
    /// As [`TreeValue::retire_word`].
    pub(super) unsafe fn leave<P: Probe>(&self, word: u64, context: &Context<'_, '_, P>) -> V {
        // SAFETY: the caller's promise.
        let value = unsafe { V::from_word(word, context) };
        // SAFETY: the caller's promise.
        unsafe { V::retire_word(word, context) };
        value
    }

    pub(super) fn update_in<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        mut change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, TreeError> {
        loop {
            match self.try_update(context, key, &mut change) {
                Ok(new) => return Ok(new),
                Err(Failure::Restart) => {}
                Err(Failure::OutOfMemory(error)) => return Err(error.into()),
            }
        }
    }

    #[inline(always)]
    fn try_update<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        change: &mut impl FnMut(V) -> V,
    ) -> Result<Option<V>, Failure> {
        let Some(spot) = self.descend(context, key)? else {
            return Ok(None);
        };
        self.frontend
            .use_leaf_to_change(&spot.leaf.node.counter, context.probe);
        let Some(cell) = self.value_cell(context, key, &spot)? else {
            return Ok(None);
        };
        let seen = context.guard.load(cell);
        spot.validate(context)?;
        // SAFETY: the word was the key's under the guard, and the leaf was of one state.
        let value = change(unsafe { V::from_word(pointer_to_word(seen), context) });
        let locked = Locked::new(&spot.leaf.get().node.lock, spot.version, context)?;
        // An exchange of values leaves the version as it is.
        if cell.load(Ordering::Relaxed) != seen {
            return Err(Failure::Restart);
        }
        let word = value.clone().into_word(context, spot.leaf.node.tier)?;
        context.probe.write(std::ptr::from_ref(cell).addr(), 8);
        let old = exchange(cell, word_to_pointer(word));
        drop(locked);
        // SAFETY: the old word was the key's, and now nobody can reach it without a guard.
        unsafe { V::retire_word(old, context) };
        Ok(Some(value))
    }

    /// Gives an empty tree its root.
    #[cold]
    fn plant<P: Probe>(&self, context: &Context<'_, '_, P>) -> Result<(), Failure> {
        let edge = self.first_edge(context)?;
        let locked = Locked::new(edge.lock, edge.version, context)?;
        if !edge.slot.load(Ordering::Relaxed).is_null() {
            return Err(Failure::Restart);
        }
        let root = Allocation::leaf(context, &self.frontend, 0, TierId::NEAR, 0)?;
        edge.slot.store(root.publish(), Ordering::Release);
        locked.changed();
        Ok(())
    }

    /// Adds a key that is not there.
    #[inline]
    fn add<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        spot: &Spot<'_>,
        value: &mut Incoming<V>,
    ) -> Result<(), Failure> {
        let leaf = spot.leaf;
        if let Some(found) = spot.found {
            self.branch(context, key, spot, found.slot, value)?;
        } else if leaf.is_full() {
            self.split_leaf(context, key, spot, value)?;
        } else {
            let locked = Locked::new(&leaf.node.lock, spot.version, context)?;
            let entry = value.make_entry(&key[spot.depth..], context, leaf.node.tier)?;
            leaf.insert(entry);
            leaf.report_insert(context);
            locked.changed();
        }
        self.count.add_one();
        Ok(())
    }

    /// Puts a key and another that is in a record, both of which go on after the same slice, into a
    /// layer of their own; into several where more slices are the same.
    #[cold]
    fn branch<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
        spot: &Spot<'_>,
        slot: usize,
        value: &mut Incoming<V>,
    ) -> Result<(), Failure> {
        let leaf = spot.leaf;
        let locked = Locked::new(&leaf.node.lock, spot.version, context)?;
        let record = leaf.word(slot).load(Ordering::Relaxed);
        let chain = self.grow_chain(context, key, spot, record, value)?;
        let mut root = std::ptr::null_mut();
        for node in chain.into_iter().rev() {
            root = node.publish();
        }
        leaf.replace(slot, LAYER, root);
        leaf.report_insert(context);
        locked.changed();
        self.height.may_change();
        // SAFETY: the leaf no longer points to the record; its value went to a new one.
        unsafe { Record::retire(record, context) };
        Ok(())
    }

    /// The layers for a key and another in a record, from the upper to the lower.
    fn grow_chain<'m, P: Probe>(
        &self,
        context: &Context<'m, '_, P>,
        key: &[u8],
        spot: &Spot<'_>,
        record: *mut Node,
        value: &mut Incoming<V>,
    ) -> Result<Vec<Allocation<'m, Leaf>>, Failure> {
        // SAFETY: the record is in the leaf, whose lock is held.
        let (mut theirs, their_value) =
            unsafe { (Record::suffix(record, context), &Record::of(record).value) };
        let mut ours = &key[spot.depth + SLICE_BYTES..];
        let mut chain: Vec<Allocation<'m, Leaf>> = Vec::new();
        let mut tier = spot.leaf.node.tier;
        let mut append = |link: Option<u64>| {
            let level = spot.level + 1 + chain.len() as u32;
            let next = Allocation::leaf(context, &self.frontend, level, tier, 0)?;
            tier = next.node.tier;
            if let (Some(above), Some(bits)) = (chain.last(), link) {
                above.insert(Entry {
                    bits,
                    class: LAYER,
                    word: next.pointer(),
                });
            }
            chain.push(next);
            Ok::<_, OutOfMemory>(())
        };
        append(None)?;
        while Slice::of(ours) == Slice::of(theirs) {
            append(Some(Slice::of(ours).bits))?;
            (ours, theirs) = (&ours[SLICE_BYTES..], &theirs[SLICE_BYTES..]);
        }
        let last = chain.last().expect("the chain has a leaf");
        let their_suffix = theirs.get(SLICE_BYTES..).unwrap_or_default();
        let mut theirs = entry_of(theirs, their_value.load(Ordering::Relaxed));
        if theirs.class == SUFFIX {
            let record = Record::place(their_suffix, theirs.word, context, last.node.tier)?;
            theirs.word = Record::word(record);
        }
        match value.make_entry(ours, context, last.node.tier) {
            Ok(entry) => {
                last.insert(theirs);
                last.insert(entry);
                Ok(chain)
            }
            Err(error) => {
                if theirs.class == SUFFIX {
                    // SAFETY: the record was just made, and nobody knows of it.
                    unsafe { Record::free(theirs.word, context.guard.memory()) };
                }
                Err(error.into())
            }
        }
    }
}

fn entry_of(rest: &[u8], word: *mut Node) -> Entry {
    let Slice { bits, class } = Slice::of(rest);
    Entry { bits, class, word }
}
