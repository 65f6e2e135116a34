//! A filter that takes most keys out which a table does not have.

use nearfar_model::Probe;

use super::STEP_ROWS;
use super::table::{JoinError, check_cancel, no_memory};
use crate::cancel::Cancel;
use crate::key::Key;
use crate::line_table::{hash, place};
use crate::memory::zeros;
use crate::selection::Selection;
use crate::vectors::prefetch;

/// Keys of a word on average: eight bits each.
const WORD_KEYS: usize = 8;

/// A Bloom filter of one word for each key, register-blocked: four bits of a word of 64 say that a key
/// may be there. Of keys that are not, about 3 % pass.
///
/// It is near and a twentieth of the size of its table, so that it is mostly in caches where that is far.
///
/// ```
/// use nearfar_kernels::BloomFilter;
/// use nearfar_model::Native;
///
/// let filter = BloomFilter::of(&[1_i64, 2, 3], None, &Native);
/// assert!(filter.may_have(2_i64));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloomFilter {
    words: Vec<u64>,
}

impl BloomFilter {
    /// A filter of `keys`, but for those that are not in `valid`.
    pub fn of<K: Key, P: Probe>(keys: &[K], valid: Option<&Selection>, probe: &P) -> Self {
        let mut filter = Self::with_room(keys.len());
        filter.put(0, keys, valid, probe);
        filter
    }

    /// As [`Self::of`], until `cancel` ends it.
    pub(super) fn of_cancellable<K: Key, P: Probe>(
        keys: &[K],
        valid: Option<&Selection>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        let words =
            zeros(Self::words(keys.len())).map_err(|refused| no_memory(keys.len(), refused))?;
        let mut filter = Self { words };
        for (step, keys) in keys.chunks(STEP_ROWS).enumerate() {
            check_cancel(cancel)?;
            filter.put(step * STEP_ROWS, keys, valid, probe);
        }
        Ok(filter)
    }

    /// A filter without keys, for so many.
    pub fn with_room(count: usize) -> Self {
        let words = vec![0; Self::words(count)];
        Self { words }
    }

    fn words(keys: usize) -> usize {
        keys.div_ceil(WORD_KEYS).max(1)
    }

    /// Adds the keys of the rows from `first` on, but for those that are not in `valid`.
    pub fn put<K: Key, P: Probe>(
        &mut self,
        first: usize,
        keys: &[K],
        valid: Option<&Selection>,
        probe: &P,
    ) {
        tell!(probe.stream(keys.as_ptr().addr(), size_of_val(keys)));
        for (row, key) in (first..).zip(keys) {
            if valid.is_some_and(|valid| !valid.contains(row)) {
                continue;
            }
            let hash = hash(key.bits());
            let at = self.place(hash);
            tell!(probe.write((&raw const self.words[at]).addr(), 8));
            self.words[at] |= bits(hash);
        }
        let _ = probe;
    }

    /// Whether the key may be among those of the filter; if not, it is sure not to be.
    pub fn may_have<K: Key>(&self, key: K) -> bool {
        let hash = hash(key.bits());
        self.word_has(self.place(hash), hash)
    }

    /// The word of a key.
    #[inline(always)]
    pub(super) fn place(&self, hash: u64) -> usize {
        place(hash, self.words.len())
    }

    /// Asks for a word.
    #[inline(always)]
    pub(super) fn prefetch<P: Probe>(&self, at: usize, probe: &P) {
        let word = &raw const self.words[at];
        tell!(probe.prefetch(word.addr(), 8));
        let _ = probe;
        prefetch(word);
    }

    /// As [`Self::word_has`], and tells the probe.
    #[inline(always)]
    pub(super) fn probed<P: Probe>(&self, at: usize, hash: u64, probe: &P) -> bool {
        tell!(probe.read((&raw const self.words[at]).addr(), 8));
        let _ = probe;
        self.word_has(at, hash)
    }

    #[inline(always)]
    fn word_has(&self, at: usize, hash: u64) -> bool {
        let bits = bits(hash);
        self.words[at] & bits == bits
    }

    /// Bytes of the filter.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }
}

/// Four bits, or fewer that coincide, from bits of the hash that do not choose the word.
#[inline(always)]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_model::Native;

    #[test]
    fn all_keys_pass_and_few_others() {
        let keys: Vec<i64> = (0..10_000).map(|key| key * 3).collect();
        let filter = BloomFilter::of(&keys, None, &Native);
        assert!(keys.iter().all(|key| filter.may_have(*key)));
        let others = (0..10_000_i64).filter(|key| filter.may_have(key * 3 + 1));
        let passed = others.count();
        assert!((100..700).contains(&passed), "{passed} of 10,000");
    }

    #[test]
    fn nulls_are_not_in_it() {
        let mut valid = Selection::all(2);
        valid.remove([0b10]);
        let filter = BloomFilter::of(&[1_i64, 77], Some(&valid), &Native);
        assert!(filter.may_have(1_i64) && !filter.may_have(77_i64));
    }
}
