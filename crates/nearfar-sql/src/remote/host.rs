//! Other hosts, as the tables on them need them.

use std::fmt;
use std::sync::Arc;

use nearfar_kernels::copy::{CopyCancel, CopyOptions};
use nearfar_memory::{MemorySystem, TierId};
use nearfar_rdma::{RemoteBuffer, RemoteError, RemoteHost};

/// A host whose memory columns are put into: a [`RemoteHost`], or what stands for one where there is no RDMA.
pub trait ColumnHost: fmt::Debug + Send + Sync {
    /// Its name, as errors have it.
    fn name(&self) -> &str;

    /// The tier of `system` that its memory is counted on; none where it is counted in another system.
    fn tier(&self, system: &Arc<MemorySystem>) -> Option<TierId>;

    /// Writes bytes to its memory, which they take until what is returned is dropped.
    ///
    /// # Errors
    /// [`RemoteError`]: the host has no room, or is lost; [`RemoteError::Cancelled`].
    fn put(&self, bytes: &[u8], cancel: &CopyCancel) -> Result<Box<dyn ColumnBytes>, RemoteError>;

    /// Connects again if the host is lost. What was put there before stays lost.
    ///
    /// # Errors
    /// [`RemoteError`]: it cannot be reached.
    fn reconnect(&self) -> Result<(), RemoteError>;
}

/// Bytes that were put into the memory of a host.
pub trait ColumnBytes: Send + Sync {
    /// Reads the bytes from `offset_bytes` on into all of `to`, unless `is_cancelled`.
    ///
    /// # Errors
    /// [`RemoteError::Lost`] when the host is, and other [`RemoteError`]s.
    fn read(
        &self,
        offset_bytes: usize,
        to: &mut [u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError>;
}

impl ColumnHost for RemoteHost {
    fn name(&self) -> &str {
        RemoteHost::name(self)
    }

    fn tier(&self, system: &Arc<MemorySystem>) -> Option<TierId> {
        Arc::ptr_eq(self.system(), system).then(|| RemoteHost::tier(self))
    }

    fn put(&self, bytes: &[u8], cancel: &CopyCancel) -> Result<Box<dyn ColumnBytes>, RemoteError> {
        let options = CopyOptions::default();
        let column = RemoteBuffer::put_by_copiers(self, bytes, options, cancel)?;
        Ok(Box::new(column))
    }

    fn reconnect(&self) -> Result<(), RemoteError> {
        RemoteHost::reconnect(self)
    }
}

impl ColumnBytes for RemoteBuffer {
    fn read(
        &self,
        offset_bytes: usize,
        to: &mut [u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        self.read_unless(offset_bytes, to, is_cancelled)
    }
}
