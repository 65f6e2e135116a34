//! Strings: a sorted dictionary where few are distinct, offsets and bytes where many are.

use arrow::array::{Array, ArrayRef, AsArray};
use hashbrown::HashMap;

/// Rows looked at before a dictionary is attempted at all.
const SAMPLE_ROWS: usize = 4096;

/// A dictionary is given up when more than one row in this many brings a new value.
const MIN_ROWS_PER_VALUE: usize = 8;

/// Sorted distinct strings of a column and, per row, the index of its own.
#[derive(Debug)]
pub struct Dictionary<'a> {
    /// Distinct values, ascending.
    pub values: Vec<&'a str>,
    /// Per row an index into `values`; 0 for nulls.
    pub codes: Vec<u32>,
}

impl<'a> Dictionary<'a> {
    /// The dictionary of `arrays` (string views), or nothing where it would not pay.
    pub fn build(arrays: &'a [ArrayRef]) -> Option<Self> {
        let rows: usize = arrays.iter().map(|a| a.len()).sum();
        let mut index: HashMap<&str, u32> = HashMap::new();
        let mut codes = Vec::with_capacity(rows);
        let mut recent = RecentViews::default();
        for array in arrays.iter().map(|array| array.as_string_view()) {
            recent.forget();
            for (row, view) in array.views().iter().enumerate() {
                if array.is_null(row) {
                    codes.push(0);
                    continue;
                }
                if let Some(code) = recent.code(*view) {
                    codes.push(code);
                    continue;
                }
                let next = index.len() as u32;
                let code = *index.entry(array.value(row)).or_insert(next);
                recent.remember(*view, code);
                codes.push(code);
                let looked_at = codes.len().max(SAMPLE_ROWS.min(rows));
                if index.len() * MIN_ROWS_PER_VALUE > looked_at.max(MIN_ROWS_PER_VALUE) {
                    return None;
                }
            }
        }
        Some(Self::sorted(index, codes))
    }

    /// Whether offsets of four bytes reach all values.
    pub fn fits_offsets(&self) -> bool {
        let bytes: usize = self.values.iter().map(|value| value.len()).sum();
        i32::try_from(bytes).is_ok()
    }

    fn sorted(index: HashMap<&'a str, u32>, mut codes: Vec<u32>) -> Self {
        let mut entries: Vec<(&str, u32)> = index.into_iter().collect();
        entries.sort_unstable();
        let mut order = vec![0; entries.len().max(1)];
        for (sorted, (_, found)) in entries.iter().enumerate() {
            order[*found as usize] = sorted as u32;
        }
        for code in &mut codes {
            *code = order[*code as usize];
        }
        Self {
            values: entries.into_iter().map(|(value, _)| value).collect(),
            codes,
        }
    }
}

/// Views of one array that were met lately, with their codes. Equal views of an array are equal
/// strings, so most rows of a column with few values need no hashing of their text.
struct RecentViews {
    slots: Box<[(u128, u32); 1 << Self::SLOTS_LOG2]>,
}

impl RecentViews {
    const SLOTS_LOG2: u32 = 10;
    /// No string is as long as this view would have it.
    const NO_VIEW: u128 = u128::MAX;

    fn code(&self, view: u128) -> Option<u32> {
        let (seen, code) = self.slots[Self::slot(view)];
        (seen == view).then_some(code)
    }

    fn remember(&mut self, view: u128, code: u32) {
        self.slots[Self::slot(view)] = (view, code);
    }

    fn forget(&mut self) {
        self.slots.fill((Self::NO_VIEW, 0));
    }

    fn slot(view: u128) -> usize {
        /// 2^64 divided by the golden ratio, for multiplicative hashing.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let folded = view as u64 ^ ((view >> 64) as u64).rotate_left(32);
        (folded.wrapping_mul(SPREAD) >> (u64::BITS - Self::SLOTS_LOG2)) as usize
    }
}

impl Default for RecentViews {
    fn default() -> Self {
        Self {
            slots: Box::new([(Self::NO_VIEW, 0); 1 << Self::SLOTS_LOG2]),
        }
    }
}

/// Bytes of all strings of `arrays` (string views).
pub fn data_bytes(arrays: &[ArrayRef]) -> usize {
    arrays
        .iter()
        .flat_map(|a| a.as_string_view().iter().flatten())
        .map(str::len)
        .sum()
}

/// Writes `values` one after the other into `data` and their end offsets, from 0 on, into
/// `offsets` (4 bytes each, one more than values).
pub fn write_strings<'a>(
    values: impl Iterator<Item = Option<&'a str>>,
    offsets: &mut [u8],
    data: &mut [u8],
) {
    let (slots, _) = offsets.as_chunks_mut::<4>();
    let mut end = 0usize;
    slots[0] = 0i32.to_le_bytes();
    for (slot, value) in slots[1..].iter_mut().zip(values) {
        if let Some(value) = value {
            data[end..end + value.len()].copy_from_slice(value.as_bytes());
            end += value.len();
        }
        *slot = (end as i32).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use std::sync::Arc;

    #[test]
    fn dictionaries_are_sorted_and_give_the_rows_back() {
        let words = ["oak", "ash", "oak", "elm"].repeat(8);
        let arrays: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from(words.clone()))];
        let dictionary = Dictionary::build(&arrays).expect("few values");
        assert_eq!(dictionary.values, ["ash", "elm", "oak"]);
        let back: Vec<&str> = dictionary
            .codes
            .iter()
            .map(|c| dictionary.values[*c as usize])
            .collect();
        assert_eq!(back, words);
    }

    #[test]
    fn equal_views_of_different_arrays_are_different_strings() {
        let texts = |prefix: &str| {
            let words = ["one", "two"].map(|word| format!("{prefix}, a long {word}"));
            let words = words.iter().cycle().take(40);
            Arc::new(StringViewArray::from_iter_values(words)) as ArrayRef
        };
        let arrays = [texts("left"), texts("lefd")];
        assert_eq!(
            arrays[0].as_string_view().views()[0] >> 96,
            arrays[1].as_string_view().views()[0] >> 96,
            "the same place in both arrays"
        );
        let dictionary = Dictionary::build(&arrays).expect("few values");
        assert_eq!(
            dictionary.values,
            [
                "lefd, a long one",
                "lefd, a long two",
                "left, a long one",
                "left, a long two"
            ]
        );
        assert_eq!(dictionary.codes[..2], [2, 3]);
        assert_eq!(dictionary.codes[40..42], [0, 1]);
    }

    #[test]
    fn distinct_strings_get_no_dictionary() {
        let words: Vec<String> = (0..10_000).map(|i| i.to_string()).collect();
        let arrays: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(words))];
        assert!(Dictionary::build(&arrays).is_none());
    }
}
