//! What writers do to nodes.

use std::sync::atomic::Ordering::{Relaxed, Release};

use nearfar_model::Probe;

use super::geometry::WORD_BYTES;
use super::node::{Header, NO_KEY, Node};
use crate::context::Context;

/// For nodes that the caller has locked or that nobody else can reach.
impl Node<'_> {
    /// Puts a pair at `index` of a leaf that has room.
    pub(super) fn insert_pair<P: Probe>(
        self,
        index: usize,
        key: u64,
        word: u64,
        context: &Context<'_, '_, P>,
    ) {
        let count = self.count();
        let (keys, values) = (&self.keys()[index..=count], &self.values()[index..=count]);
        for at in (1..keys.len()).rev() {
            keys[at].store(keys[at - 1].load(Relaxed), Relaxed);
        }
        for at in (1..values.len()).rev() {
            values[at].store(values[at - 1].load(Relaxed), Relaxed);
        }
        keys[0].store(key, Relaxed);
        values[0].store(word, Relaxed);
        self.finish_write(index, count + 1, count + 1, context);
    }

    /// Takes the pair at `index` out of a leaf.
    pub(super) fn remove_pair<P: Probe>(self, index: usize, context: &Context<'_, '_, P>) {
        let count = self.count();
        let (keys, values) = (&self.keys()[index..count], &self.values()[index..count]);
        for at in 1..keys.len() {
            keys[at - 1].store(keys[at].load(Relaxed), Relaxed);
            values[at - 1].store(values[at].load(Relaxed), Relaxed);
        }
        keys[keys.len() - 1].store(NO_KEY, Relaxed);
        self.finish_write(index, count, count - 1, context);
    }

    /// Puts a separator at `index` of an inner node that has room, and a child behind it.
    pub(super) fn insert_child<P: Probe>(
        self,
        index: usize,
        key: u64,
        child: Node<'_>,
        context: &Context<'_, '_, P>,
    ) {
        let count = self.count();
        let (keys, children) = (&self.keys()[index..=count], &self.children()[index + 1..]);
        for at in (1..keys.len()).rev() {
            keys[at].store(keys[at - 1].load(Relaxed), Relaxed);
            children[at].store(children[at - 1].load(Relaxed), Release);
        }
        keys[0].store(key, Relaxed);
        children[0].store(child.as_ptr(), Release);
        self.finish_write(index, count + 1, count + 1, context);
    }

    /// Takes the separator at `index`, and the child behind it, out of an inner node.
    pub(super) fn remove_child<P: Probe>(self, index: usize, context: &Context<'_, '_, P>) {
        let count = self.count();
        let keys = &self.keys()[index..count];
        let children = &self.children()[index + 1..=count];
        for at in 1..keys.len() {
            keys[at - 1].store(keys[at].load(Relaxed), Relaxed);
            children[at - 1].store(children[at].load(Relaxed), Release);
        }
        keys[keys.len() - 1].store(NO_KEY, Relaxed);
        children[children.len() - 1].store(std::ptr::null_mut(), Release);
        self.finish_write(index, count, count - 1, context);
    }

    /// Puts another separator at `index` of an inner node.
    pub(super) fn set_separator<P: Probe>(
        self,
        index: usize,
        key: u64,
        context: &Context<'_, '_, P>,
    ) {
        self.keys()[index].store(key, Relaxed);
        self.finish_write(index, index + 1, self.count(), context);
    }

    /// Makes a leaf hold these pairs, and no others, from `from` on.
    pub(super) fn fill_leaf<P: Probe>(
        self,
        from: usize,
        pairs: &[(u64, u64)],
        context: &Context<'_, '_, P>,
    ) {
        let (old, new) = (self.count(), from + pairs.len());
        let (keys, values) = (self.keys(), self.values());
        for (index, (key, value)) in (from..).zip(pairs) {
            keys[index].store(*key, Relaxed);
            values[index].store(*value, Relaxed);
        }
        self.clear_keys(new, old);
        self.finish_write(from, new.max(old), new, context);
    }

    /// Makes an inner node hold these separators and children, and no others.
    pub(super) fn fill_inner<P: Probe>(
        self,
        separators: &[u64],
        children: &[*mut Header],
        context: &Context<'_, '_, P>,
    ) {
        debug_assert_eq!(separators.len() + 1, children.len());
        let (old, new) = (self.count(), separators.len());
        for (slot, key) in self.keys().iter().zip(separators) {
            slot.store(*key, Relaxed);
        }
        let slots = self.children();
        for (slot, child) in slots.iter().zip(children) {
            slot.store(*child, Release);
        }
        for slot in slots.iter().take(old + 1).skip(new + 1) {
            slot.store(std::ptr::null_mut(), Release);
        }
        self.clear_keys(new, old);
        self.finish_write(0, new.max(old), new, context);
    }

    /// Takes the separators from `count` on out of an inner node, and the children behind them.
    pub(super) fn truncate_inner<P: Probe>(self, count: usize, context: &Context<'_, '_, P>) {
        let old = self.count();
        for slot in self.children().iter().take(old + 1).skip(count + 1) {
            slot.store(std::ptr::null_mut(), Release);
        }
        self.clear_keys(count, old);
        self.finish_write(count, old, count, context);
    }

    fn clear_keys(self, from: usize, to: usize) {
        for slot in self.keys().iter().take(to).skip(from) {
            slot.store(NO_KEY, Relaxed);
        }
    }

    /// Brings samples and count up to date after a write to the slots `from..to`, and reports it.
    fn finish_write<P: Probe>(
        self,
        from: usize,
        to: usize,
        count: usize,
        context: &Context<'_, '_, P>,
    ) {
        let geometry = self.geometry();
        let keys = self.keys();
        for (group, sample) in (1..).zip(self.samples()) {
            let start = geometry.group_start(group);
            if start >= from && start < to {
                sample.store(keys[start].load(Relaxed), Relaxed);
            }
        }
        self.set_count(count);
        let bytes = (to - from) * WORD_BYTES;
        let slots = self.word_address(geometry.first_slot_word() + from);
        let probe = context.probe;
        probe.write(
            self.word_address(geometry.first_key_word() + from).addr(),
            bytes,
        );
        probe.write(slots.addr(), bytes);
        probe.write(
            self.as_ptr().addr(),
            geometry.first_slot_word() * WORD_BYTES,
        );
    }

    /// The separator at `index` of an inner node that its caller has locked.
    pub(super) fn separator(self, index: usize) -> u64 {
        self.keys()[index].load(Relaxed)
    }

    /// The separators of an inner node that its caller has locked.
    pub(super) fn separators(self) -> Vec<u64> {
        let keys = self.keys().iter().take(self.count());
        keys.map(|key| key.load(Relaxed)).collect()
    }

    /// The children of an inner node that its caller has locked.
    pub(super) fn child_pointers(self) -> Vec<*mut Header> {
        let children = self.children().iter().take(self.count() + 1);
        children.map(|child| child.load(Relaxed)).collect()
    }
}
