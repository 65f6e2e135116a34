//! Nodes: what their words mean, and the search in one.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::geometry::{GROUP_KEYS, Geometry, HEADER_WORDS, WORD_BYTES};
use crate::context::Context;
use crate::lock::{Obsolete, OptimisticLock, Version};
use crate::placement::LeafCounter;

/// What key slots hold that have no key: a search passes them by without knowing the count. A
/// key of this number is told apart by the count.
pub(super) const NO_KEY: u64 = u64::MAX;

/// What an operation met that makes it begin again at the root: a writer was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Restart;

impl From<Obsolete> for Restart {
    fn from(_: Obsolete) -> Self {
        Self
    }
}

/// The first words of every node. Height and tier never change.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    lock: OptimisticLock,
    count: AtomicU16,
    counter: LeafCounter,
    height: u8,
    tier: u8,
}

const _: () = assert!(size_of::<Header>() == HEADER_WORDS * WORD_BYTES);

/// A node that stays allocated for `'g`.
///
/// All that a lock protects is atomic; reading it without the lock gives nonsense now and then,
/// which [`Self::validate`] tells, but never a number of keys beyond the node's capacity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'g> {
    header: NonNull<Header>,
    geometry: &'g Geometry,
    lives: PhantomData<&'g Header>,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl<'g> Node<'g> {
    /// The node at an address.
    ///
    /// # Safety
    /// A node of this geometry was made there by [`Self::create`], and is not freed during `'g`.
    #[inline(always)]
    pub(super) unsafe fn new(header: NonNull<Header>, geometry: &'g Geometry) -> Self {
        Self {
            header,
            geometry,
            lives: PhantomData,
        }
    }

    /// Makes an empty node.
    ///
    /// # Safety
    /// The block has the geometry's bytes, is aligned to lines, is nobody else's, and is not freed
    /// during `'g`.
    pub(super) unsafe fn create(
        block: NonNull<u8>,
        geometry: &'g Geometry,
        height: u8,
        tier: TierId,
        uses: u16,
    ) -> Self {
        let header = Header {
            lock: OptimisticLock::new(),
            count: AtomicU16::new(0),
            counter: LeafCounter::new(uses),
            height,
            tier: tier.index() as u8,
        };
        // SAFETY: the block is large enough, aligned and nobody else's.
        unsafe { block.cast::<Header>().write(header) };
        let words = geometry.bytes() / WORD_BYTES;
        for word in HEADER_WORDS..words {
            let is_slot = (geometry.first_slot_word()..geometry.first_key_word()).contains(&word);
            // SAFETY: as above; a pointer and a number have the size of a word.
            unsafe {
                let at = block.add(word * WORD_BYTES);
                if is_slot && height > 0 {
                    at.cast().write(AtomicPtr::<Header>::default());
                } else {
                    let empty = if is_slot { 0 } else { NO_KEY };
                    at.cast().write(AtomicU64::new(empty));
                }
            }
        }
        // SAFETY: made just now.
        unsafe { Self::new(block.cast(), geometry) }
    }

    #[inline(always)]
    fn header(self) -> &'g Header {
        // SAFETY: the node lives for `'g`, and only its atomics change.
        unsafe { self.header.as_ref() }
    }

    /// The node's address, for a parent to point to.
    #[inline(always)]
    pub(super) fn as_ptr(self) -> *mut Header {
        self.header.as_ptr()
    }

    /// The node's block.
    pub(super) fn block(self) -> NonNull<u8> {
        self.header.cast()
    }

    /// The layout.
    #[inline(always)]
    pub(super) fn geometry(self) -> &'g Geometry {
        self.geometry
    }

    /// The node's lock.
    #[inline(always)]
    pub(super) fn lock(self) -> &'g OptimisticLock {
        &self.header().lock
    }

    /// Whether everything read since `version` was taken is of one state.
    #[inline(always)]
    pub(super) fn validate<P: Probe>(
        self,
        version: Version,
        context: &Context<'_, '_, P>,
    ) -> Result<(), Restart> {
        if context.validate(self.lock(), version) {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Takes the lock if nothing was written since `version`.
    #[inline(always)]
    pub(super) fn try_lock<P: Probe>(
        self,
        version: Version,
        context: &Context<'_, '_, P>,
    ) -> Result<(), Restart> {
        if context.try_lock(self.lock(), version) {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Levels below this node: zero for a leaf.
    #[inline(always)]
    pub(super) fn height(self) -> u8 {
        self.header().height
    }

    /// Where the node lies.
    #[inline]
    pub(super) fn tier(self) -> TierId {
        TierId::from_index(usize::from(self.header().tier)).unwrap_or(TierId::NEAR)
    }

    /// The uses of a leaf.
    #[inline(always)]
    pub(super) fn counter(self) -> &'g LeafCounter {
        &self.header().counter
    }

    /// The number of keys.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        usize::from(self.header().count.load(Relaxed))
    }

    pub(super) fn set_count(self, count: usize) {
        debug_assert!(count <= self.capacity(), "more keys than fit");
        self.header().count.store(count as u16, Relaxed);
    }

    /// The number of keys that fit.
    #[inline(always)]
    pub(super) fn capacity(self) -> usize {
        self.geometry.capacity(self.height())
    }

    #[inline(always)]
    fn words(self, first: usize, count: usize) -> &'g [AtomicU64] {
        // SAFETY: callers name words of the node that `create` made numbers, and which are read
        // and written as atomics ever since.
        unsafe {
            let words = self.header.cast::<AtomicU64>().add(first);
            std::slice::from_raw_parts(words.as_ptr(), count)
        }
    }

    #[inline(always)]
    pub(super) fn samples(self) -> &'g [AtomicU64] {
        self.words(HEADER_WORDS, self.geometry.samples())
    }

    /// The key slots, of which [`Self::count`] hold keys.
    #[inline(always)]
    pub(super) fn keys(self) -> &'g [AtomicU64] {
        let geometry = self.geometry;
        self.words(geometry.first_key_word(), geometry.leaf_capacity())
    }

    /// The words of a leaf's values.
    #[inline(always)]
    pub(super) fn values(self) -> &'g [AtomicU64] {
        debug_assert!(self.height() == 0, "only leaves have values");
        let geometry = self.geometry;
        self.words(geometry.first_slot_word(), geometry.leaf_capacity())
    }

    /// The pointers of an inner node.
    #[inline(always)]
    pub(super) fn children(self) -> &'g [AtomicPtr<Header>] {
        debug_assert!(self.height() > 0, "only inner nodes have children");
        let geometry = self.geometry;
        // SAFETY: in an inner node, `create` made these words pointers, one more than keys.
        unsafe {
            let words = self.header.cast::<AtomicPtr<Header>>();
            let first = words.add(geometry.first_slot_word());
            std::slice::from_raw_parts(first.as_ptr(), geometry.inner_capacity() + 1)
        }
    }

    /// The child at `index`, as it was when `version` was taken. The validation of what else was read is still to
    /// come, and is the one that is reported.
    #[inline(always)]
    pub(super) fn child<P: Probe>(
        self,
        index: usize,
        version: Version,
        context: &'g Context<'_, '_, P>,
    ) -> Result<Self, Restart> {
        let children = self.children();
        let child = context.guard.load(&children[index]);
        if !self.lock().validate(version) {
            return Err(Restart);
        }
        // SAFETY: the pointer was the tree's when the node was validated, under a guard that lasts
        // for `'g`: nobody has freed it since.
        Ok(unsafe { Self::new(NonNull::new_unchecked(child), self.geometry) })
    }

    /// Where the child at `index` is, or anything else while somebody writes: to prefetch it.
    #[inline(always)]
    pub(super) fn child_address(self, index: usize) -> *const u8 {
        self.children()[index].load(Relaxed).cast()
    }

    /// The child at `index` of a node that the caller has locked, or that nobody else can reach.
    ///
    /// # Safety
    /// The caller has locked the node, or nobody else can reach it, and `index` is at most the
    /// number of keys; the child is not freed during `'g`.
    pub(super) unsafe fn child_of_locked(self, index: usize) -> Self {
        let child = self.children()[index].load(Relaxed);
        debug_assert!(!child.is_null(), "a node has one child more than keys");
        // SAFETY: children up to the count are there, and the caller keeps them from changing.
        unsafe { Self::new(NonNull::new_unchecked(child), self.geometry) }
    }

    /// Points to another child. The caller has locked the node.
    pub(super) fn set_child(self, index: usize, child: Self) {
        self.children()[index].store(child.as_ptr(), Release);
    }

    /// Begins a read of the node: its version.
    #[inline(always)]
    pub(super) fn read<P: Probe>(self, context: &Context<'_, '_, P>) -> Result<Version, Restart> {
        let lock = self.lock();
        let first_bytes = (HEADER_WORDS + self.geometry.samples()) * WORD_BYTES;
        context.follow(self.header.as_ptr(), first_bytes);
        Ok(lock.read(|| context.waiting(lock))?)
    }

    /// The group that a search for `key` goes to, by the samples.
    #[inline(always)]
    pub(super) fn group_of(self, key: u64) -> usize {
        count_up_to(self.samples(), key)
    }

    /// The number of keys that are at most `key`, where [`Self::group_of`] gave `group`.
    #[inline(always)]
    pub(super) fn rank_in_group<P: Probe>(
        self,
        group: usize,
        key: u64,
        context: &Context<'_, '_, P>,
    ) -> usize {
        let start = self.geometry.group_start(group);
        // Keys behind a short first group are larger than any of it, and change nothing.
        let keys = &self.keys()[start..start + GROUP_KEYS];
        context.follow(keys.as_ptr(), GROUP_KEYS * WORD_BYTES);
        let mut rank = start;
        for (behind, word) in (start + 1..).zip(keys) {
            // Keys ascend, so the last one that is at most the key counts. A sum of comparisons
            // would be the same, but compilers make a slow count of bits of it.
            rank = select_unpredictable(word.load(Relaxed) <= key, behind, rank);
        }
        rank.min(self.count())
    }

    /// The number of keys that are at most `key`: the index of the child to go to, or the one
    /// behind the key's own.
    #[inline(always)]
    pub(super) fn rank<P: Probe>(self, key: u64, context: &Context<'_, '_, P>) -> usize {
        let group = self.group_of(key);
        self.prefetch_slots(group, context);
        self.rank_in_group(group, key, context)
    }

    /// Asks for the values or children of a group, which the search for its key will end at.
    #[inline(always)]
    pub(super) fn prefetch_slots<P: Probe>(self, group: usize, context: &Context<'_, '_, P>) {
        let word = self.geometry.first_slot_word() + self.geometry.group_start(group);
        context.prefetch_words::<GROUP_KEYS>(self.word_address(word));
    }

    /// Asks for what a search reads first.
    #[inline(always)]
    pub(super) fn prefetch_first<P: Probe>(self, context: &Context<'_, '_, P>) {
        let bytes = self.geometry.first_slot_word() * WORD_BYTES;
        context.prefetch(self.header.as_ptr(), bytes);
    }

    /// The address of a word.
    #[inline(always)]
    pub(super) fn word_address(self, word: usize) -> *const u8 {
        self.header
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(word * WORD_BYTES)
    }

    /// Reports a read of the value or the child at `index`.
    #[inline(always)]
    pub(super) fn read_slot<P: Probe>(self, index: usize, context: &Context<'_, '_, P>) {
        let word = self.geometry.first_slot_word() + index;
        context.follow(self.word_address(word), WORD_BYTES);
    }

    /// Reports an exchange of the value at `index` under the lock.
    #[inline(always)]
    pub(super) fn report_exchange<P: Probe>(self, index: usize, context: &Context<'_, '_, P>) {
        let word = self.geometry.first_slot_word() + index;
        context
            .probe
            .write(self.word_address(word).addr(), WORD_BYTES);
    }

    /// The separators of an inner node around child `index` narrow the keys that it is responsible
    /// for.
    #[inline]
    pub(super) fn narrow(self, index: usize, range: KeyRange) -> KeyRange {
        let keys = self.keys();
        let count = self.count();
        let low = index.checked_sub(1).and_then(|before| keys.get(before));
        let high = keys.get(index).filter(|_| index < count);
        KeyRange {
            low: low.map_or(range.low, |key| key.load(Relaxed)),
            high: high.map_or(range.high, |key| key.load(Relaxed).wrapping_sub(1)),
        }
    }
}

/// The keys from `low` to `high`, both included, that a node is responsible for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl KeyRange {
    /// All keys.
    pub(super) const ALL: Self = Self {
        low: 0,
        high: u64::MAX,
    };
}

/// The number of words that are at most `key`, without a branch that depends on them.
#[inline(always)]
fn count_up_to(words: &[AtomicU64], key: u64) -> usize {
    words
        .iter()
        .map(|word| usize::from(word.load(Relaxed) <= key))
        .sum()
}

/// What more than one kind of operation reads.
impl Node<'_> {
    /// The word of a value, which may point to a block: that is good under the guard once the
    /// version is validated, though values are exchanged without a new version. The order is what
    /// reclamation asks for of a load of a pointer (`seize::Guard::protect`).
    #[inline(always)]
    pub(super) fn load_value(self, index: usize) -> u64 {
        self.values()[index].load(SeqCst)
    }

    /// The pairs of a leaf: to be validated, or of a leaf that its caller has locked.
    pub(super) fn pairs(self) -> Vec<(u64, u64)> {
        let keys = self.keys().iter().take(self.count()).enumerate();
        keys.map(|(index, key)| (key.load(Relaxed), self.load_value(index)))
            .collect()
    }
}
