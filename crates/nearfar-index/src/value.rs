//! Values: in the leaf where they fit a word, else in a block beside it.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use crate::context::Context;
use crate::memory::{BLOCK_BYTES_MAX, NodeMemory, OutOfMemory, Purpose};

mod sealed {
    pub trait Sealed {}
}

/// A value that a tree can hold: a word in the leaf, or bytes in a block that the word points to.
///
/// A leaf keeps 64 bits per value. Integers are these bits; byte strings ([`BlockValue`]) lie in a
/// block on the leaf's tier, immutable once there, and move with the leaf. Trees exchange whole
/// words, so a reader sees the old value or the new one, never a mixture. The trait is sealed: it
/// is how trees and these two kinds work together, not an interface to write more of.
pub trait TreeValue: sealed::Sealed + Clone + Send + Sync + 'static {
    /// Whether the word is the value itself. Where it is, the functions below do nothing but
    /// convert.
    const INLINE: bool;

    /// The word for this value, with its bytes on `tier` or, where that is full, farther.
    ///
    /// # Errors
    /// [`OutOfMemory`]: no tier has room.
    fn into_word<P: Probe>(
        self,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory>;

    /// The value of a word.
    ///
    /// # Safety
    /// The word came from [`Self::into_word`] of the same memory and was reachable under the guard
    /// of `context`, or was never published.
    unsafe fn from_word<P: Probe>(word: u64, context: &Context<'_, '_, P>) -> Self;

    /// Gives up a word that was taken out of the tree.
    ///
    /// # Safety
    /// As [`crate::memory::Guard::retire`]: nobody can reach the word any more but those that have
    /// guards, and it is retired once.
    unsafe fn retire_word<P: Probe>(word: u64, context: &Context<'_, '_, P>);

    /// A copy of the word's value on `tier`, for a leaf that moves there; the word itself where it
    /// is the value. The old word is still to be retired, once the new one has replaced it.
    ///
    /// # Errors
    /// [`OutOfMemory`]: `tier` has no room.
    ///
    /// # Safety
    /// As [`Self::from_word`].
    unsafe fn move_word<P: Probe>(
        word: u64,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory>;

    /// Bytes beside the leaf that belong to a word: none where it is the value.
    ///
    /// # Safety
    /// As [`Self::from_word`].
    unsafe fn bytes_beside<P: Probe>(word: u64, context: &Context<'_, '_, P>) -> usize;

    /// Frees a word that was never published, or whose tree nobody can reach any more.
    ///
    /// # Safety
    /// The word came from [`Self::into_word`] of this memory, nobody can reach it, and it is freed
    /// once.
    unsafe fn free_word(word: u64, memory: &NodeMemory);
}

macro_rules! inline_values {
    ($($integer:ty),*) => {$(
        impl sealed::Sealed for $integer {}
        impl TreeValue for $integer {
            const INLINE: bool = true;

            #[inline(always)]
            fn into_word<P: Probe>(
                self,
                _context: &Context<'_, '_, P>,
                _tier: TierId,
            ) -> Result<u64, OutOfMemory> {
                Ok(self as u64)
            }

            #[inline(always)]
            unsafe fn from_word<P: Probe>(word: u64, _context: &Context<'_, '_, P>) -> Self {
                word as Self
            }

            #[inline(always)]
            unsafe fn retire_word<P: Probe>(_word: u64, _context: &Context<'_, '_, P>) {}

            #[inline(always)]
            unsafe fn move_word<P: Probe>(
                word: u64,
                _context: &Context<'_, '_, P>,
                _tier: TierId,
            ) -> Result<u64, OutOfMemory> {
                Ok(word)
            }

            #[inline(always)]
            unsafe fn bytes_beside<P: Probe>(
                _word: u64,
                _context: &Context<'_, '_, P>,
            ) -> usize {
                0
            }

            #[inline(always)]
            unsafe fn free_word(_word: u64, _memory: &NodeMemory) {}
        }
    )*};
}

inline_values!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize);

/// Bytes of a value that lies in a block of its own, of at most [`BlockValue::BYTES_MAX`].
///
/// ```
/// use nearfar_index::BlockValue;
///
/// let value = BlockValue::new(vec![7; 1000])?;
/// assert_eq!(value.as_slice().len(), 1000);
/// assert!(BlockValue::new(vec![0; BlockValue::BYTES_MAX + 1]).is_err());
/// # Ok::<(), nearfar_index::ValueTooLong>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockValue(Vec<u8>);

/// A value is longer than a block can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a value of {bytes} bytes: at most {} fit a block",
    BlockValue::BYTES_MAX
)]
pub struct ValueTooLong {
    /// Its bytes.
    pub bytes: usize,
}

/// Bytes of a block before the value's own: where it lies and how long it is.
const HEADER_BYTES: usize = 8;

impl BlockValue {
    /// The longest value, in bytes.
    pub const BYTES_MAX: usize = BLOCK_BYTES_MAX - HEADER_BYTES;

    /// A value of these bytes.
    ///
    /// # Errors
    /// [`ValueTooLong`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, ValueTooLong> {
        let bytes = bytes.into();
        if bytes.len() > Self::BYTES_MAX {
            return Err(ValueTooLong { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

/// A block with a value: its length and tier, then its bytes. It is written before it is published
/// and never after.
#[derive(Clone, Copy)]
struct ValueBlock(NonNull<u8>);

impl ValueBlock {
    /// The block of a word.
    ///
    /// # Safety
    /// The word came from [`Self::into_word`] and its block is live.
    unsafe fn from_word(word: u64) -> Self {
        let address = std::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: the caller says that the word is a block's address.
        Self(unsafe { NonNull::new_unchecked(address) })
    }

    fn into_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// A block with `bytes` on `tier`.
    fn place<P: Probe>(
        bytes: &[u8],
        context: &Context<'_, '_, P>,
        tier: TierId,
        exactly: bool,
    ) -> Result<Self, OutOfMemory> {
        let total = HEADER_BYTES + bytes.len();
        let (block, tier) = if exactly {
            let memory = context.guard.memory();
            let block = memory.allocate_on(total, tier, Purpose::Value);
            (block.ok_or(OutOfMemory { bytes: total, tier })?, tier)
        } else {
            context.guard.allocate(total, tier, Purpose::Value)?
        };
        let header = bytes.len() as u64 | ((tier.index() as u64) << 32);
        // SAFETY: the block has room for the header, is aligned to it, and is nobody else's yet.
        unsafe { block.cast::<u64>().write(header) };
        // SAFETY: as above; the value follows the header.
        unsafe {
            block
                .add(HEADER_BYTES)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        context.probe.write(block.as_ptr().addr(), total);
        Ok(Self(block))
    }

    /// # Safety
    /// The block is live.
    unsafe fn header(self) -> (usize, TierId) {
        // SAFETY: the block is live and begins with its header, which nobody writes any more.
        let header = unsafe { self.0.cast::<u64>().read() };
        let tier = TierId::from_index((header >> 32) as usize);
        (
            (header & u64::from(u32::MAX)) as usize,
            tier.unwrap_or(TierId::NEAR),
        )
    }

    /// # Safety
    /// The block is live, and stays so for `'a`.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller says so.
        let (length, _) = unsafe { self.header() };
        // SAFETY: that many bytes follow the header, and nobody writes them any more.
        unsafe { slice::from_raw_parts(self.0.add(HEADER_BYTES).as_ptr(), length) }
    }
}

impl sealed::Sealed for BlockValue {}

impl TreeValue for BlockValue {
    const INLINE: bool = false;

    fn into_word<P: Probe>(
        self,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory> {
        ValueBlock::place(&self.0, context, tier, false).map(ValueBlock::into_word)
    }

    unsafe fn from_word<P: Probe>(word: u64, context: &Context<'_, '_, P>) -> Self {
        // SAFETY: the caller says that the word is good and protected.
        let bytes = unsafe { ValueBlock::from_word(word).bytes() };
        context.probe.depends();
        context
            .probe
            .read(word as usize, HEADER_BYTES + bytes.len());
        Self(bytes.to_vec())
    }

    unsafe fn retire_word<P: Probe>(word: u64, context: &Context<'_, '_, P>) {
        // SAFETY: the caller says that the word is good.
        let block = unsafe { ValueBlock::from_word(word) };
        // SAFETY: the block is live until it is retired here.
        let (length, tier) = unsafe { block.header() };
        let total = HEADER_BYTES + length;
        // SAFETY: the caller's promise; size, tier and purpose are those of `place`.
        unsafe { context.guard.retire(block.0, total, tier, Purpose::Value) };
    }

    unsafe fn move_word<P: Probe>(
        word: u64,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory> {
        // SAFETY: the caller says that the word is good and protected.
        let bytes = unsafe { ValueBlock::from_word(word).bytes() };
        context
            .probe
            .read(word as usize, HEADER_BYTES + bytes.len());
        ValueBlock::place(bytes, context, tier, true).map(ValueBlock::into_word)
    }

    unsafe fn bytes_beside<P: Probe>(word: u64, context: &Context<'_, '_, P>) -> usize {
        context.probe.read(word as usize, HEADER_BYTES);
        // SAFETY: the caller says that the word is good and protected.
        let (length, _) = unsafe { ValueBlock::from_word(word).header() };
        (HEADER_BYTES + length).next_multiple_of(HEADER_BYTES)
    }

    unsafe fn free_word(word: u64, memory: &NodeMemory) {
        // SAFETY: the caller says that the word is good.
        let block = unsafe { ValueBlock::from_word(word) };
        // SAFETY: the block is live until it is freed here.
        let (length, tier) = unsafe { block.header() };
        // SAFETY: nobody can reach it; size, tier and purpose are those of `place`.
        unsafe { memory.free(block.0, HEADER_BYTES + length, tier, Purpose::Value) };
    }
}

/// Words for a leaf that is not in its tree yet: given up unless they are kept, also where memory
/// panics.
pub(crate) struct NewWords<'m, V: TreeValue> {
    words: Vec<u64>,
    memory: &'m NodeMemory,
    values: PhantomData<V>,
}

impl<'m, V: TreeValue> NewWords<'m, V> {
    pub(crate) fn new(memory: &'m NodeMemory) -> Self {
        Self {
            words: Vec::new(),
            memory,
            values: PhantomData,
        }
    }

    /// As [`TreeValue::move_word`].
    ///
    /// # Safety
    /// As there, for the memory that these words are of.
    pub(crate) unsafe fn move_word<P: Probe>(
        &mut self,
        word: u64,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<u64, OutOfMemory> {
        if V::INLINE {
            return Ok(word);
        }
        self.words.reserve(1);
        // SAFETY: the caller's promise.
        let moved = unsafe { V::move_word(word, context, tier)? };
        self.words.push(moved);
        Ok(moved)
    }

    /// Leaves the words to the tree.
    pub(crate) fn keep(mut self) {
        self.words.clear();
    }
}

impl<V: TreeValue> Drop for NewWords<'_, V> {
    fn drop(&mut self) {
        for word in self.words.drain(..) {
            // SAFETY: made by `move_word`, and nobody else's.
            unsafe { V::free_word(word, self.memory) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_value_moves_with_all_its_bytes() {
        let memory = NodeMemory::platform_with_budgets(&[4096, 4096]);
        let far = TierId::from_index(1).unwrap();
        let context = Context::native(&memory);
        let value = BlockValue::new(*b"more than eight bytes").unwrap();
        let word = value.clone().into_word(&context, TierId::NEAR).unwrap();
        // SAFETY: `word` and `moved` come from `into_word` and `move_word` and are nobody else's.
        unsafe {
            let moved = BlockValue::move_word(word, &context, far).unwrap();
            assert_eq!(BlockValue::from_word(moved, &context), value);
            assert_eq!(memory.ledger(far).value_bytes, 32);
            BlockValue::retire_word(word, &context);
            assert_eq!(memory.ledger(TierId::NEAR).retired_bytes, 32);
            BlockValue::free_word(moved, &memory);
        }
        assert_eq!(memory.ledger(far).used_bytes(), 0);
    }

    #[test]
    fn a_block_value_is_not_moved_to_a_full_tier() {
        let memory = NodeMemory::platform_with_budgets(&[0, 4096]);
        let context = Context::native(&memory);
        let value = BlockValue::new(vec![1; 100]).unwrap();
        let word = value.into_word(&context, TierId::NEAR).unwrap();
        // SAFETY: the word comes from `into_word` and is nobody else's.
        unsafe {
            assert!(BlockValue::move_word(word, &context, TierId::NEAR).is_err());
            BlockValue::free_word(word, &memory);
        }
    }

    #[test]
    fn signed_values_come_back() {
        let memory = NodeMemory::platform();
        let context = Context::native(&memory);
        let word = (-5_i16).into_word(&context, TierId::NEAR).unwrap();
        // SAFETY: the word comes from `into_word`.
        assert_eq!(unsafe { i16::from_word(word, &context) }, -5);
    }
}
