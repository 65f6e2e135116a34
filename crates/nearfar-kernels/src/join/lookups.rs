//! The keys of a block that are looked up.

use super::BLOCK_ROWS;
use crate::key::Key;
use crate::line::Line;
use crate::line_table::{LineTable, hash};

/// Keys of a block that may be found: their places in the block, and their hashes.
pub(super) struct Lookups {
    len: usize,
    places: [u32; BLOCK_ROWS],
    hashes: [u64; BLOCK_ROWS],
}

/// All places of a block.
const PLACES: [u32; BLOCK_ROWS] = {
    let mut places = [0; BLOCK_ROWS];
    let mut place = 0;
    while place < BLOCK_ROWS {
        places[place] = place as u32;
        place += 1;
    }
    places
};

impl Lookups {
    /// All of at most [`BLOCK_ROWS`] keys.
    #[inline(always)]
    pub(super) fn of<K: Key>(keys: &[K]) -> Self {
        let mut lookups = Self {
            len: keys.len(),
            places: PLACES,
            hashes: [0; BLOCK_ROWS],
        };
        for (of_key, key) in lookups.hashes.iter_mut().zip(keys) {
            *of_key = hash(key.bits());
        }
        lookups
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

    /// The line of `table` where the way of each key begins.
    #[inline(always)]
    pub(super) fn homes<S: AsRef<[Line]>>(&self, table: &LineTable<S>) -> [u32; BLOCK_ROWS] {
        let mut homes = [0; BLOCK_ROWS];
        for (home, hash) in homes.iter_mut().zip(&self.hashes[..self.len]) {
            *home = table.home(*hash) as u32;
        }
        homes
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
