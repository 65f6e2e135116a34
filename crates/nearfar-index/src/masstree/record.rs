//! Records: the rest of a long key, with its value.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicPtr;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::node::Node;
use crate::context::Context;
use crate::memory::{NodeMemory, OutOfMemory, Purpose};

/// What of a key comes after its slice, and the word of its value. It lies in a block of its own on
/// its leaf's tier and moves with the leaf. Its bytes are never changed; the value is, under the
/// leaf's lock.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Record {
    pub(super) value: AtomicPtr<Node>,
    length: u32,
    tier: TierId,
}

const HEADER_BYTES: usize = size_of::<Record>();
const _: () = assert!(HEADER_BYTES == 16);

/// The word of a value as leaves keep it.
#[inline(always)]
pub(super) fn word_to_pointer(word: u64) -> *mut Node {
    std::ptr::without_provenance_mut(word as usize)
}

/// The word of a value.
#[inline(always)]
pub(super) fn pointer_to_word(pointer: *mut Node) -> u64 {
    pointer.addr() as u64
}

impl Record {
    /// A record on `tier` exactly.
    pub(super) fn place_on<P: Probe>(
        suffix: &[u8],
        value: *mut Node,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<NonNull<Self>, OutOfMemory> {
        let bytes = HEADER_BYTES + suffix.len();
        let memory = context.guard.memory();
        let block = memory.allocate_on(bytes, tier, Purpose::Value);
        let block = block.ok_or(OutOfMemory { bytes, tier })?;
        Ok(Self::write(block, suffix, value, context, tier))
    }

    /// A record on `tier` or, where that is full, farther.
    pub(super) fn place<P: Probe>(
        suffix: &[u8],
        value: *mut Node,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> Result<NonNull<Self>, OutOfMemory> {
        let bytes = HEADER_BYTES + suffix.len();
        let (block, tier) = context.guard.allocate(bytes, tier, Purpose::Value)?;
        Ok(Self::write(block, suffix, value, context, tier))
    }

    fn write<P: Probe>(
        block: NonNull<u8>,
        suffix: &[u8],
        value: *mut Node,
        context: &Context<'_, '_, P>,
        tier: TierId,
    ) -> NonNull<Self> {
        let record = block.cast::<Self>();
        let header = Self {
            value: AtomicPtr::new(value),
            length: suffix.len() as u32,
            tier,
        };
        // SAFETY: the block has room for the header, is aligned to it, and is nobody else's yet.
        unsafe { record.write(header) };
        // SAFETY: as above; the suffix follows the header.
        unsafe {
            block
                .add(HEADER_BYTES)
                .copy_from_nonoverlapping(NonNull::from(suffix).cast(), suffix.len());
        }
        let address = block.as_ptr().addr();
        context.probe.write(address, HEADER_BYTES + suffix.len());
        record
    }

    /// The record that an entry's word points to.
    ///
    /// # Safety
    /// The word was in an entry of the class for it, in the tree and under the guard that is
    /// borrowed as `'g`.
    pub(super) unsafe fn of<'g>(word: *mut Node) -> &'g Self {
        // SAFETY: the caller says that it is a record, which is not freed before the guard is gone.
        unsafe { &*word.cast::<Self>() }
    }

    pub(super) fn word(record: NonNull<Self>) -> *mut Node {
        record.as_ptr().cast()
    }

    /// What comes after the slice.
    ///
    /// # Safety
    /// `record` is the record's own address, as it came from [`Self::place`].
    pub(super) unsafe fn suffix<'g, P: Probe>(
        word: *mut Node,
        context: &'g Context<'_, '_, P>,
    ) -> &'g [u8] {
        // SAFETY: the caller says that the word is good.
        let record = unsafe { Self::of(word) };
        let length = record.length as usize;
        context.follow(word, HEADER_BYTES + length);
        // SAFETY: that many bytes follow the header, and nobody writes them any more.
        unsafe { slice::from_raw_parts(word.cast::<u8>().add(HEADER_BYTES), length) }
    }

    /// Bytes of the block, in whole words.
    pub(super) fn bytes(&self) -> usize {
        (HEADER_BYTES + self.length as usize).next_multiple_of(size_of::<u64>())
    }

    /// Gives up a record that was taken out of its leaf; its value is another matter.
    ///
    /// # Safety
    /// As [`crate::memory::Guard::retire`].
    pub(super) unsafe fn retire<P: Probe>(word: *mut Node, context: &Context<'_, '_, P>) {
        // SAFETY: the record is live until it is retired here.
        let (bytes, tier) = unsafe { (Self::of(word).bytes(), Self::of(word).tier) };
        let block = NonNull::new(word.cast::<u8>());
        if let Some(block) = block {
            // SAFETY: the caller's promise; size, tier and purpose are those of `place`.
            unsafe { context.guard.retire(block, bytes, tier, Purpose::Value) };
        }
    }

    /// Frees a record that nobody can reach.
    ///
    /// # Safety
    /// As [`NodeMemory::free`].
    pub(super) unsafe fn free(word: *mut Node, memory: &NodeMemory) {
        // SAFETY: the record is live until it is freed here.
        let (bytes, tier) = unsafe { (Self::of(word).bytes(), Self::of(word).tier) };
        if let Some(block) = NonNull::new(word.cast::<u8>()) {
            // SAFETY: the caller's promise; size, tier and purpose are those of `place`.
            unsafe { memory.free(block, bytes, tier, Purpose::Value) };
        }
    }
}
