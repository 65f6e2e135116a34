//! Destinations that copiers write by calls, such as the memory of another host.

use super::error::CopyError;
use super::fetch::PIECE_BYTES;
use super::options::Copier;
use super::sync::{Mutex, lock};
use crate::cancel::Cancel;

/// Far bytes that are no slice: what a copier writes by a call that can fail, such as a write to another host's
/// memory. It is made on its copier's thread and used by that alone, so that it may own a connection.
///
/// All copiers together write every byte once, in any order.
pub trait Store {
    /// Writes all of `from` to the bytes from `offset_bytes` on, and returns when they are there.
    ///
    /// # Errors
    /// [`StoreError`], which ends the whole copy; what was written until then is not used.
    fn store(&mut self, offset_bytes: usize, from: &[u8]) -> Result<(), StoreError>;
}

/// Why bytes could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StoreError {
    /// What was lost, by its name, and why.
    pub reason: String,
}

impl StoreError {
    /// An error that says this.
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// The chunks of a slice as a destination, which a copier writes. No two copiers have the same chunk, so that nobody
/// waits for a lock.
pub(super) struct SliceChunks<'a, 'b, C> {
    pub(super) chunks: &'a [Mutex<&'b mut [u8]>],
    pub(super) chunk_bytes: usize,
    pub(super) copier: C,
}

impl<C: Copier> Store for SliceChunks<'_, '_, C> {
    fn store(&mut self, offset_bytes: usize, from: &[u8]) -> Result<(), StoreError> {
        let mut chunk = lock(&self.chunks[offset_bytes / self.chunk_bytes]);
        let to = &mut chunk[offset_bytes % self.chunk_bytes..][..from.len()];
        self.copier.copy(from, to);
        Ok(())
    }
}

/// Writes a chunk piece by piece, as long as nobody has cancelled.
pub(super) fn store_pieces(
    store: &mut impl Store,
    offset_bytes: usize,
    from: &[u8],
    cancel: &Cancel,
) -> Result<(), CopyError> {
    for (index, from) in from.chunks(PIECE_BYTES).enumerate() {
        if cancel.is_cancelled() {
            return Err(CopyError::Cancelled);
        }
        let stored = store.store(offset_bytes + index * PIECE_BYTES, from);
        // A destination that heard of it has no other reason.
        stored.map_err(|error| match cancel.is_cancelled() {
            true => CopyError::Cancelled,
            false => error.into(),
        })?;
    }
    Ok(())
}
