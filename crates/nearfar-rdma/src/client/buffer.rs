//! Columns in the memory of a host.

use nearfar_kernels::copy::{CopyCancel, CopyError, CopyOptions, Outgoing, streamed_to};
use nearfar_memory::rdma::NearBuffer;
use twox_hash::XxHash3_64;

use super::fetch::NearRing;
use super::host::RemoteHost;
use super::region::RemoteRegion;
use super::store::{RemoteDraft, RemoteStore};
use crate::error::RemoteError;

/// Bytes that have a checksum: 8 bytes near for each 4096 far.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Bytes that are read and checked together where a caller's are not whole blocks.
const SCRATCH_BYTES: usize = 64 * BLOCK_BYTES;

/// Bytes of a host that do not change, such as a column: what is read of them is what was written, or an error. Their
/// checksums are on this host, and show what is changed by accident: whoever can write to the other's memory can find
/// other bytes with the same checksum, which is no cryptographic one.
#[derive(Debug)]
pub struct RemoteBuffer {
    region: RemoteRegion,
    len: usize,
    checksums: Vec<u64>,
}

impl RemoteBuffer {
    /// Takes memory of the host and writes these bytes to it, on the caller's thread and over one connection.
    ///
    /// # Errors
    /// [`RemoteError`], as for [`RemoteHost::allocate`] and [`RemoteRegion::write`].
    pub fn put(host: &RemoteHost, bytes: &[u8]) -> Result<Self, RemoteError> {
        let draft = RemoteDraft::new(host, bytes.len())?;
        draft.write(0, bytes, &|| false)?;
        draft.finish()
    }

    /// As [`Self::put`], by copiers: over a connection for each, through a ring of near buffers of two chunks for each,
    /// which are counted on the near tier, while the caller's thread fills them.
    ///
    /// # Errors
    /// As [`Self::put_streamed`], and as [`RemoteHost::near_buffer`].
    pub fn put_by_copiers(
        host: &RemoteHost,
        bytes: &[u8],
        options: CopyOptions,
        cancel: &CopyCancel,
    ) -> Result<Self, RemoteError> {
        options.check()?;
        let chunks = bytes.len().div_ceil(options.chunk_bytes);
        let buffers = chunks.clamp(1, 2 * options.copiers.threads());
        let ring = NearRing::new(host, buffers, options.chunk_bytes)?;
        let write = |outgoing: &mut Outgoing<'_, _>| Ok::<(), RemoteError>(outgoing.write(bytes)?);
        let put = Self::put_streamed(host, bytes.len(), ring, options, cancel, write);
        put.map(|(column, ())| column)
    }

    /// Takes memory of the host for `len` bytes, and has copiers write there what `produce` fills the chunks of a ring
    /// with, which is not there as a whole at any time. Returns when all bytes are written, with what `produce` gave.
    /// Chunks are whole blocks of 4 KiB, whose checksums copiers make.
    ///
    /// Where it fails, the memory is given back to the host. Cancelling ends it within 100 ms, but for requests to the
    /// host for memory, or to give it back, whose replies are waited for.
    ///
    /// # Errors
    /// That of `produce`, which is told what goes wrong with copies. [`RemoteError`] as for [`RemoteHost::allocate`] and
    /// [`RemoteRegion::write`]; [`RemoteError::Cancelled`]; [`RemoteError::Copy`] where no copiers can be had, the ring
    /// is too small or `produce` did not give all bytes; [`RemoteError::Blocks`].
    pub fn put_streamed<R, E>(
        host: &RemoteHost,
        len: usize,
        ring: NearRing,
        options: CopyOptions,
        cancel: &CopyCancel,
        produce: impl FnOnce(&mut Outgoing<'_, NearBuffer>) -> Result<R, E>,
    ) -> Result<(Self, R), E>
    where
        E: From<RemoteError> + From<CopyError>,
    {
        let draft = RemoteDraft::new(host, len)?;
        let store = |_| RemoteStore::new(&draft, cancel);
        let ring = ring.into_buffers();
        match streamed_to(len, ring, options, cancel, store, produce) {
            Ok(produced) => Ok((draft.finish()?, produced)),
            // That of the producer has the text of what has failed before, and no more.
            Err(error) => Err(draft.failed(cancel).map_or(error, E::from)),
        }
    }

    /// A column of bytes that were written, with the checksum of each block.
    pub(super) fn new(region: RemoteRegion, len: usize, checksums: Vec<u64>) -> Self {
        Self {
            region,
            len,
            checksums,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its region. What is written to that is noticed as damage when it is read.
    pub fn region(&self) -> &RemoteRegion {
        &self.region
    }

    /// Reads the bytes from `offset_bytes` on into all of `to` and checks them. Whole blocks of 4 KiB are read in place;
    /// for others, the blocks that they are in are read beside.
    ///
    /// # Errors
    /// [`RemoteError::Damaged`] for bytes that are not those that were written; as [`RemoteRegion::read`].
    pub fn read(&self, offset_bytes: usize, to: &mut [u8]) -> Result<(), RemoteError> {
        self.read_unless(offset_bytes, to, &|| false)
    }

    /// As [`Self::read`], unless `is_cancelled`: within 100 ms of that, [`RemoteError::Cancelled`]. Where a connection
    /// has to be made for it and the host has been asked for one already, its reply is waited for before.
    ///
    /// # Errors
    /// As [`Self::read`], and [`RemoteError::Cancelled`].
    pub fn read_unless(
        &self,
        offset_bytes: usize,
        to: &mut [u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        let end = offset_bytes.saturating_add(to.len());
        let is_whole = |at: usize| at.is_multiple_of(BLOCK_BYTES) || at == self.len;
        if is_whole(offset_bytes) && is_whole(end) || end > self.len {
            let at = offset_bytes as u64;
            self.region.read_unless(at, to, is_cancelled)?;
            return self.check(offset_bytes, to);
        }
        let mut scratch = vec![0; SCRATCH_BYTES.min(self.len)];
        let mut at = offset_bytes;
        while at < end {
            let block = at / BLOCK_BYTES * BLOCK_BYTES;
            let blocks_end = (block + SCRATCH_BYTES).min(end.next_multiple_of(BLOCK_BYTES));
            let read = &mut scratch[..blocks_end.min(self.len) - block];
            self.region.read_unless(block as u64, read, is_cancelled)?;
            self.check(block, read)?;
            let wanted_end = end.min(block + read.len());
            let found = &read[at - block..wanted_end - block];
            to[at - offset_bytes..wanted_end - offset_bytes].copy_from_slice(found);
            at = wanted_end;
        }
        Ok(())
    }

    /// Checks bytes that begin with a block.
    fn check(&self, offset_bytes: usize, bytes: &[u8]) -> Result<(), RemoteError> {
        let first = offset_bytes / BLOCK_BYTES;
        for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if self.checksums.get(first + index) != Some(&checksum(block)) {
                let begin = offset_bytes + index * BLOCK_BYTES;
                return Err(RemoteError::Damaged {
                    host: self.region.host().to_owned(),
                    region: self.region.number(),
                    offset_bytes: begin as u64,
                    end_bytes: (begin + block.len()) as u64,
                });
            }
        }
        Ok(())
    }
}

pub(super) fn checksum(block: &[u8]) -> u64 {
    XxHash3_64::oneshot(block)
}
