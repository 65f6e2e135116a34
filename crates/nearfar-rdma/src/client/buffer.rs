//! Columns in the memory of a host.

use twox_hash::XxHash3_64;

use super::host::RemoteHost;
use super::region::RemoteRegion;
use crate::error::RemoteError;

/// Bytes that have a checksum: 8 bytes near for each 4096 far.
const BLOCK_BYTES: usize = 4096;
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
    /// Takes memory of the host and writes these bytes to it.
    ///
    /// # Errors
    /// [`RemoteError`], as for [`RemoteHost::allocate`] and [`RemoteRegion::write`].
    pub fn put(host: &RemoteHost, bytes: &[u8]) -> Result<Self, RemoteError> {
        let region = host.allocate(bytes.len() as u64)?;
        region.write(0, bytes)?;
        Ok(Self {
            region,
            len: bytes.len(),
            checksums: bytes.chunks(BLOCK_BYTES).map(checksum).collect(),
        })
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

fn checksum(block: &[u8]) -> u64 {
    XxHash3_64::oneshot(block)
}
