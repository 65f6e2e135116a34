//! How copies are made, and by whom.

use std::num::NonZeroUsize;

use super::bytes;
use super::error::CopyError;
use super::method::CopyMethod;

/// Threads that copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copiers {
    /// So many, all the time.
    Fixed(NonZeroUsize),
    /// As many as are waited for, between one and this number: one more whenever somebody waits for a chunk, one
    /// less when copies were ahead four times in a row. In a ring they are when a copier waits for a free chunk, of
    /// whole buffers when one is there already when it is first asked for. Behind a producer, that is who waits for
    /// a free chunk, and copiers are ahead when they wait for one.
    Adaptive(NonZeroUsize),
}

impl Copiers {
    /// The published number (geyer-2023, section 5).
    pub const PUBLISHED: Self = Self::Fixed(const { NonZeroUsize::new(5).unwrap() });

    /// Threads that there are, those that rest included.
    pub const fn threads(self) -> usize {
        match self {
            Self::Fixed(count) | Self::Adaptive(count) => count.get(),
        }
    }

    /// Threads that work at first.
    pub(super) const fn active_at_first(self) -> usize {
        match self {
            Self::Fixed(count) => count.get(),
            Self::Adaptive(_) => 1,
        }
    }
}

impl Default for Copiers {
    fn default() -> Self {
        Self::PUBLISHED
    }
}

/// How copies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// Bytes of a chunk: a multiple of 64. The last chunk of a buffer is as long as what is left.
    pub chunk_bytes: usize,
    /// Threads that copy.
    pub copiers: Copiers,
}

impl Default for CopyOptions {
    /// Chunks of 256 KiB, which the second-level cache holds; five copiers.
    fn default() -> Self {
        Self {
            chunk_bytes: 256 << 10,
            copiers: Copiers::default(),
        }
    }
}

impl CopyOptions {
    /// Refuses what no copy can be made with.
    ///
    /// # Errors
    /// [`CopyError::ChunkBytes`].
    pub fn check(&self) -> Result<(), CopyError> {
        let chunk_bytes = self.chunk_bytes;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(64) {
            return Err(CopyError::ChunkBytes { chunk_bytes });
        }
        Ok(())
    }
}

/// What a copier does with each piece. It is made on its thread, which it may pin.
pub trait Copier {
    /// Copies all of `from` to `to`, which is as long.
    fn copy(&mut self, from: &[u8], to: &mut [u8]);
}

/// Copies by one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodCopier {
    /// Found on this machine.
    method: CopyMethod,
}

impl MethodCopier {
    /// A copier by this method.
    ///
    /// # Errors
    /// [`CopyError::Method`] where the machine does not have it.
    pub fn new(method: CopyMethod) -> Result<Self, CopyError> {
        method.check()?;
        Ok(Self { method })
    }
}

impl Copier for MethodCopier {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        bytes::copy(self.method, from, to);
    }
}
