//! A trial of a host's memory.

use nearfar_kernels::copy::{Chunks, CopyCancel, CopyError, CopyOptions, streamed_from};
use nearfar_kernels::{Aggregate, signed_words};
use nearfar_model::Native;

use super::buffer::RemoteBuffer;
use super::fetch::{NearRing, RemoteFetch};
use super::host::RemoteHost;
use crate::error::RemoteError;

/// Chunks of the ring that the trial streams through.
const RING_CHUNKS: usize = 8;

/// What a trial has found right.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCheck {
    /// Bytes that were written, and were the same when they were read.
    pub verified_bytes: u64,
    /// Bytes that copiers fetched through a ring, which had the sum of those that were written.
    pub streamed_bytes: u64,
    /// Bytes that the tier is charged for while the memory is held.
    pub charged_bytes: u64,
}

impl RemoteHost {
    /// Takes `bytes` of the host's memory, in whole words of four bytes, writes numbers there, reads and checks them,
    /// and sums them as an operator does: over chunks that copiers fetch. Then the memory is given back. It measures
    /// nothing.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Damaged`] where what comes back is not what was written.
    pub fn check(&self, bytes: usize) -> Result<HostCheck, RemoteError> {
        let words = bytes.div_ceil(4);
        let written: Vec<u8> = (0..words as u32)
            .flat_map(|word| word.wrapping_mul(0x9E37_79B9).to_ne_bytes())
            .collect();
        let column = RemoteBuffer::put(self, &written)?;
        let mut found = vec![0; written.len()];
        column.read(0, &mut found)?;
        // Its checksums are those of the bytes that were written.
        let damaged = |offset_bytes, end_bytes| RemoteError::Damaged {
            host: self.name().to_owned(),
            region: column.region().number(),
            offset_bytes,
            end_bytes,
        };
        if let Some(at) = (0..found.len()).find(|at| found[*at] != written[*at]) {
            return Err(damaged(at as u64, at as u64 + 1));
        }
        let expected =
            (0..words as u32).map(|word| i128::from(word.wrapping_mul(0x9E37_79B9) as i32));
        let sum = self.streamed_sum(&column)?;
        if sum != expected.sum::<i128>() {
            return Err(damaged(0, written.len() as u64));
        }
        Ok(HostCheck {
            verified_bytes: written.len() as u64,
            streamed_bytes: written.len() as u64,
            charged_bytes: column.region().charged_bytes(),
        })
    }

    fn streamed_sum(&self, column: &RemoteBuffer) -> Result<i128, RemoteError> {
        let options = CopyOptions::default();
        let ring = NearRing::new(self, RING_CHUNKS, options.chunk_bytes)?;
        let columns = [column];
        let sum = |chunks: &mut Chunks<'_, _>| {
            let mut sum = 0;
            while let Some(chunk) = chunks.next_chunk()? {
                // A ring's buffers begin with a page, and chunks are whole words.
                let words = signed_words(&chunk).expect("whole words");
                sum += Aggregate::new().sum(words, &Native);
            }
            Ok::<i128, CopyError>(sum)
        };
        let (cancel, ring) = (CopyCancel::default(), ring.into_buffers());
        let fetch = |_| RemoteFetch::new(&columns, &cancel);
        let sums = streamed_from(column.len(), ring, options, &cancel, fetch, vec![sum]);
        let sum = sums.and_then(|sums| sums.into_iter().next().unwrap_or(Ok(0)));
        sum.map_err(|error| self.copy_failed(column, &error))
    }

    /// The error behind that of a copy, which has its text alone.
    fn copy_failed(&self, column: &RemoteBuffer, error: &CopyError) -> RemoteError {
        RemoteError::Lost {
            host: self.name().to_owned(),
            region: Some(column.region().number()),
            reason: self.lost().unwrap_or_else(|| error.to_string()),
        }
    }
}
