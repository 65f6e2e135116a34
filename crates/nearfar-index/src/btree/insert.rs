//! Inserts and changes of values.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::lookup::Found;
use super::node::Restart;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::OutOfMemory;
use crate::value::TreeValue;

/// A value on its way into the tree: its word, once its leaf's tier is known.
struct Pending<V> {
    value: Option<V>,
    word: Option<(u64, TierId)>,
}

impl<V: TreeValue> Pending<V> {
    fn new(value: V) -> Self {
        Self {
            value: Some(value),
            word: None,
        }
    }

    /// The word, for a leaf on `tier`.
    #[inline(always)]
    fn word<P: Probe>(
        &mut self,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory> {
        if let Some(value) = self.value.take() {
            let word = value.into_word(context, tier)?;
            self.word = Some((word, tier));
            return Ok(word);
        }
        let (word, on) = self.word.expect("a value becomes a word once");
        if V::INLINE || on == tier {
            return Ok(word);
        }
        // The leaf moved, or another one took its place: the value goes where that is, if it can.
        // SAFETY: the word is from `into_word` or `move_word` and nobody else's.
        if let Ok(moved) = unsafe { V::move_word(word, context, tier) } {
            self.free(context);
            self.word = Some((moved, tier));
            return Ok(moved);
        }
        Ok(word)
    }

    /// Frees the word of a value that does not go in.
    fn free<P: Probe>(&mut self, context: &Context<'_, '_, P>) {
        if let Some((word, _)) = self.word.take() {
            // SAFETY: the word is nobody else's.
            unsafe { V::free_word(word, context.guard.memory()) };
        }
    }
}

impl<V: TreeValue> BPlusTree<V> {
    #[inline]
    pub(super) fn insert_in<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        value: V,
    ) -> Result<Option<V>, OutOfMemory> {
        let mut pending = Pending::new(value);
        loop {
            match self.try_insert(context, key, &mut pending, true) {
                Ok(Ok(old)) => return Ok(old),
                Ok(Err(error)) => {
                    pending.free(context);
                    return Err(error);
                }
                Err(Restart) => {}
            }
        }
    }

    #[inline]
    pub(super) fn get_or_insert_in<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        value: V,
    ) -> Result<Option<V>, OutOfMemory> {
        let mut pending = Pending::new(value);
        loop {
            match self.try_insert(context, key, &mut pending, false) {
                Ok(Ok(None)) => return Ok(None),
                Ok(result) => {
                    pending.free(context);
                    return result;
                }
                Err(Restart) => {}
            }
        }
    }

    /// Sets a key's value, and returns the one before; one that is there already stays if
    /// `overwrites` does not say otherwise.
    #[inline(always)]
    fn try_insert<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        pending: &mut Pending<V>,
        overwrites: bool,
    ) -> Result<Result<Option<V>, OutOfMemory>, Restart> {
        let found = self.find(context, key)?;
        let leaf = found.leaf;
        if found.is_there {
            return if overwrites {
                self.try_overwrite(context, &found, pending)
            } else {
                self.try_keep(context, &found)
            };
        }
        if leaf.count() == leaf.capacity() {
            leaf.validate(found.version, context)?;
            // Then the leaf is looked for again.
            return match self.make_room(context, key) {
                Ok(()) => Err(Restart),
                Err(error) => Ok(Err(error)),
            };
        }
        let word = match pending.word(context, leaf.tier()) {
            Ok(word) => word,
            Err(error) => return Ok(Err(error)),
        };
        leaf.try_lock(found.version, context)?;
        leaf.insert_pair(found.rank, key, word, context);
        context.unlock(leaf.lock());
        self.keys.add_one();
        self.frontend.use_leaf(leaf.counter(), context.probe);
        Ok(Ok(None))
    }

    /// The value of a key that is there.
    fn try_keep<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        found: &Found<'_>,
    ) -> Result<Result<Option<V>, OutOfMemory>, Restart> {
        found.leaf.read_slot(found.rank - 1, context);
        let word = found.leaf.load_value(found.rank - 1);
        found.leaf.validate(found.version, context)?;
        self.frontend.use_leaf(found.leaf.counter(), context.probe);
        // SAFETY: the word was the key's when its leaf was validated, under this guard.
        Ok(Ok(Some(unsafe { V::from_word(word, context) })))
    }

    /// Exchanges the value of a key that is there.
    #[inline(always)]
    fn try_overwrite<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        found: &Found<'_>,
        pending: &mut Pending<V>,
    ) -> Result<Result<Option<V>, OutOfMemory>, Restart> {
        let leaf = found.leaf;
        let word = match pending.word(context, leaf.tier()) {
            Ok(word) => word,
            Err(error) => return Ok(Err(error)),
        };
        leaf.try_lock(found.version, context)?;
        let slot = &leaf.values()[found.rank - 1];
        // Release: readers that see the word must see what it points to (their fence is in
        // `validate`). They see the old word or the new one, each as good as the other, so the
        // version need not change.
        let old = slot.swap(word, AcqRel);
        leaf.report_exchange(found.rank - 1, context);
        context.unlock_unchanged(leaf.lock());
        self.frontend.use_leaf(leaf.counter(), context.probe);
        // SAFETY: the word was the tree's until now, and is seen under this guard.
        let value = unsafe { V::from_word(old, context) };
        // SAFETY: it was taken out just now, by this thread alone.
        unsafe { V::retire_word(old, context) };
        Ok(Ok(Some(value)))
    }

    #[inline]
    pub(super) fn update_in<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        mut change: impl FnMut(V) -> V,
    ) -> Result<Option<V>, OutOfMemory> {
        loop {
            if let Ok(result) = self.try_update(context, key, &mut change) {
                return result;
            }
        }
    }

    /// Changes a value if nobody else does meanwhile. `change` runs without any lock.
    #[inline(always)]
    fn try_update<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        change: &mut impl FnMut(V) -> V,
    ) -> Result<Result<Option<V>, OutOfMemory>, Restart> {
        let found = self.find(context, key)?;
        let leaf = found.leaf;
        if !found.is_there {
            leaf.validate(found.version, context)?;
            return Ok(Ok(None));
        }
        let slot = &leaf.values()[found.rank - 1];
        leaf.read_slot(found.rank - 1, context);
        let old = found.leaf.load_value(found.rank - 1);
        leaf.validate(found.version, context)?;
        // SAFETY: the word was the key's when its leaf was validated, under this guard.
        let value = change(unsafe { V::from_word(old, context) });
        let word = match value.clone().into_word(context, leaf.tier()) {
            Ok(word) => word,
            Err(error) => return Ok(Err(error)),
        };
        // A word that is there again after it was away is the same value: the guard keeps blocks
        // from being used anew.
        let is_changed = leaf.try_lock(found.version, context).is_ok_and(|()| {
            let is_changed = slot.compare_exchange(old, word, AcqRel, Acquire).is_ok();
            leaf.report_exchange(found.rank - 1, context);
            context.unlock_unchanged(leaf.lock());
            is_changed
        });
        if !is_changed {
            // SAFETY: the word is nobody else's.
            unsafe { V::free_word(word, context.guard.memory()) };
            return Err(Restart);
        }
        self.frontend.use_leaf(leaf.counter(), context.probe);
        // SAFETY: the old word was taken out just now, by this thread alone.
        unsafe { V::retire_word(old, context) };
        Ok(Ok(Some(value)))
    }
}
