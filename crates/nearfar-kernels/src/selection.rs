//! Which rows of a run are selected.

/// Bits of a word.
pub(crate) const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each row of a run: whether the row is selected. Bits behind the last row are not set.
///
/// ```
/// use nearfar_kernels::Selection;
///
/// let mut selection = Selection::all(70);
/// selection.remove([0b101, 0]);
/// assert_eq!(selection.rows().count(), 68);
/// assert!(!selection.contains(2) && selection.contains(69));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    words: Vec<u64>,
    len: usize,
}

impl Selection {
    /// All of `len` rows.
    pub fn all(len: usize) -> Self {
        let mut selection = Self::default();
        selection.reset_to_all(len);
        selection
    }

    /// None of `len` rows.
    pub fn none(len: usize) -> Self {
        let mut selection = Self::default();
        selection.reset_to_none(len);
        selection
    }

    /// Becomes [`Self::all`] of `len` rows, in the same memory.
    pub fn reset_to_all(&mut self, len: usize) {
        self.reset(len, u64::MAX);
        let behind = self.words.len() * WORD_BITS - len;
        if let Some(last) = self.words.last_mut() {
            *last >>= behind;
        }
    }

    /// Becomes [`Self::none`] of `len` rows, in the same memory.
    pub fn reset_to_none(&mut self, len: usize) {
        self.reset(len, 0);
    }

    fn reset(&mut self, len: usize, word: u64) {
        self.words.clear();
        self.words.resize(len.div_ceil(WORD_BITS), word);
        self.len = len;
    }

    /// Number of rows, selected or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the run has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits, the first row's lowest.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Whether `row` is selected; false for one that the run does not have.
    pub fn contains(&self, row: usize) -> bool {
        let word = self.words.get(row / WORD_BITS);
        word.is_some_and(|word| word >> (row % WORD_BITS) & 1 == 1)
    }

    /// The selected rows, ascending. [`Scan::positions`](crate::Scan::positions) is faster.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        (0..self.len).filter(|row| self.contains(*row))
    }

    /// Deselects the rows whose bit in `words` is not set. Rows beyond `words` stay.
    pub fn keep(&mut self, words: impl IntoIterator<Item = u64>) {
        for (own, other) in self.words.iter_mut().zip(words) {
            *own &= other;
        }
    }

    /// Deselects the rows whose bit in `words` is set. Rows beyond `words` stay.
    pub fn remove(&mut self, words: impl IntoIterator<Item = u64>) {
        self.keep(words.into_iter().map(|word| !word));
    }

    /// Deselects the rows whose `verdict`, one for each in order, is 0; all others are 1. Rows beyond
    /// the verdicts stay.
    pub fn keep_where(&mut self, verdicts: impl IntoIterator<Item = u8>) {
        let mut verdicts = verdicts.into_iter();
        for word in &mut self.words {
            let mut bytes = [1; WORD_BITS];
            for (byte, verdict) in bytes.iter_mut().zip(&mut verdicts) {
                *byte = verdict;
            }
            *word &= packed(&bytes);
        }
    }
}

/// A bit for each byte, all of which are 0 or 1; the first byte's is the lowest.
#[inline(always)]
pub(crate) fn packed(bytes: &[u8; WORD_BITS]) -> u64 {
    // Moves the lowest bit of byte i to bit 56 + i; nothing else arrives there.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut word = 0;
    for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        word |= (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * index);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_selected_behind_the_last_row() {
        for len in [0, 1, 63, 64, 65, 200] {
            let all = Selection::all(len);
            assert_eq!(all.rows().count(), len);
            assert!(!all.contains(len));
            let bits: u32 = all.words().iter().map(|word| word.count_ones()).sum();
            assert_eq!(bits as usize, len);
            assert_eq!(Selection::none(len).rows().count(), 0);
        }
    }

    proptest! {
        #[test]
        fn verdicts_select_row_by_row(
            verdicts in prop::collection::vec(0..2_u8, 0..300),
            beyond in 0..100_usize,
        ) {
            let mut selection = Selection::all(verdicts.len() + beyond);
            selection.keep_where(verdicts.iter().copied());
            for row in 0..selection.len() {
                prop_assert_eq!(selection.contains(row), verdicts.get(row) != Some(&0));
            }
        }
    }
}
