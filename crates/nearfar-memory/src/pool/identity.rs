//! The first page of a pool: what it is. It is written once, when the pool is made.

use std::path::Path;

use super::checksum;
use super::error::PoolError;
use super::memory::PoolMemory;
use crate::dax::POOL_MAGIC as MAGIC;

/// The version of the layout that this program writes and reads.
pub(super) const LAYOUT_VERSION: u64 = 4;
const WORDS: usize = 6;

/// What a pool says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// A number that no other pool has.
    pub(super) id: u128,
    /// Bytes of the pool.
    pub(super) bytes: u64,
}

impl Identity {
    fn words(self) -> [u64; WORDS - 1] {
        [
            LAYOUT_VERSION,
            self.id as u64,
            (self.id >> 64) as u64,
            self.bytes,
            0,
        ]
    }

    /// Whether the page was never written, or not to its end, and the header's other bytes never.
    pub(super) fn is_unwritten(memory: &PoolMemory, header_bytes: u64) -> bool {
        let others = WORDS + 1..header_bytes as usize / 8;
        memory.load(0) == 0 && others.into_iter().all(|word| memory.load(word) == 0)
    }

    /// Writes the page; the magic number, which makes it a pool, last.
    pub(super) fn write(self, memory: &PoolMemory) -> Result<(), crate::sys::SysError> {
        let words = self.words();
        memory.store(1, &words);
        memory.store(WORDS, &[checksum::of_words(self.id, &words)]);
        memory.write_back_words(0, WORDS + 1)?;
        memory.store(0, &[MAGIC]);
        memory.write_back_words(0, 1)
    }

    /// Reads the page.
    ///
    /// # Errors
    /// [`PoolError`] for something else than a pool that this program can read.
    pub(super) fn read(memory: &PoolMemory, path: &Path) -> Result<Self, PoolError> {
        let path = || path.to_path_buf();
        let magic = memory.load(0);
        if magic == MAGIC.swap_bytes() {
            return Err(PoolError::ByteOrder { path: path() });
        }
        let not_a_pool = |reason: &str| PoolError::NotAPool {
            path: path(),
            reason: reason.to_owned(),
        };
        if magic != MAGIC {
            return Err(not_a_pool(if magic == 0 {
                "it is empty"
            } else {
                "it begins with something else"
            }));
        }
        let mut words = [0; WORDS - 1];
        for (index, word) in words.iter_mut().enumerate() {
            *word = memory.load(index + 1);
        }
        if words[0] != LAYOUT_VERSION {
            return Err(PoolError::Version {
                path: path(),
                found: words[0],
                known: LAYOUT_VERSION,
            });
        }
        let id = u128::from(words[1]) | u128::from(words[2]) << 64;
        if memory.load(WORDS) != checksum::of_words(id, &words) {
            return Err(not_a_pool("its first page is damaged"));
        }
        // A pool need not take all of a device.
        let has_its_size = match memory.is_device() {
            true => words[3] <= memory.bytes(),
            false => words[3] == memory.bytes(),
        };
        if !has_its_size {
            return Err(not_a_pool("it has another size than it was made with"));
        }
        Ok(Self {
            id,
            bytes: words[3],
        })
    }
}
