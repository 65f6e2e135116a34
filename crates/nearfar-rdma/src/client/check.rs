//! A trial of a host's memory.

use std::sync::{Mutex, PoisonError};

use nearfar_kernels::copy::{
    Chunks, CopyCancel, CopyError, CopyOptions, Fetch, FetchError, streamed_from,
};
use nearfar_kernels::{Aggregate, signed_words};
use nearfar_model::Native;

use super::fetch::NearRing;
use super::host::RemoteHost;
use super::region::RemoteRegion;
use crate::error::RemoteError;

/// Chunks of the ring that the trial streams through.
const RING_CHUNKS: usize = 8;
/// Bytes that are written, or read and compared, together: no more of the memory is near at a time.
const BLOCK_BYTES: usize = 1 << 20;
const WORD_BYTES: usize = size_of::<u32>();

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

/// The number in this word of the memory: another one at each place, also beyond the first 2^32 words.
fn number(word: u64) -> u32 {
    (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Fills `block`, which begins with this word.
fn fill(block: &mut [u8], first_word: u64) {
    for (word, to) in (first_word..).zip(block.chunks_exact_mut(WORD_BYTES)) {
        to.copy_from_slice(&number(word).to_ne_bytes());
    }
}

/// The sum of as many numbers.
fn sum_of_numbers(words: u64) -> i128 {
    let signed = |word| i128::from(number(word) as i32);
    (0..words).map(signed).sum()
}

/// Where each block of so many bytes begins, and how many it has.
fn blocks(bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let length = move |begin: u64| (bytes - begin).min(BLOCK_BYTES as u64) as usize;
    let begins = (0..bytes).step_by(BLOCK_BYTES);
    begins.map(move |begin| (begin, length(begin)))
}

impl RemoteHost {
    /// Takes `bytes` of the host's memory, in whole words of four bytes, writes numbers there, reads and checks them,
    /// and sums them as an operator does: over chunks that copiers fetch. Then the memory is given back. It measures
    /// nothing.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Damaged`] where what comes back is not what was written.
    pub fn check(&self, bytes: usize) -> Result<HostCheck, RemoteError> {
        let bytes = bytes.div_ceil(WORD_BYTES).saturating_mul(WORD_BYTES);
        let region = self.allocate(bytes as u64)?;
        let mut written = vec![0; BLOCK_BYTES.min(bytes)];
        let mut found = written.clone();
        let first_word = |begin: u64| begin / WORD_BYTES as u64;
        for (begin, length) in blocks(region.len()) {
            fill(&mut written[..length], first_word(begin));
            region.write(begin, &written[..length])?;
        }
        let damaged = |offset_bytes, end_bytes| RemoteError::Damaged {
            host: self.name().to_owned(),
            region: region.number(),
            offset_bytes,
            end_bytes,
        };
        for (begin, length) in blocks(region.len()) {
            let (written, found) = (&mut written[..length], &mut found[..length]);
            fill(written, first_word(begin));
            region.read(begin, found)?;
            if let Some(at) = (0..length).find(|at| found[*at] != written[*at]) {
                let at = begin + at as u64;
                return Err(damaged(at, at + 1));
            }
        }
        if self.streamed_sum(&region, bytes)? != sum_of_numbers(first_word(region.len())) {
            return Err(damaged(0, region.len()));
        }
        Ok(HostCheck {
            verified_bytes: region.len(),
            streamed_bytes: region.len(),
            charged_bytes: region.charged_bytes(),
        })
    }

    fn streamed_sum(&self, region: &RemoteRegion, bytes: usize) -> Result<i128, RemoteError> {
        let options = CopyOptions::default();
        let ring = NearRing::new(self, RING_CHUNKS, options.chunk_bytes)?;
        let sum = |chunks: &mut Chunks<'_, _>| {
            let mut sum = 0;
            while let Some(chunk) = chunks.next_chunk()? {
                // A ring's buffers begin with a page, and chunks are whole words.
                let words = signed_words(&chunk);
                let words = words.map_err(|error| FetchError::new(error.to_string()))?;
                sum += Aggregate::new().sum(words, &Native);
            }
            Ok::<i128, CopyError>(sum)
        };
        let (cancel, failed) = (CopyCancel::default(), Mutex::new(None));
        let fetch = |_| RegionFetch {
            region,
            failed: &failed,
        };
        let ring = ring.into_buffers();
        let sums = streamed_from(bytes, ring, options, &cancel, fetch, vec![sum]);
        let sum = sums.and_then(|sums| sums.into_iter().next().unwrap_or(Ok(0)));
        sum.map_err(|error| {
            let told = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
            told.unwrap_or(RemoteError::Copy(error))
        })
    }
}

/// What copiers read a region by. The first error is kept: that of a copy has its text alone.
struct RegionFetch<'a> {
    region: &'a RemoteRegion,
    failed: &'a Mutex<Option<RemoteError>>,
}

impl Fetch for RegionFetch<'_> {
    fn fetch(&mut self, _: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let read = self.region.read(offset_bytes as u64, to);
        read.map_err(|error| {
            let told = FetchError::new(error.to_string());
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
            told
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_large_region_is_tried() {
        let sixteen_gib = 16_u64 << 30;
        let count = blocks(sixteen_gib + 4).count();
        assert_eq!(count, (16 << 10) + 1, "blocks of 1 MiB, and one more");
        assert_eq!(blocks(sixteen_gib + 4).last(), Some((sixteen_gib, 4)));
        assert_eq!(blocks(0).count(), 0);
        let words = 1_u64 << 32;
        let differ = (0..1000).filter(|word| number(*word) != number(word + words));
        assert_eq!(differ.count(), 1000, "numbers go on beyond 2^32 words");
    }

    #[test]
    fn the_sum_is_that_of_what_is_written() {
        let mut block = vec![0; 4000];
        fill(&mut block[..2000], 0);
        fill(&mut block[2000..], 500);
        let words = block.chunks_exact(4);
        let words = words.map(|word| i32::from_ne_bytes(word.try_into().unwrap()));
        let sum: i128 = words.map(i128::from).sum();
        assert_eq!(sum, sum_of_numbers(1000));
    }
}
