//! Leaves: a few keys that share the path above, each with what the path leaves of it.
//!
//! ```text
//! byte 0       2      4       5       6
//! | uses | live | state | shape | suffixes … | pad to 8 | values, a word each |
//! ```
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
const TIER_SHIFT: u32 = 4;

/// In the upper half of `shape`: suffixes differ in length, or are longer than a half byte tells.
/// Their ends, 16 bits each, stand before them.
const VARIABLE: u8 = 15;

#[repr(C)]
struct Header {
    counter: LeafCounter,
    live: AtomicU16,
    /// Lock, obsolete, and the tier.
    state: AtomicU8,
    /// Number of keys less one, and the length of all suffixes or [`VARIABLE`].
    shape: u8,
}

const HEADER_BYTES: usize = 6;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

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
    shape: u8,
    values_at: usize,
    bytes: usize,
}

impl Layout {
    fn of(entries: &[Entry<'_>]) -> Self {
        let first = entries[0].bytes();
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
    lives: PhantomData<&'g ()>,
}

impl<'g> Leaf<'g> {
    /// The leaf at `base`.
    ///
    /// # Safety
    /// A leaf was made there by [`Leaf::allocate`], and is not freed during `'g`.
    #[inline(always)]
    pub(super) unsafe fn at(base: NonNull<u8>) -> Self {
        Self {
            base,
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
        let header = Header {
            counter: LeafCounter::new(uses),
            live: AtomicU16::new(u16::MAX >> (16 - entries.len())),
            state: AtomicU8::new((tier.index() as u8) << TIER_SHIFT),
            shape: layout.shape,
        };
        let is_variable = layout.shape >> 4 == VARIABLE;
        // SAFETY: all parts lie within the block, by `Layout::of`.
        unsafe {
            base.cast::<Header>().write(header);
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
            context.probe.write(base.as_ptr().addr(), layout.bytes);
            Self::at(base)
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

    /// Keys, removed ones among them.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
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
        let (at, bytes) = if length == usize::from(VARIABLE) {
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
        self.header().live.load(Ordering::Relaxed)
    }

    /// Whether key `index` was not removed.
    #[inline(always)]
    pub(super) fn is_live(self, index: usize) -> bool {
        self.live() >> index & 1 == 1
    }

    /// Where the key is whose remaining bytes are `rest`, if it is there and was not removed.
    #[inline(always)]
    pub(super) fn find(self, rest: &[u8]) -> Option<usize> {
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

    /// Takes the lock, calling `waiting` once per look in vain.
    pub(super) fn lock(self, mut waiting: impl FnMut()) -> Result<HeldLeaf<'g>, Obsolete> {
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
                return Ok(HeldLeaf { leaf: self });
            }
            waiting();
            pause(turn);
            turn += 1;
        }
    }
}

/// A leaf whose lock this thread holds: its values and what is removed stand still.
#[derive(Debug)]
pub(super) struct HeldLeaf<'g> {
    leaf: Leaf<'g>,
}

impl<'g> HeldLeaf<'g> {
    pub(super) fn leaf(&self) -> Leaf<'g> {
        self.leaf
    }

    /// Removes key `index`, and says how many are left.
    pub(super) fn remove(&self, index: usize) -> u32 {
        let live = self.leaf.live() & !(1 << index);
        self.leaf.header().live.store(live, Ordering::Release);
        live.count_ones()
    }

    /// The keys that were not removed, with `path` before what they have here.
    pub(super) fn entries<'a>(
        &self,
        path: &'a [u8],
    ) -> impl Iterator<Item = Entry<'a>> + use<'a, 'g>
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
    pub(super) fn retire<P: Probe>(self, context: &Context<'_, '_, P>) {
        let leaf = self.leaf;
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

impl Drop for HeldLeaf<'_> {
    #[inline]
    fn drop(&mut self) {
        let state = &self.leaf.header().state;
        let seen = state.load(Ordering::Relaxed);
        state.store(seen & !LOCKED, Ordering::Release);
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
