//! Roots: what was published, in two slots, of which one is always whole.

use super::checksum;
use super::memory::PoolMemory;
use crate::sys::SysError;

/// Words of a root, its mark included.
const WORDS: usize = 7;

/// The first word of each slot, a page each.
pub(super) const SLOT_WORDS: [usize; 2] = [4 * 512, 5 * 512];

/// A publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    /// Counts publications, from one.
    pub(super) generation: u64,
    /// The epoch of the owner that published.
    pub(super) epoch: u64,
    /// Where the catalog lies.
    pub(super) catalog_offset: u64,
    /// Bytes of the catalog.
    pub(super) catalog_bytes: u64,
    /// Checksum of the catalog.
    pub(super) catalog_checksum: u64,
}

impl Root {
    fn words(self) -> [u64; WORDS - 2] {
        [
            self.generation,
            self.epoch,
            self.catalog_offset,
            self.catalog_bytes,
            self.catalog_checksum,
        ]
    }

    /// The slot of this generation.
    pub(super) fn slot(self) -> usize {
        (self.generation % 2) as usize
    }

    /// Writes the root into its slot: the mark is taken away first and set last, and each step is
    /// in memory for good before the next begins.
    pub(super) fn write(self, pool_id: u128, memory: &PoolMemory) -> Result<(), SysError> {
        let first = SLOT_WORDS[self.slot()];
        memory.store(first, &[0]);
        memory.write_back_words(first, 1)?;
        let words = self.words();
        let sum = checksum::of_words(pool_id, &words);
        memory.store(first + 1, &words);
        memory.store(first + WORDS - 1, &[sum]);
        memory.write_back_words(first, WORDS)?;
        memory.store(first, &[mark(sum)]);
        memory.write_back_words(first, 1)
    }

    /// The root in a slot, if there is a whole one.
    pub(super) fn read(slot: usize, pool_id: u128, memory: &PoolMemory) -> Option<Self> {
        let first = SLOT_WORDS[slot];
        let mut words = [0; WORDS - 2];
        for (index, word) in words.iter_mut().enumerate() {
            *word = memory.load(first + 1 + index);
        }
        let sum = memory.load(first + WORDS - 1);
        let is_whole = memory.load(first) == mark(sum)
            && sum == checksum::of_words(pool_id, &words)
            && (words[0] % 2) as usize == slot
            && words[0] > 0;
        is_whole.then_some(Self {
            generation: words[0],
            epoch: words[1],
            catalog_offset: words[2],
            catalog_bytes: words[3],
            catalog_checksum: words[4],
        })
    }
}

/// The word that makes a root valid. It is never zero, as memory that was never written is.
fn mark(sum: u64) -> u64 {
    sum | 1
}
