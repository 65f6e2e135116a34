//! Leaves (border nodes of mao-2012).

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::node::Node;
use super::permutation::Permutation;
use super::slice::{FREE, LAYER, SUFFIX, Slice};
use crate::context::Context;

/// Entries that a leaf has at most: with fourteen, a leaf fills four lines.
pub(super) const LEAF_WIDTH: usize = 14;

/// A leaf of one layer's B+tree. Entries stay in their slots; the permutation says their order, and
/// the classes what the words are:
///
/// * the word of a value, up to [`WHOLE`](super::slice::WHOLE),
/// * the address of a [`Record`](super::record::Record), where it is [`SUFFIX`],
/// * the address of a node, the root of the next layer, where it is [`LAYER`],
/// * nothing, where it is [`FREE`].
///
/// All keys with equal slices are in the same leaf: there are at most ten, a key of each length and
/// one entry for those that go on.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) node: Node,
    permutation: AtomicU64,
    /// Four bits for each slot.
    classes: AtomicU64,
    slices: [AtomicU64; LEAF_WIDTH],
    words: [AtomicPtr<Node>; LEAF_WIDTH],
}

pub(super) const LEAF_BYTES: usize = size_of::<Leaf>();

const _: () = assert!(LEAF_BYTES == 256);

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) slot: usize,
    pub(super) class: u8,
}

/// An entry, as it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) bits: u64,
    pub(super) class: u8,
    pub(super) word: *mut Node,
}

impl Entry {
    /// What the layer sees of the entry's key.
    #[inline]
    pub(super) fn slice(&self) -> Slice {
        Slice {
            bits: self.bits,
            class: self.class.min(SUFFIX),
        }
    }
}

/// Entries of a leaf, in order.
#[derive(Debug)]
pub(super) struct Page {
    entries: [Entry; LEAF_WIDTH + 1],
    count: usize,
}

impl Page {
    pub(super) fn new() -> Self {
        let nothing = Entry {
            bits: 0,
            class: FREE,
            word: std::ptr::null_mut(),
        };
        Self {
            entries: [nothing; LEAF_WIDTH + 1],
            count: 0,
        }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.count]
    }
}

/// The classes of a leaf without entries.
const NO_CLASSES: u64 = u64::MAX;

#[inline(always)]
fn class_in(classes: u64, slot: usize) -> u8 {
    ((classes >> (4 * slot)) & 15) as u8
}

/// Whether an entry of this class, with the same bits, is the one for the slice.
#[inline(always)]
fn is_for(class: u8, slice: Slice) -> bool {
    class == slice.class || (class == LAYER && slice.class == SUFFIX)
}

impl Leaf {
    pub(super) fn new(tier: TierId, uses: u16) -> Self {
        Self {
            node: Node::new(tier, 0, uses),
            permutation: AtomicU64::new(Permutation::EMPTY.0),
            classes: AtomicU64::new(NO_CLASSES),
            slices: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    #[inline]
    pub(super) fn permutation(&self) -> Permutation {
        Permutation(self.permutation.load(Relaxed))
    }

    pub(super) fn is_full(&self) -> bool {
        self.permutation().count() == LEAF_WIDTH
    }

    /// The entry for a slice. Order does not matter for that: all slots are compared.
    #[inline(always)]
    pub(super) fn find(&self, slice: Slice) -> Option<Found> {
        let classes = self.classes.load(Relaxed);
        let equal = |slot: usize| self.slices[slot].load(Relaxed) == slice.bits;
        // Two chains of half the length, since each comparison waits for the one before.
        let (mut even, mut odd) = (usize::MAX, usize::MAX);
        for slot in (0..LEAF_WIDTH).step_by(2) {
            even = select_unpredictable(equal(slot), slot, even);
            odd = select_unpredictable(equal(slot + 1), slot + 1, odd);
        }
        let slot = select_unpredictable(even == usize::MAX, odd, even);
        if slot == usize::MAX {
            return None;
        }
        let class = class_in(classes, slot);
        if is_for(class, slice) {
            return Some(Found { slot, class });
        }
        self.find_among_equals(slice, classes)
    }

    /// As [`Self::find`], where a free slot or a key of another length has the same slice.
    #[cold]
    fn find_among_equals(&self, slice: Slice, classes: u64) -> Option<Found> {
        (0..LEAF_WIDTH)
            .map(|slot| Found {
                slot,
                class: class_in(classes, slot),
            })
            .find(|found| {
                is_for(found.class, slice) && self.slices[found.slot].load(Relaxed) == slice.bits
            })
    }

    /// Reports to the probe what [`Self::find`] touches.
    #[inline(always)]
    pub(super) fn report_search<P: Probe>(&self, context: &Context<'_, '_, P>) {
        let head = size_of::<Node>() + 16 + LEAF_WIDTH * size_of::<u64>();
        context.follow(self, head);
    }

    /// Reports to the probe what putting an entry in or taking one out changes: the head, a slice
    /// and a word.
    pub(super) fn report_insert<P: Probe>(&self, context: &Context<'_, '_, P>) {
        let (head, last) = (std::ptr::from_ref(self), self.words.last());
        context.probe.write(head.addr() + size_of::<Node>(), 24);
        let word = last.map_or(head.addr(), |word| std::ptr::from_ref(word).addr());
        context.probe.write(word, 8);
    }

    /// Entries below the slice. The lock is held, or nobody else knows of the leaf.
    pub(super) fn position(&self, slice: Slice) -> usize {
        let classes = self.classes.load(Relaxed);
        let slots = self.permutation().slots();
        let entries = slots.map(|slot| self.entry(slot, classes, |word| word.load(Relaxed)));
        entries.take_while(|entry| entry.slice() < slice).count()
    }

    #[inline(always)]
    pub(super) fn word(&self, slot: usize) -> &AtomicPtr<Node> {
        &self.words[slot]
    }

    /// The entry in a slot; its word is loaded by `load`.
    #[inline(always)]
    fn entry(
        &self,
        slot: usize,
        classes: u64,
        load: impl Fn(&AtomicPtr<Node>) -> *mut Node,
    ) -> Entry {
        Entry {
            bits: self.slices[slot].load(Relaxed),
            class: class_in(classes, slot),
            word: load(&self.words[slot]),
        }
    }

    /// Copies the entries from `from` to `to`, both included, in order; what comes out means
    /// something if the lock's version is validated afterwards.
    #[inline]
    pub(super) fn copy<P: Probe>(
        &self,
        from: Slice,
        to: Slice,
        context: &Context<'_, '_, P>,
        page: &mut Page,
    ) {
        self.report_search(context);
        let words = std::ptr::from_ref(&self.words);
        context.probe.read(words.addr(), size_of_val(&self.words));
        let classes = self.classes.load(Relaxed);
        let permutation = self.permutation();
        page.count = 0;
        for slot in permutation.slots() {
            // A word that was caught in the middle of a split may have anything in it.
            let slot = slot.min(LEAF_WIDTH - 1);
            let entry = self.entry(slot, classes, |word| context.guard.load(word));
            page.entries[page.count] = entry;
            let slice = entry.slice();
            page.count += usize::from(from <= slice && slice <= to);
        }
    }

    #[inline(always)]
    pub(super) fn classes(&self) -> u64 {
        self.classes.load(Relaxed)
    }

    /// The entries in order. The lock is held, or nobody else knows of the leaf.
    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = Entry> {
        let classes = self.classes();
        let slots = self.permutation().slots();
        slots.map(move |slot| self.entry(slot, classes, |word| word.load(Relaxed)))
    }

    fn set_class(&self, slot: usize, class: u8) {
        let shift = 4 * slot;
        let others = self.classes.load(Relaxed) & !(15 << shift);
        let classes = others | (u64::from(class) << shift);
        self.classes.store(classes, Relaxed);
    }

    /// Puts an entry where it belongs and returns its slot. The lock is held, and there is room.
    pub(super) fn insert(&self, entry: Entry) -> usize {
        let position = self.position(entry.slice());
        self.insert_at(position, entry)
    }

    fn insert_at(&self, position: usize, entry: Entry) -> usize {
        let (permutation, slot) = self.permutation().insert(position);
        self.slices[slot].store(entry.bits, Relaxed);
        self.words[slot].store(entry.word, Relaxed);
        self.set_class(slot, entry.class);
        self.permutation.store(permutation.0, Relaxed);
        slot
    }

    /// Puts another entry into a slot, of the same slice. The lock is held.
    pub(super) fn replace(&self, slot: usize, class: u8, word: *mut Node) {
        self.words[slot].store(word, Relaxed);
        self.set_class(slot, class);
    }

    /// Takes the entry out of a slot and says how many are left. The lock is held.
    pub(super) fn remove(&self, slot: usize) -> usize {
        let permutation = self.permutation();
        let position = permutation.slots().position(|at| at == slot);
        debug_assert!(position.is_some(), "an entry has a position");
        self.set_class(slot, FREE);
        let permutation = position.map_or(permutation, |position| permutation.remove(position));
        self.permutation.store(permutation.0, Relaxed);
        permutation.count()
    }

    /// Moves the entries from `position` on to `right`, which is empty. The lock is held.
    pub(super) fn split_off(&self, position: usize, right: &Self) {
        let permutation = self.permutation();
        let classes = self.classes();
        let moved = permutation.slots().skip(position);
        for (index, slot) in moved.enumerate() {
            let entry = self.entry(slot, classes, |word| word.load(Relaxed));
            right.insert_at(index, entry);
            self.set_class(slot, FREE);
        }
        let left = permutation.truncate(position);
        self.permutation.store(left.0, Relaxed);
    }
}
