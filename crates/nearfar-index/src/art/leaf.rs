//! Leaves: a few keys that share the path above, each with what the path leaves of it.
//!
//! ```text
//! byte 0      2       3       4      6
//! | uses | state | shape | live | suffixes … | pad to 8 | values, a word each |
//! | uses | state | suffix         | value |        a tiny leaf, of 16 bytes
//! ```
//!
//! A tiny leaf holds one key, of which at most 5 bytes are left: all leaves of a large tree of
//! integers but a few. Which of the two a leaf is, the pointer to it tells.
//!
//! Which keys a leaf holds never changes: another key means another leaf in its place. Values are
//! changed in the leaf by whoever holds its lock. A key is removed by clearing its bit in `live`,
//! for good. So a reader needs no lock and no version: it reads the bit, then the value.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use nearfar_memory::TierId;
use nearfar_model::Probe;

use crate::context::Context;
use crate::lock::Obsolete;
use crate::memory::{OutOfMemory, Purpose};
use crate::placement::LeafCounter;
use crate::sync::pause;

/// The most keys of a leaf.
pub(super) const ENTRIES_MAX: usize = 16;
/// The most bytes of a leaf with several keys.
pub(super) const BUCKET_BYTES_MAX: usize = 128;

const LOCKED: u8 = 1;
const OBSOLETE: u8 = 2;
/// Of a tiny leaf only: its key was removed.
const REMOVED: u8 = 4;
/// Of a tiny leaf only: the suffix has all 5 bytes. Where it has less, the last says how many.
const FULL: u8 = 8;
const TIER_SHIFT: u32 = 4;

/// Where the suffix of a tiny leaf begins, and how long it can be.
const TINY_SUFFIX_AT: usize = 3;
const TINY_SUFFIX_BYTES: usize = 5;
const TINY_BYTES: usize = 16;

/// In the upper half of `shape`: suffixes differ in length, or are longer than a half byte tells.
/// Their ends, 16 bits each, stand before them.
const VARIABLE: u8 = 15;

#[repr(C)]
struct Header {
    counter: LeafCounter,
    /// Lock, obsolete, and the tier.
    state: AtomicU8,
    /// Number of keys less one, and the length of all suffixes or [`VARIABLE`]. A tiny leaf has
    /// the first byte of its suffix here.
    shape: u8,
}

/// Where the bits of live keys are, and where the suffixes begin.
const LIVE_AT: usize = 4;
const HEADER_BYTES: usize = 6;
const _: () = assert!(size_of::<Header>() == LIVE_AT);

/// A key of a leaf to be made: what remains of it, in two parts, and its value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry<'a> {
    pub(super) path: &'a [u8],
    pub(super) suffix: &'a [u8],
    pub(super) word: u64,
}

impl Entry<'_> {
    /// Bytes of both parts.
    pub(super) fn bytes(&self) -> usize {
        self.path.len() + self.suffix.len()
    }
}

/// The sizes that follow from a leaf's keys.
#[derive(Debug, Clone, Copy)]
struct Layout {
    is_tiny: bool,
    shape: u8,
    values_at: usize,
    bytes: usize,
}

impl Layout {
    fn of(entries: &[Entry<'_>]) -> Self {
        let first = entries[0].bytes();
        if entries.len() == 1 && first <= TINY_SUFFIX_BYTES {
            return Self {
                is_tiny: true,
                shape: 0,
                values_at: 8,
                bytes: TINY_BYTES,
            };
        }
        let is_fixed =
            first < usize::from(VARIABLE) && entries.iter().all(|entry| entry.bytes() == first);
        let (length, area) = if is_fixed {
            (first as u8, first * entries.len())
        } else {
            let bytes: usize = entries.iter().map(Entry::bytes).sum();
            (VARIABLE, 2 * entries.len() + bytes)
        };
        let values_at = (HEADER_BYTES + area).next_multiple_of(8);
        Self {
            is_tiny: false,
            shape: (entries.len() - 1) as u8 | (length << 4),
            values_at,
            bytes: values_at + 8 * entries.len(),
        }
    }
}

/// Whether one leaf may hold these keys.
pub(super) fn fits(entries: &[Entry<'_>]) -> bool {
    entries.len() == 1
        || (entries.len() <= ENTRIES_MAX && Layout::of(entries).bytes <= BUCKET_BYTES_MAX)
}

/// Bytes of a leaf with these keys.
pub(super) fn bytes_of(entries: &[Entry<'_>]) -> usize {
    Layout::of(entries).bytes
}

/// A leaf.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf<'g> {
    base: NonNull<u8>,
    is_tiny: bool,
    lives: PhantomData<&'g ()>,
}

impl<'g> Leaf<'g> {
    /// The leaf at `base`.
    ///
    /// # Safety
    /// A leaf, tiny or not, was made there by [`Leaf::allocate`], and is not freed during `'g`.
    #[inline(always)]
    pub(super) unsafe fn at(base: NonNull<u8>, is_tiny: bool) -> Self {
        Self {
            base,
            is_tiny,
            lives: PhantomData,
        }
    }

    /// A leaf with these keys, in order, on `tier` or farther.
    pub(super) fn allocate<P: Probe>(
        entries: &[Entry<'_>],
        uses: u16,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Result<Self, OutOfMemory> {
        let layout = Layout::of(entries);
        let (base, tier) = context.guard.allocate(layout.bytes, tier, Purpose::Node)?;
        // SAFETY: the block has the bytes of the layout and is nobody else's.
        Ok(unsafe { Self::write(base, layout, entries, uses, tier, context) })
    }

    /// A leaf with these keys on `tier` exactly.
    pub(super) fn allocate_on<P: Probe>(
        entries: &[Entry<'_>],
        uses: u16,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Option<Self> {
        let layout = Layout::of(entries);
        let memory = context.guard.memory();
        let base = memory.allocate_on(layout.bytes, tier, Purpose::Node)?;
        // SAFETY: the block has the bytes of the layout and is nobody else's.
        Some(unsafe { Self::write(base, layout, entries, uses, tier, context) })
    }

    /// # Safety
    /// `base` is a block of `layout.bytes` that nobody else knows.
    unsafe fn write<P: Probe>(
        base: NonNull<u8>,
        layout: Layout,
        entries: &[Entry<'_>],
        uses: u16,
        tier: TierId,
        context: &Context<'_, '_, P>,
    ) -> Self {
        let tier = (tier.index() as u8) << TIER_SHIFT;
        if layout.is_tiny {
            // SAFETY: the block has the bytes of a tiny leaf.
            unsafe { Self::write_tiny(base, &entries[0], uses, tier) };
        } else {
            // SAFETY: the block has the bytes of the layout.
            unsafe { Self::write_bucket(base, layout, entries, uses, tier) };
        }
        context.probe.write(base.as_ptr().addr(), layout.bytes);
        // SAFETY: written above.
        unsafe { Self::at(base, layout.is_tiny) }
    }

    /// # Safety
    /// `base` is a block of [`TINY_BYTES`] that nobody else knows.
    unsafe fn write_tiny(base: NonNull<u8>, entry: &Entry<'_>, uses: u16, tier: u8) {
        let length = entry.bytes();
        let mut suffix = [0; TINY_SUFFIX_BYTES];
        suffix[TINY_SUFFIX_BYTES - 1] = length as u8;
        suffix[..entry.path.len()].copy_from_slice(entry.path);
        suffix[entry.path.len()..length].copy_from_slice(entry.suffix);
        let full = if length == TINY_SUFFIX_BYTES { FULL } else { 0 };
        // SAFETY: all parts lie within the block.
        unsafe {
            base.cast().write(LeafCounter::new(uses));
            base.add(2).cast().write(AtomicU8::new(tier | full));
            base.add(TINY_SUFFIX_AT).cast().write(suffix);
            base.add(8).cast::<u64>().write(entry.word);
        }
    }

    /// # Safety
    /// `base` is a block of `layout.bytes` that nobody else knows.
    unsafe fn write_bucket(
        base: NonNull<u8>,
        layout: Layout,
        entries: &[Entry<'_>],
        uses: u16,
        tier: u8,
    ) {
        let header = Header {
            counter: LeafCounter::new(uses),
            state: AtomicU8::new(tier),
            shape: layout.shape,
        };
        let live = AtomicU16::new(u16::MAX >> (16 - entries.len()));
        let is_variable = layout.shape >> 4 == VARIABLE;
        // SAFETY: all parts lie within the block, by `Layout::of`.
        unsafe {
            base.cast::<Header>().write(header);
            base.add(LIVE_AT).cast::<AtomicU16>().write(live);
            let mut ends = base.add(HEADER_BYTES).cast::<u16>();
            let first = base.add(HEADER_BYTES + if is_variable { 2 * entries.len() } else { 0 });
            let mut values = base.add(layout.values_at).cast::<u64>();
            let mut end = 0;
            for entry in entries {
                for part in [entry.path, entry.suffix] {
                    first
                        .add(end)
                        .copy_from_nonoverlapping(NonNull::from(part).cast(), part.len());
                    end += part.len();
                }
                if is_variable {
                    ends.write(end as u16);
                    ends = ends.add(1);
                }
                values.write(entry.word);
                values = values.add(1);
            }
        }
    }

    #[inline(always)]
    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    fn header(self) -> &'g Header {
        // SAFETY: the block begins with its header and lives for `'g` (`Leaf::at`).
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    #[inline(always)]
    pub(super) fn is_tiny(self) -> bool {
        self.is_tiny
    }

    /// Keys, removed ones among them.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        if self.is_tiny {
            return 1;
        }
        usize::from(self.header().shape & 15) + 1
    }

    /// The counter of its uses.
    #[inline(always)]
    pub(super) fn counter(self) -> &'g LeafCounter {
        &self.header().counter
    }

    /// Where it lies.
    pub(super) fn tier(self) -> TierId {
        let state = self.header().state.load(Ordering::Relaxed);
        TierId::from_index(usize::from(state >> TIER_SHIFT)).unwrap_or(TierId::NEAR)
    }

    /// The length of all suffixes, or [`VARIABLE`].
    #[inline(always)]
    fn length(self) -> usize {
        usize::from(self.header().shape >> 4)
    }

    /// The length of a tiny leaf's suffix.
    #[inline(always)]
    fn tiny_length(self) -> usize {
        if self.header().state.load(Ordering::Relaxed) & FULL != 0 {
            return TINY_SUFFIX_BYTES;
        }
        // SAFETY: the last byte of the suffix's place, which nobody writes any more.
        usize::from(unsafe { self.base.add(TINY_SUFFIX_AT + TINY_SUFFIX_BYTES - 1).read() })
    }

    /// The end of suffix `index` after the first one's beginning, where lengths vary.
    #[inline]
    fn end(self, index: usize) -> usize {
        // SAFETY: there are as many ends as keys, and nobody writes them any more.
        unsafe { usize::from(self.base.add(HEADER_BYTES).cast::<u16>().add(index).read()) }
    }

    /// What the path leaves of key `index`.
    #[inline]
    pub(super) fn suffix(self, index: usize) -> &'g [u8] {
        let length = self.length();
        let (at, bytes) = if self.is_tiny {
            (TINY_SUFFIX_AT, self.tiny_length())
        } else if length == usize::from(VARIABLE) {
            let begin = if index == 0 { 0 } else { self.end(index - 1) };
            let first = HEADER_BYTES + 2 * self.count();
            (first + begin, self.end(index) - begin)
        } else {
            (HEADER_BYTES + index * length, length)
        };
        // SAFETY: the suffix lies within the block, and nobody writes it any more.
        unsafe { slice::from_raw_parts(self.base.add(at).as_ptr(), bytes) }
    }

    #[inline(always)]
    fn values_at(self) -> usize {
        if self.is_tiny {
            return 8;
        }
        let length = self.length();
        let area = if length == usize::from(VARIABLE) {
            2 * self.count() + self.end(self.count() - 1)
        } else {
            length * self.count()
        };
        (HEADER_BYTES + area).next_multiple_of(8)
    }

    /// The value of key `index`.
    #[inline(always)]
    pub(super) fn value(self, index: usize) -> &'g AtomicU64 {
        debug_assert!(index < self.count(), "a key of the leaf");
        // SAFETY: there are as many values as keys; they are read and written as atomics only.
        unsafe {
            self.base
                .add(self.values_at())
                .cast::<AtomicU64>()
                .add(index)
                .as_ref()
        }
    }

    /// Its size.
    pub(super) fn bytes(self) -> usize {
        self.values_at() + 8 * self.count()
    }

    /// A bit for each key that was not removed.
    #[inline(always)]
    pub(super) fn live(self) -> u16 {
        if self.is_tiny {
            return u16::from(self.header().state.load(Ordering::Relaxed) & REMOVED == 0);
        }
        self.live_word().load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn live_word(self) -> &'g AtomicU16 {
        // SAFETY: leaves that are not tiny have it there; it is accessed as an atomic only.
        unsafe { self.base.add(LIVE_AT).cast::<AtomicU16>().as_ref() }
    }

    /// Whether key `index` was not removed.
    #[inline(always)]
    pub(super) fn is_live(self, index: usize) -> bool {
        self.live() >> index & 1 == 1
    }

    /// Where the key is whose remaining bytes are `rest`, if it is there and was not removed.
    #[inline(always)]
    pub(super) fn find(self, rest: &[u8]) -> Option<usize> {
        if self.is_tiny {
            let suffix = self.base.as_ptr().wrapping_add(TINY_SUFFIX_AT);
            // SAFETY: both have that many bytes.
            let is_here = rest.len() == self.tiny_length()
                && unsafe { equal(suffix, rest.as_ptr(), rest.len()) };
            return (is_here && self.is_live(0)).then_some(0);
        }
        let count = self.count();
        let length = self.length();
        if length == usize::from(VARIABLE) {
            return self.find_variable(rest);
        }
        if rest.len() != length {
            return None;
        }
        let mut index = 0;
        // SAFETY: as in `suffix`.
        let mut suffix = unsafe { self.base.add(HEADER_BYTES).as_ptr().cast_const() };
        while index < count {
            // SAFETY: both have `length` bytes.
            if unsafe { equal(suffix, rest.as_ptr(), length) } {
                return self.is_live(index).then_some(index);
            }
            // SAFETY: at most the end of the last suffix.
            suffix = unsafe { suffix.add(length) };
            index += 1;
        }
        None
    }

    fn find_variable(self, rest: &[u8]) -> Option<usize> {
        let index = (0..self.count()).find(|index| self.suffix(*index) == rest)?;
        self.is_live(index).then_some(index)
    }

    /// Whether it is part of a tree and nobody holds the lock.
    #[cfg(test)]
    pub(super) fn can_be_locked(self) -> bool {
        self.header().state.load(Ordering::Relaxed) & (LOCKED | OBSOLETE) == 0
    }

    /// Takes the lock.
    pub(super) fn lock<P: Probe>(
        self,
        context: &'g Context<'_, '_, P>,
    ) -> Result<HeldLeaf<'g, P>, Obsolete> {
        let state = &self.header().state;
        let mut turn = 0;
        loop {
            let seen = state.load(Ordering::Relaxed);
            if seen & OBSOLETE != 0 {
                return Err(Obsolete);
            }
            // Pairs with the release of the last holder: its values are seen.
            let taken = seen & LOCKED == 0
                && state
                    .compare_exchange_weak(
                        seen,
                        seen | LOCKED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok();
            if taken {
                context.probe.lock(self.base.as_ptr().addr());
                return Ok(HeldLeaf {
                    leaf: self,
                    context,
                });
            }
            context.waiting(self.base.as_ptr());
            pause(turn);
            turn += 1;
        }
    }
}

/// A leaf whose lock this thread holds: its values and what is removed stand still.
#[derive(Debug)]
pub(super) struct HeldLeaf<'g, P: Probe> {
    leaf: Leaf<'g>,
    context: &'g Context<'g, 'g, P>,
}

impl<'g, P: Probe> HeldLeaf<'g, P> {
    pub(super) fn leaf(&self) -> Leaf<'g> {
        self.leaf
    }

    /// Removes key `index`, and says how many are left.
    pub(super) fn remove(&self, index: usize) -> u32 {
        if self.leaf.is_tiny {
            self.leaf
                .header()
                .state
                .fetch_or(REMOVED, Ordering::Release);
            return 0;
        }
        let live = self.leaf.live() & !(1 << index);
        self.leaf.live_word().store(live, Ordering::Release);
        live.count_ones()
    }

    /// The keys that were not removed, with `path` before what they have here.
    pub(super) fn entries<'a>(
        &self,
        path: &'a [u8],
    ) -> impl Iterator<Item = Entry<'a>> + use<'a, 'g, P>
    where
        'g: 'a,
    {
        let leaf = self.leaf;
        (0..leaf.count())
            .filter(move |index| leaf.is_live(*index))
            .map(move |index| Entry {
                path,
                suffix: leaf.suffix(index),
                word: leaf.value(index).load(Ordering::Relaxed),
            })
    }

    /// Gives up a leaf that was taken out of the tree: nobody locks it again.
    pub(super) fn retire(self) {
        let (leaf, context) = (self.leaf, self.context);
        leaf.header().state.fetch_or(OBSOLETE, Ordering::Release);
        drop(self);
        // SAFETY: the holder has unlinked it, and only one thread can have held it for that.
        unsafe {
            context
                .guard
                .retire(leaf.base, leaf.bytes(), leaf.tier(), Purpose::Node);
        }
    }
}

impl<P: Probe> Drop for HeldLeaf<'_, P> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.leaf.header().state;
        let seen = state.load(Ordering::Relaxed);
        state.store(seen & !LOCKED, Ordering::Release);
        // Readers take no version of a leaf.
        let address = self.leaf.base.as_ptr().addr();
        self.context.probe.unlock(address, false);
    }
}

/// Whether two byte strings of the same, mostly small, length are equal.
///
/// # Safety
/// Both have `length` readable bytes that nobody writes.
#[inline(always)]
unsafe fn equal(left: *const u8, right: *const u8, length: usize) -> bool {
    // SAFETY: all reads lie within the `length` bytes that the caller vouches for.
    unsafe {
        if length >= 8 {
            let last = length - 8;
            let head = left.cast::<u64>().read_unaligned() ^ right.cast::<u64>().read_unaligned();
            let tail = left.add(last).cast::<u64>().read_unaligned()
                ^ right.add(last).cast::<u64>().read_unaligned();
            head | tail == 0
        } else if length >= 4 {
            let last = length - 4;
            let head = left.cast::<u32>().read_unaligned() ^ right.cast::<u32>().read_unaligned();
            let tail = left.add(last).cast::<u32>().read_unaligned()
                ^ right.add(last).cast::<u32>().read_unaligned();
            head | tail == 0
        } else {
            (0..length).all(|index| left.add(index).read() == right.add(index).read())
        }
    }
}
