//! Texts of which few are distinct.

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use hashbrown::HashMap;
use std::fmt;

use super::codes::{Code, Codes, with_codes};
use super::column_builder::nulls_of;
use crate::error::TableError;

/// Rows looked at before a dictionary is attempted at all.
const SAMPLE_ROWS: usize = 4096;

/// A dictionary is given up when more than one row in this many brings a new value.
const MIN_ROWS_PER_VALUE: usize = 8;

/// Texts of a column with few distinct ones among them, array by array, as codes.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// The distinct texts, with their codes in the order in which they came.
    index: HashMap<Box<str>, u32>,
    arrays: Vec<CodedTexts>,
    rows: usize,
    recent: RecentViews,
    /// Codes of the array that is being added.
    codes: Vec<u32>,
}

/// The texts of one array.
#[derive(Debug)]
pub struct CodedTexts {
    /// 0 for nulls.
    pub codes: Codes,
    /// None where there are none.
    pub nulls: Option<NullBuffer>,
}

/// Distinct texts, ascending, and codes that lead to them.
#[derive(Debug)]
pub struct SortedDictionary {
    /// The texts.
    pub values: Vec<Box<str>>,
    /// By code, the place among the texts; of one code at least, which nulls have.
    pub places: Vec<u32>,
    /// The codes, array by array.
    pub arrays: Vec<CodedTexts>,
}

impl Dictionary {
    /// Adds the texts of `array`, which are string views, unless a dictionary would not pay then. Says whether it did.
    pub fn push(&mut self, array: &ArrayRef) -> bool {
        let texts = array.as_string_view();
        self.codes.clear();
        self.recent.forget();
        for (row, view) in texts.views().iter().enumerate() {
            let code = match texts.is_null(row) {
                true => 0,
                false => self.code(*view, || texts.value(row)),
            };
            self.codes.push(code);
            let looked_at = (self.rows + self.codes.len()).max(SAMPLE_ROWS);
            if !self.pays(looked_at) {
                return false;
            }
        }
        self.rows += texts.len();
        self.arrays.push(CodedTexts {
            codes: narrowed(&self.codes, self.index.len()),
            nulls: nulls_of(texts),
        });
        true
    }

    fn code<'a>(&mut self, view: u128, text: impl FnOnce() -> &'a str) -> u32 {
        if let Some(code) = self.recent.code(view) {
            return code;
        }
        let text = text();
        let known = self.index.get(text).copied();
        let code = known.unwrap_or_else(|| {
            let next = self.index.len() as u32;
            self.index.insert(text.into(), next);
            next
        });
        self.recent.remember(view, code);
        code
    }

    fn pays(&self, rows: usize) -> bool {
        self.index.len() * MIN_ROWS_PER_VALUE <= rows.max(MIN_ROWS_PER_VALUE)
    }

    /// Whether it pays for the rows that there are, and four-byte offsets reach all of its texts.
    pub fn is_worth_it(&self) -> bool {
        let bytes: usize = self.index.keys().map(|text| text.len()).sum();
        self.pays(self.rows) && i32::try_from(bytes).is_ok()
    }

    /// The dictionary with its texts in order.
    pub fn sorted(self) -> SortedDictionary {
        let mut entries: Vec<(Box<str>, u32)> = self.index.into_iter().collect();
        entries.sort_unstable();
        let mut places = vec![0; entries.len().max(1)];
        for (place, (_, code)) in entries.iter().enumerate() {
            places[*code as usize] = place as u32;
        }
        SortedDictionary {
            values: entries.into_iter().map(|(text, _)| text).collect(),
            places,
            arrays: self.arrays,
        }
    }

    /// The texts as string views, array by array.
    ///
    /// # Errors
    /// What Arrow's kernels report.
    pub fn into_arrays(self) -> Result<Vec<ArrayRef>, TableError> {
        let mut by_code = vec![""; self.index.len().max(1)];
        for (text, code) in &self.index {
            by_code[*code as usize] = text;
        }
        let by_code = StringViewArray::from_iter_values(by_code);
        let texts = |coded: CodedTexts| {
            let codes = with_codes!(&coded.codes, codes => {
                codes.iter().map(|code| code.widen() as u32).collect()
            });
            let codes = UInt32Array::new(codes, coded.nulls);
            Ok(take(&by_code, &codes, None)?)
        };
        self.arrays.into_iter().map(texts).collect()
    }
}

impl SortedDictionary {
    /// Writes the places of all texts into `bytes`, `width_bytes` each.
    pub fn write_places(&self, width_bytes: usize, bytes: &mut [u8]) {
        match width_bytes {
            1 => self.write::<1>(bytes),
            2 => self.write::<2>(bytes),
            _ => self.write::<4>(bytes),
        }
    }

    fn write<const WIDTH: usize>(&self, bytes: &mut [u8]) {
        let (mut slots, _) = bytes.as_chunks_mut::<WIDTH>();
        for array in &self.arrays {
            let (own, rest) = slots.split_at_mut(array.codes.len());
            with_codes!(&array.codes, codes => {
                for (slot, code) in own.iter_mut().zip(codes.iter()) {
                    let place = self.places[code.widen() as usize];
                    slot.copy_from_slice(&place.to_le_bytes()[..WIDTH]);
                }
            });
            slots = rest;
        }
    }
}

/// `codes`, which are below `count`, as narrow as that allows.
fn narrowed(codes: &[u32], count: usize) -> Codes {
    match Codes::width_bytes(count as u64) {
        1 => Codes::U8(codes.iter().map(|code| *code as u8).collect()),
        2 => Codes::U16(codes.iter().map(|code| *code as u16).collect()),
        _ => Codes::U32(codes.iter().copied().collect()),
    }
}

/// Views of one array that were met lately, with their codes. Equal views of an array are equal
/// strings, so most rows of a column with few values need no hashing of their text.
#[derive(Default)]
struct RecentViews {
    /// None before the first array.
    slots: Vec<(u128, u32)>,
}

impl fmt::Debug for RecentViews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentViews").finish_non_exhaustive()
    }
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
        self.slots.clear();
        self.slots.resize(1 << Self::SLOTS_LOG2, (Self::NO_VIEW, 0));
    }

    fn slot(view: u128) -> usize {
        /// 2^64 divided by the golden ratio, for multiplicative hashing.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let folded = view as u64 ^ ((view >> 64) as u64).rotate_left(32);
        (folded.wrapping_mul(SPREAD) >> (u64::BITS - Self::SLOTS_LOG2)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn views<T: AsRef<str>>(texts: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
        Arc::new(texts.into_iter().collect::<StringViewArray>())
    }

    fn built(arrays: &[ArrayRef]) -> Dictionary {
        let mut dictionary = Dictionary::default();
        for array in arrays {
            assert!(dictionary.push(array), "few are distinct");
        }
        dictionary
    }

    fn sorted(arrays: &[ArrayRef]) -> SortedDictionary {
        let dictionary = built(arrays);
        assert!(dictionary.is_worth_it());
        dictionary.sorted()
    }

    fn values(dictionary: &SortedDictionary) -> Vec<&str> {
        dictionary.values.iter().map(AsRef::as_ref).collect()
    }

    #[test]
    fn dictionaries_are_sorted_and_give_the_rows_back() {
        let words = ["oak", "ash", "oak", "elm"].repeat(8);
        let arrays = [
            views(words.iter().map(Some)),
            views([None, Some("yew"), None]),
        ];
        let dictionary = sorted(&arrays);
        assert_eq!(values(&dictionary), ["ash", "elm", "oak", "yew"]);
        let mut places = vec![0; 35];
        dictionary.write_places(1, &mut places);
        let back = places[..32]
            .iter()
            .map(|at| &*dictionary.values[*at as usize]);
        assert!(back.eq(words));
        assert_eq!(places[33], 3);
        assert_eq!(
            dictionary.arrays[1].nulls.as_ref().map(|n| n.null_count()),
            Some(2)
        );
    }

    #[test]
    fn equal_views_of_different_arrays_are_different_strings() {
        let texts = |prefix: &str| {
            let words = ["one", "two"].map(|word| format!("{prefix}, a long {word}"));
            views(words.iter().cycle().take(40).map(Some))
        };
        let arrays = [texts("left"), texts("lefd")];
        assert_eq!(
            arrays[0].as_string_view().views()[0] >> 96,
            arrays[1].as_string_view().views()[0] >> 96,
            "the same place in both arrays"
        );
        let dictionary = sorted(&arrays);
        let all = ["lefd", "left"]
            .map(|prefix| ["one", "two"].map(|word| format!("{prefix}, a long {word}")));
        assert_eq!(values(&dictionary), all.as_flattened());
        let mut places = vec![0; 80 * 2];
        dictionary.write_places(2, &mut places);
        assert_eq!(
            (&places[..4], &places[80..84]),
            (&[2, 0, 3, 0][..], &[0, 0, 1, 0][..])
        );
    }

    #[test]
    fn a_dictionary_is_given_up_with_all_of_its_texts() {
        let few = views(["a", "b"].repeat(3000).into_iter().map(Some));
        let distinct = views((0..10_000).map(|i| Some(i.to_string())));
        let mut dictionary = built(std::slice::from_ref(&few));
        assert!(!dictionary.push(&distinct));
        let texts = dictionary.into_arrays().expect("texts");
        assert_eq!(texts, [few]);
        // As many as are looked at before it is given up, but no more.
        let short = views((0..100).map(|i| (i > 0).then(|| i.to_string())));
        let dictionary = built(std::slice::from_ref(&short));
        assert!(!dictionary.is_worth_it());
        assert_eq!(dictionary.into_arrays().expect("texts"), [short]);
    }

    #[test]
    fn codes_grow_with_the_dictionary() {
        let many = (0..100_000).map(|i| Some((i / 100).to_string()));
        let few = views(["x"].repeat(20).into_iter().map(Some));
        let dictionary = built(&[few, views(many)]);
        let widths = dictionary.arrays.iter();
        assert!(widths.map(|array| array.codes.code_bytes()).eq([1, 2]));
        assert!(dictionary.is_worth_it());
        let dictionary = dictionary.sorted();
        let mut places = vec![0; 2 * 100_020];
        dictionary.write_places(2, &mut places);
        let last = u16::from_le_bytes([places[200_038], places[200_039]]);
        assert_eq!(&*dictionary.values[usize::from(last)], "999");
    }

    #[test]
    fn texts_that_are_all_null_have_an_empty_dictionary() {
        let arrays = [views([None::<&str>, None])];
        let dictionary = sorted(&arrays);
        let mut places = [7; 2];
        dictionary.write_places(1, &mut places);
        assert_eq!((values(&dictionary).len(), places), (0, [0, 0]));
        assert_eq!(built(&arrays).into_arrays().expect("nulls"), arrays);
    }
}
