//! Children of inner nodes: finding, adding and removing them, and going through them in order.
//!
//! The keys of a small node are in order, so that adding and removing shift them: readers validate
//! the node's version. In the larger kinds every change is one store that readers see whole, and a
//! slot of an indexed node is never used for a second byte (a full one is copied instead), so
//! readers of those validate nothing and do not even touch the header.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nearfar_model::Probe;

use super::child::{Child, Slot};
use super::node::{HEADER_BYTES, INDEXED_SLOTS, Kind, Node};
use crate::context::Context;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Words of an index.
const INDEX_WORDS: usize = 32;

/// A bit for each of the 16 bytes of `words` that equals `byte`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn matches_16(words: [u64; 2], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let keys = _mm_set_epi64x(words[1] as i64, words[0] as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8))) as u32
    }
}

/// A bit for each of the 16 bytes of `words` that equals `byte`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn matches_16(words: [u64; 2], byte: u8) -> u32 {
    let keys = words.into_iter().flat_map(u64::to_le_bytes);
    let bits = keys
        .enumerate()
        .map(|(at, key)| u32::from(key == byte) << at);
    bits.fold(0, |all, bit| all | bit)
}

/// The first of the 8 bytes of `word` that equals `byte`; 8 where there is none.
#[inline(always)]
fn position_8(word: u64, byte: u8) -> usize {
    let difference = word ^ (ONES * u64::from(byte));
    // A byte that is zero gets its high bit, and so may others, but only above the first one.
    let zeros = difference.wrapping_sub(ONES) & !difference & HIGHS;
    (zeros.trailing_zeros() / 8) as usize
}

/// The place of a byte's entry in the words of an index: the word, and the shift within.
#[inline(always)]
fn index_place(byte: u8) -> (usize, u32) {
    (usize::from(byte >> 3), 8 * u32::from(byte & 7))
}

/// Which of a node's children a walk visits next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl<'g> Node<'g> {
    /// The child of a byte.
    #[inline(always)]
    pub(super) fn child<P: Probe>(self, byte: u8, context: &Context<'_, '_, P>) -> Child {
        match self.kind() {
            Kind::Direct => {
                let slot = self.slot(usize::from(byte));
                context.follow(slot, 8);
                Child::load(slot, &context.guard)
            }
            Kind::Indexed => {
                let Some(slot) = self.indexed_slot(byte, context) else {
                    return Child::NOTHING;
                };
                context.follow(slot, 8);
                Child::load(slot, &context.guard)
            }
            Kind::Small5 | Kind::Small16 => self.small_child(byte, context),
        }
    }

    /// The slot of a byte in an indexed node.
    #[inline(always)]
    pub(super) fn indexed_slot<P: Probe>(
        self,
        byte: u8,
        context: &Context<'_, '_, P>,
    ) -> Option<&'g Slot> {
        let (word, shift) = index_place(byte);
        let word = self.key_word(word);
        context.follow(word, 8);
        let number = word.load(Acquire) >> shift & 0xFF;
        Some(self.slot((number as usize).checked_sub(1)?))
    }

    #[inline(always)]
    fn small_child<P: Probe>(self, byte: u8, context: &Context<'_, '_, P>) -> Child {
        let lock = &self.header().lock;
        context.follow(self.base().as_ptr(), self.kind().slots_at());
        loop {
            let Ok(version) = lock.read(|| context.waiting(lock)) else {
                // Replaced: it stays as it was at its end, which was after this operation began.
                return self.small_position(byte).map_or(Child::NOTHING, |at| {
                    Child::load(self.slot(at), &context.guard)
                });
            };
            let child = match self.small_position(byte) {
                Some(at) => {
                    context
                        .probe
                        .read(std::ptr::from_ref(self.slot(at)).addr(), 8);
                    Child::load(self.slot(at), &context.guard)
                }
                None => Child::NOTHING,
            };
            if context.validate(lock, version) {
                return child;
            }
        }
    }

    /// Where a byte is in a small node. Means something only if validated, or under the lock.
    #[inline(always)]
    fn small_position(self, byte: u8) -> Option<usize> {
        let count = self.count();
        let first = self.key_word(0).load(Relaxed);
        let at = if self.kind() == Kind::Small5 {
            position_8(first, byte)
        } else {
            matches_16([first, self.key_word(1).load(Relaxed)], byte).trailing_zeros() as usize
        };
        // What follows the keys may look like one.
        (at < count.min(self.kind().capacity())).then_some(at)
    }

    /// The slot of a byte, under the lock.
    pub(super) fn slot_of(self, byte: u8) -> Option<&'g Slot> {
        let at = match self.kind() {
            Kind::Direct => Some(usize::from(byte)),
            Kind::Indexed => {
                let (word, shift) = index_place(byte);
                let number = self.key_word(word).load(Relaxed) >> shift & 0xFF;
                (number as usize).checked_sub(1)
            }
            Kind::Small5 | Kind::Small16 => self.small_position(byte),
        };
        at.map(|at| self.slot(at))
    }

    fn small_keys(self) -> [u8; 16] {
        let mut keys = [0; 16];
        keys[..8].copy_from_slice(&self.key_word(0).load(Relaxed).to_le_bytes());
        if self.kind() == Kind::Small16 {
            keys[8..].copy_from_slice(&self.key_word(1).load(Relaxed).to_le_bytes());
        }
        keys
    }

    fn set_small_keys(self, keys: [u8; 16]) {
        let word = |half: usize| u64::from_le_bytes(std::array::from_fn(|at| keys[8 * half + at]));
        self.key_word(0).store(word(0), Relaxed);
        if self.kind() == Kind::Small16 {
            self.key_word(1).store(word(1), Relaxed);
        }
    }

    /// Adds a child for a byte that has none; false where there is no room.
    ///
    /// # Safety
    /// This thread holds the lock, or nobody else knows the node.
    pub(super) unsafe fn add(self, byte: u8, child: Child) -> bool {
        let count = self.count();
        match self.kind() {
            Kind::Direct => child.store(self.slot(usize::from(byte))),
            Kind::Indexed => {
                let used = self.header().used.load(Relaxed);
                if usize::from(used) == INDEXED_SLOTS {
                    return false;
                }
                child.store(self.slot(usize::from(used)));
                self.header().used.store(used + 1, Relaxed);
                let (word, shift) = index_place(byte);
                let word = self.key_word(word);
                // A reader that sees the entry sees the slot.
                word.store(word.load(Relaxed) | u64::from(used + 1) << shift, Release);
            }
            Kind::Small5 | Kind::Small16 => {
                if count == self.kind().capacity() {
                    return false;
                }
                let mut keys = self.small_keys();
                let at = keys[..count].partition_point(|key| *key < byte);
                keys.copy_within(at..count, at + 1);
                keys[at] = byte;
                for index in (at..count).rev() {
                    Child::load_alone(self.slot(index)).store(self.slot(index + 1));
                }
                child.store(self.slot(at));
                self.set_small_keys(keys);
            }
        }
        self.header().count.store(count as u16 + 1, Relaxed);
        true
    }

    /// Removes the child of a byte.
    ///
    /// # Safety
    /// This thread holds the lock.
    pub(super) unsafe fn remove(self, byte: u8) {
        let count = self.count();
        match self.kind() {
            Kind::Direct => Child::NOTHING.store(self.slot(usize::from(byte))),
            Kind::Indexed => {
                if let Some(slot) = self.slot_of(byte) {
                    Child::NOTHING.store(slot);
                }
                let (word, shift) = index_place(byte);
                let word = self.key_word(word);
                word.store(word.load(Relaxed) & !(0xFF << shift), Release);
            }
            Kind::Small5 | Kind::Small16 => {
                let Some(at) = self.small_position(byte) else {
                    return;
                };
                let mut keys = self.small_keys();
                keys.copy_within(at + 1..count, at);
                for index in at + 1..count {
                    Child::load_alone(self.slot(index)).store(self.slot(index - 1));
                }
                Child::NOTHING.store(self.slot(count - 1));
                self.set_small_keys(keys);
            }
        }
        self.header().count.store(count as u16 - 1, Relaxed);
    }

    /// The next child in a direction, from byte `from` on, which counts too; and its byte.
    pub(super) fn next<P: Probe>(
        self,
        from: u8,
        direction: Direction,
        context: &Context<'_, '_, P>,
    ) -> Option<(u8, Child)> {
        match self.kind() {
            Kind::Small5 | Kind::Small16 => self.next_small(from, direction, context),
            Kind::Indexed | Kind::Direct => {
                let mut byte = from;
                loop {
                    byte = match self.kind() {
                        Kind::Indexed => self.next_indexed(byte, direction)?,
                        _ => byte,
                    };
                    let slot = self.slot_of(byte);
                    let child =
                        slot.map_or(Child::NOTHING, |slot| Child::load(slot, &context.guard));
                    if !child.is_nothing() {
                        let slot = self
                            .slot_of(byte)
                            .map_or(0, |slot| std::ptr::from_ref(slot).addr());
                        context.probe.read(slot, 8);
                        return Some((byte, child));
                    }
                    byte = match direction {
                        Direction::Forward => byte.checked_add(1)?,
                        Direction::Backward => byte.checked_sub(1)?,
                    };
                }
            }
        }
    }

    /// The next byte of an index with an entry.
    fn next_indexed(self, from: u8, direction: Direction) -> Option<u8> {
        let (first, shift) = index_place(from);
        let mut at = first;
        loop {
            let mut word = self.key_word(at).load(Acquire);
            match direction {
                Direction::Forward => {
                    if at == first {
                        word &= u64::MAX << shift;
                    }
                    if word != 0 {
                        return Some((8 * at) as u8 + (word.trailing_zeros() / 8) as u8);
                    }
                    at += 1;
                    if at == INDEX_WORDS {
                        return None;
                    }
                }
                Direction::Backward => {
                    if at == first {
                        word &= u64::MAX >> (56 - shift);
                    }
                    if word != 0 {
                        return Some((8 * at) as u8 + 7 - (word.leading_zeros() / 8) as u8);
                    }
                    at = at.checked_sub(1)?;
                }
            }
        }
    }

    fn next_small<P: Probe>(
        self,
        from: u8,
        direction: Direction,
        context: &Context<'_, '_, P>,
    ) -> Option<(u8, Child)> {
        let lock = &self.header().lock;
        context
            .probe
            .read(self.base().as_ptr().addr(), HEADER_BYTES);
        loop {
            // A node that was replaced stays as it was: nothing to validate.
            let version = lock.read(|| context.waiting(lock)).ok();
            let keys = self.small_keys();
            let keys = &keys[..self.count().min(self.kind().capacity())];
            let at = match direction {
                Direction::Forward => keys.iter().position(|key| *key >= from),
                Direction::Backward => keys.iter().rposition(|key| *key <= from),
            };
            let found = at.map(|at| (keys[at], Child::load(self.slot(at), &context.guard)));
            if version.is_none_or(|version| context.validate(lock, version)) {
                return found;
            }
        }
    }

    /// Adds all children of `other`, and its end.
    ///
    /// # Safety
    /// This thread holds the lock of `other`, nobody else knows this node, and it has room.
    pub(super) unsafe fn copy_from<P: Probe>(self, other: Node<'_>, context: &Context<'_, '_, P>) {
        let mut from = 0;
        while let Some((byte, child)) = other.next_alone(from) {
            // SAFETY: nobody else knows this node.
            let is_added = unsafe { self.add(byte, child) };
            debug_assert!(is_added, "the copy has room");
            let Some(next) = byte.checked_add(1) else {
                break;
            };
            from = next;
        }
        if let (Some(to), Some(from)) = (self.end_slot(), other.end_slot()) {
            Child::load_alone(from).store(to);
        }
        context
            .probe
            .stream(other.base().as_ptr().addr(), other.bytes());
    }

    /// The next child from byte `from` on, under the lock.
    pub(super) fn next_alone(self, from: u8) -> Option<(u8, Child)> {
        match self.kind() {
            Kind::Small5 | Kind::Small16 => {
                let keys = self.small_keys();
                let at = keys[..self.count()].iter().position(|key| *key >= from)?;
                Some((keys[at], Child::load_alone(self.slot(at))))
            }
            Kind::Indexed => {
                let byte = self.next_indexed(from, Direction::Forward)?;
                Some((byte, Child::load_alone(self.slot_of(byte)?)))
            }
            Kind::Direct => {
                let mut slots = usize::from(from)..256;
                let at = slots.find(|at| !Child::load_alone(self.slot(*at)).is_nothing())?;
                Some((at as u8, Child::load_alone(self.slot(at))))
            }
        }
    }

    /// All children with their bytes, the end first, under the lock.
    pub(super) fn children_alone(self) -> impl Iterator<Item = (Option<u8>, Child)> + use<'g> {
        let end = self.end_slot().map(Child::load_alone);
        let end = end.filter(|child| !child.is_nothing());
        let mut from = Some(0);
        let others = std::iter::from_fn(move || {
            let (byte, child) = self.next_alone(from?)?;
            from = byte.checked_add(1);
            Some((Some(byte), child))
        });
        end.map(|child| (None, child)).into_iter().chain(others)
    }
}
