//! The keys of a block that are looked up, where not all of them are.

use super::BLOCK_ROWS;
use crate::key::Key;
use crate::line_table::hash;

/// Keys of a block that may be found: their places in the block, and their hashes.
pub(super) struct Lookups {
    len: usize,
    places: [u32; BLOCK_ROWS],
    hashes: [u64; BLOCK_ROWS],
}

impl Lookups {
    /// None of a block.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            len: 0,
            places: [0; BLOCK_ROWS],
            hashes: [0; BLOCK_ROWS],
        }
    }

    /// Becomes all of at most [`BLOCK_ROWS`] keys.
    #[inline(always)]
    pub(super) fn reset_to_all<K: Key>(&mut self, keys: &[K]) {
        self.len = keys.len();
        let lookups = self.places.iter_mut().zip(&mut self.hashes).zip(keys);
        for (index, ((place, of_key), key)) in lookups.enumerate() {
            *place = index as u32;
            *of_key = hash(key.bits());
        }
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where each key is in the block.
    #[inline(always)]
    pub(super) fn places(&self) -> &[u32] {
        &self.places[..self.len]
    }

    /// The hash of each key.
    #[inline(always)]
    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes[..self.len]
    }

    /// Leaves only the keys of which `is_kept`, by place and hash, says so.
    #[inline(always)]
    pub(super) fn keep(&mut self, is_kept: impl Fn(u32, u64) -> bool) {
        self.keep_ahead(0, |_| {}, is_kept);
    }

    /// As [`Self::keep`]; `ask` is told the hash so many keys before, or of none where that is 0.
    #[inline(always)]
    pub(super) fn keep_ahead(
        &mut self,
        distance: usize,
        ask: impl Fn(u64),
        is_kept: impl Fn(u32, u64) -> bool,
    ) {
        let mut kept = 0;
        for index in 0..self.len {
            if distance > 0 && index + distance < self.len {
                ask(self.hashes[index + distance]);
            }
            let (place, hash) = (self.places[index], self.hashes[index]);
            self.places[kept] = place;
            self.hashes[kept] = hash;
            kept += usize::from(is_kept(place, hash));
        }
        self.len = kept;
    }
}
