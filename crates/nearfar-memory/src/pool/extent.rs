//! Extents: published pieces of a pool, in place.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow_buffer::Buffer;

use super::attach::Pool;
use super::checksum;
use super::error::PoolError;
use super::owner::OwnerCore;
use super::reader::ReaderCore;
use super::space::EXTENT_GRAIN;
use crate::system::{MemorySystem, PoolCharge};
use crate::tier::TierId;

/// Where a piece of a pool lies, and what it must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Bytes from the start of the pool, a multiple of 4 KiB.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The XXH3 checksum of its bytes.
    pub checksum: u64,
}

/// An extent that is in use: its space is not given out again as long as this lives, whatever is
/// published meanwhile.
pub struct ExtentHandle {
    holder: Holder,
    extent: Extent,
    is_verified: AtomicBool,
    charge: OnceLock<PoolCharge>,
}

/// Who counts the space of an extent for a handle.
#[derive(Debug)]
pub(super) enum Holder {
    /// The owner, in its own process.
    Owner(Arc<OwnerCore>),
    /// A reader, who has told the owner.
    Reader(Arc<ReaderCore>),
}

impl Holder {
    fn pool(&self) -> &Pool {
        match self {
            Self::Owner(owner) => owner.pool(),
            Self::Reader(reader) => reader.pool(),
        }
    }
}

impl fmt::Debug for ExtentHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExtentHandle")
            .field("extent", &self.extent)
            .finish_non_exhaustive()
    }
}

impl ExtentHandle {
    /// A handle on `extent`, whose space the caller has counted for it.
    pub(super) fn new(holder: Holder, extent: Extent, is_verified: bool) -> Arc<Self> {
        Arc::new(Self {
            holder,
            extent,
            is_verified: AtomicBool::new(is_verified),
            charge: OnceLock::new(),
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether it is another process's, and only read here.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        matches!(self.holder, Holder::Reader(_))
    }

    /// Whether its owner, where that is another process, still publishes it, as far as is known here.
    #[must_use]
    pub fn is_current(&self) -> bool {
        match &self.holder {
            Holder::Owner(_) => true,
            Holder::Reader(reader) => reader.is_current(self.extent.offset),
        }
    }

    /// The bytes, in place.
    fn bytes(&self) -> &[u8] {
        let range = self.extent.offset..self.extent.offset + self.extent.bytes;
        // SAFETY: the space is counted for this handle, so that the pool's owner, which is this process or knows that it
        // reads, does not write it; other processes write what they own only.
        unsafe { self.holder.pool().memory.slice(range) }
    }

    /// Checks every byte against the checksum, unless that was done before.
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn verify(&self) -> Result<(), PoolError> {
        if self.is_verified.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.is_borrowed() {
            // What this host may have cached of it is from before it was written.
            let range = self.extent.offset..self.extent.offset + self.extent.bytes;
            self.holder.pool().memory.drop_cached(range);
        }
        let found = checksum::of_bytes(self.bytes());
        if found != self.extent.checksum {
            return Err(PoolError::Damaged {
                extent: self.extent,
                found,
            });
        }
        self.is_verified.store(true, Ordering::Release);
        Ok(())
    }

    /// Counts its bytes as taken of `tier`, in whole pages, as long as it lives. Once.
    ///
    /// # Errors
    /// [`PoolError::Budget`].
    pub fn charge_to(&self, system: &Arc<MemorySystem>, tier: TierId) -> Result<(), PoolError> {
        if self.charge.get().is_some() {
            return Ok(());
        }
        let bytes = self.extent.bytes.max(1).next_multiple_of(EXTENT_GRAIN);
        let charge = system.take_for_pool(tier, bytes);
        let charge = charge.ok_or_else(|| PoolError::Budget {
            bytes,
            tier: system.info(tier).name.clone(),
            available_bytes: system.usage(tier).available_bytes(),
        })?;
        // One that another thread was faster with is given back.
        drop(self.charge.set(charge));
        Ok(())
    }

    /// The bytes in place, once they are [verified](Self::verify).
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn verified(&self) -> Result<&[u8], PoolError> {
        self.verify()?;
        Ok(self.bytes())
    }

    /// The bytes as an Arrow buffer, without a copy, once they are [verified](Self::verify).
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn buffer(self: &Arc<Self>) -> Result<Buffer, PoolError> {
        self.buffer_of(0..self.extent.bytes as usize)
    }

    /// Some of the bytes as an Arrow buffer, as [`Self::buffer`].
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    ///
    /// # Panics
    /// When `range` lies outside of the extent, as a slice would.
    pub fn buffer_of(self: &Arc<Self>, range: Range<usize>) -> Result<Buffer, PoolError> {
        self.verify()?;
        let bytes = &self.bytes()[range];
        let start = std::ptr::NonNull::from(bytes).cast::<u8>();
        let owner = Arc::clone(self);
        // SAFETY: these are the initialised bytes of the extent, which stay there unchanged as long
        // as `owner` lives.
        Ok(unsafe { Buffer::from_custom_allocation(start, bytes.len(), owner) })
    }
}

impl Drop for ExtentHandle {
    fn drop(&mut self) {
        match &self.holder {
            Holder::Owner(owner) => owner.drop_handle(self.extent.offset),
            Holder::Reader(reader) => reader.drop_handle(self.extent.offset),
        }
    }
}

/// A handle that may be gone.
pub(super) type WeakHandle = Weak<ExtentHandle>;
