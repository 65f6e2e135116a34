//! The memory that a benchmark accesses.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// Memory that several threads access concurrently, by the instructions of this module alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    base: *mut u8,
    bytes: usize,
    /// As exclusive as the slice it was made from.
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: a target is used through the kernels alone, whose accesses are as good as relaxed atomic
// ones; the exclusive borrow keeps everybody else away.
unsafe impl Send for Target<'_> {}
// SAFETY: as above.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    /// The whole of `memory`, which must begin at a line.
    pub(crate) fn new(memory: &'a mut [u8]) -> Self {
        assert!(
            memory.as_ptr().addr().is_multiple_of(64),
            "memory begins within a line"
        );
        Self {
            base: memory.as_mut_ptr(),
            bytes: memory.len(),
            memory: PhantomData,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }
}
