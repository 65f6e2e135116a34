//! What copiers write columns of other hosts by.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nearfar_kernels::copy::{CopyCancel, Store, StoreError};

use super::buffer::{BLOCK_BYTES, RemoteBuffer, checksum};
use super::host::RemoteHost;
use super::region::RemoteRegion;
use crate::error::RemoteError;

/// Memory of a host that is being written, to become a column. Dropping it gives the memory back.
#[derive(Debug)]
pub struct RemoteDraft {
    region: RemoteRegion,
    len: usize,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    /// The checksum of each block that was written.
    checksums: Vec<Option<u64>>,
    /// The first error of a write that was not cancelled.
    failed: Option<RemoteError>,
}

impl RemoteDraft {
    /// Takes memory of the host for so many bytes.
    ///
    /// # Errors
    /// As [`RemoteHost::allocate`].
    pub fn new(host: &RemoteHost, len: usize) -> Result<Self, RemoteError> {
        let region = host.allocate(len as u64)?;
        let written = Written {
            checksums: vec![None; len.div_ceil(BLOCK_BYTES)],
            failed: None,
        };
        Ok(Self {
            region,
            len,
            written: Mutex::new(written),
        })
    }

    /// Its region. What is written to that, and not by a [`RemoteStore`], is damage.
    pub fn region(&self) -> &RemoteRegion {
        &self.region
    }

    /// The column, all of whose bytes were written.
    ///
    /// # Errors
    /// [`RemoteError::Unwritten`] where one was not, and the memory is given back.
    pub fn finish(self) -> Result<RemoteBuffer, RemoteError> {
        let written = self.written.into_inner();
        let checksums = written.unwrap_or_else(PoisonError::into_inner).checksums;
        match all(checksums) {
            Ok(checksums) => Ok(RemoteBuffer::new(self.region, self.len, checksums)),
            Err(block) => Err(RemoteError::Unwritten {
                host: self.region.host().to_owned(),
                region: self.region.number(),
                offset_bytes: (block * BLOCK_BYTES) as u64,
            }),
        }
    }

    /// Writes whole blocks from `offset_bytes` on, and remembers their checksums.
    pub(super) fn write(
        &self,
        offset_bytes: usize,
        from: &[u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        if !are_blocks(offset_bytes, from.len(), self.len) {
            return Err(RemoteError::Blocks {
                host: self.region.host().to_owned(),
                region: self.region.number(),
                offset_bytes: offset_bytes as u64,
                bytes: from.len() as u64,
            });
        }
        let checksums: Vec<u64> = from.chunks(BLOCK_BYTES).map(checksum).collect();
        let at = offset_bytes as u64;
        self.region.write_unless(at, from, is_cancelled)?;
        let first = offset_bytes / BLOCK_BYTES;
        let mut written = self.written();
        for (to, checksum) in written.checksums[first..].iter_mut().zip(checksums) {
            *to = Some(checksum);
        }
        Ok(())
    }

    /// What has failed first, or that the caller has cancelled, if one of these is so.
    pub(super) fn failed(&self, cancel: &CopyCancel) -> Option<RemoteError> {
        let cancelled = || cancel.is_cancelled().then(|| self.region.cancelled());
        self.written().failed.take().or_else(cancelled)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether bytes of a column of `len` bytes are whole blocks, of which the last may be shorter.
fn are_blocks(offset_bytes: usize, bytes: usize, len: usize) -> bool {
    let end = offset_bytes.saturating_add(bytes);
    let ends = end.is_multiple_of(BLOCK_BYTES) && end <= len || end == len;
    offset_bytes.is_multiple_of(BLOCK_BYTES) && ends
}

/// All checksums, or the first block without one.
fn all(checksums: Vec<Option<u64>>) -> Result<Vec<u64>, usize> {
    let blocks = checksums.into_iter().enumerate();
    blocks
        .map(|(block, checksum)| checksum.ok_or(block))
        .collect()
}

/// A column of another host as a destination of copies, in chunks of whole blocks of 4 KiB. Copiers take a connection
/// for each piece, so that they are the communication threads, and producers never wait for the network but for chunks
/// that are free.
///
/// [`RemoteBuffer::put_streamed`] has one for each copier. With `nearfar_kernels::copy::streamed_to`, rings may also be
/// of buffers that are not registered:
///
/// ```no_run
/// # use nearfar_kernels::copy::{CopyCancel, CopyOptions, streamed_to};
/// # use nearfar_rdma::{RemoteBuffer, RemoteDraft, RemoteError, RemoteHost, RemoteStore};
/// # fn squares(host: &RemoteHost) -> Result<RemoteBuffer, RemoteError> {
/// let (options, cancel) = (CopyOptions::default(), CopyCancel::default());
/// let numbers = 1_000_000_u64;
/// let len = numbers as usize * 8;
/// let draft = RemoteDraft::new(host, len)?;
/// let buffers = vec![vec![0; options.chunk_bytes]; 8];
/// let store = |_| RemoteStore::new(&draft, &cancel);
/// streamed_to(len, buffers, options, &cancel, store, |outgoing| {
///     for number in 0..numbers {
///         outgoing.write(&(number * number).to_ne_bytes())?;
///     }
///     Ok::<(), RemoteError>(())
/// })?;
/// draft.finish()
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RemoteStore<'a> {
    draft: &'a RemoteDraft,
    cancel: &'a CopyCancel,
}

impl<'a> RemoteStore<'a> {
    /// A destination. Cancelling ends transfers too, by giving their connections up where they take long.
    pub fn new(draft: &'a RemoteDraft, cancel: &'a CopyCancel) -> Self {
        Self { draft, cancel }
    }
}

impl Store for RemoteStore<'_> {
    fn store(&mut self, offset_bytes: usize, from: &[u8]) -> Result<(), StoreError> {
        let is_cancelled = || self.cancel.is_cancelled();
        let stored = self.draft.write(offset_bytes, from, &is_cancelled);
        stored.map_err(|error| {
            let told = StoreError::new(error.to_string());
            if !matches!(error, RemoteError::Cancelled { .. }) {
                self.draft.written().failed.get_or_insert(error);
            }
            told
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_but_for_the_last_of_a_column() {
        for (offset, bytes, len) in [
            (0, 4096, 10_000),
            (4096, 4096, 10_000),
            (8192, 1808, 10_000),
            (0, 10_000, 10_000),
            (0, 0, 0),
            (8192, 0, 8192),
        ] {
            assert!(are_blocks(offset, bytes, len), "{offset} {bytes} {len}");
        }
        for (offset, bytes, len) in [
            (0, 64, 10_000),
            (64, 4032, 10_000),
            (4096, 4097, 10_000),
            (8192, 4096, 10_000),
            (1, 9_999, 10_000),
            (4096, usize::MAX, 10_000),
        ] {
            assert!(!are_blocks(offset, bytes, len), "{offset} {bytes} {len}");
        }
    }

    #[test]
    fn a_block_without_a_checksum_is_found() {
        assert_eq!(all(vec![Some(0), Some(7)]), Ok(vec![0, 7]));
        assert_eq!(all(vec![Some(0), None, Some(7), None]), Err(1));
        assert_eq!(all(vec![]), Ok(vec![]));
    }
}
