//! Extents: published pieces of a pool, in place.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arrow_buffer::Buffer;

use super::checksum;
use super::error::PoolError;
use super::owner::OwnerCore;

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
    owner: Arc<OwnerCore>,
    extent: Extent,
    is_verified: AtomicBool,
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
    pub(super) fn new(owner: Arc<OwnerCore>, extent: Extent, is_verified: bool) -> Arc<Self> {
        Arc::new(Self {
            owner,
            extent,
            is_verified: AtomicBool::new(is_verified),
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The bytes, in place.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the space is counted for this handle, so that nobody in this process writes it;
        // other processes write what they own only, and this pool's owner is this process.
        unsafe { self.owner.bytes(self.extent) }
    }

    /// Checks every byte against the checksum, unless that was done before.
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn verify(&self) -> Result<(), PoolError> {
        if self.is_verified.load(Ordering::Acquire) {
            return Ok(());
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

    /// The bytes as an Arrow buffer, without a copy, once they are [verified](Self::verify).
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn buffer(self: &Arc<Self>) -> Result<Buffer, PoolError> {
        self.verify()?;
        let bytes = self.bytes();
        let start = std::ptr::NonNull::from(bytes).cast::<u8>();
        let owner = Arc::clone(self);
        // SAFETY: these are the initialised bytes of the extent, which stay there unchanged as long
        // as `owner` lives.
        Ok(unsafe { Buffer::from_custom_allocation(start, bytes.len(), owner) })
    }
}

impl Drop for ExtentHandle {
    fn drop(&mut self) {
        self.owner.drop_handle(self.extent.offset);
    }
}

/// A handle that may be gone.
pub(super) type WeakHandle = Weak<ExtentHandle>;
