//! The scan of encoded columns: a selection of the rows whose value is within a range.
//!
//! Columns are unsigned integers of 1, 2, 4 or 8 bytes. A value is within `low..=high` where
//! `value - low`, wrapping, is at most `high - low`: one subtraction and one comparison for any range.
//! 64 values make one word of the selection. The words of a run that fits in the first-level cache
//! stay there, so that several filters on the same rows cost what reading their columns costs.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lane;
mod portable;

use std::ops::RangeInclusive;

use nearfar_model::Probe;

pub use self::lane::{Lane, SignedLane};
use super::{Scan, check};
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use crate::selection::{Selection, WORD_BITS};

/// What a scan does to the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matches {
    /// Deselects the rows whose value is not within the range.
    Keep,
    /// Deselects the rows whose value is within the range.
    Remove,
    /// Selects the rows whose value is within the range.
    Add,
}

impl Matches {
    /// A word of the selection after rows `found` were found in it.
    #[inline(always)]
    fn apply(self, selected: u64, found: u64) -> u64 {
        match self {
            Self::Keep => selected & found,
            Self::Remove => selected & !found,
            Self::Add => selected | found,
        }
    }
}

impl Scan {
    /// Finds the rows of `column` whose value is within `range`, and does with them in `selection`
    /// what `matches` says. No value is within a range that ends before it starts.
    ///
    /// # Panics
    /// Where `selection` has not as many rows as `column`.
    ///
    /// ```
    /// use nearfar_kernels::{Matches, Scan, Selection};
    /// use nearfar_model::Native;
    ///
    /// let mut selection = Selection::all(4);
    /// Scan::new().within(&[5_u8, 1, 9, 3], 3..=5, Matches::Keep, &mut selection, &Native);
    /// assert!(selection.rows().eq([0, 3]));
    /// ```
    pub fn within<L: Lane, P: Probe>(
        &self,
        column: &[L],
        range: RangeInclusive<L>,
        matches: Matches,
        selection: &mut Selection,
        probe: &P,
    ) {
        let Some(words) = words_to_mark(column.len(), &range, matches, selection) else {
            return;
        };
        let (low, high) = range.into_inner();
        self.mark_between(column, low, high, matches, words, probe);
    }

    /// As [`Self::within`], of a column of signed integers.
    ///
    /// # Panics
    /// Where the selection is of another number of rows.
    ///
    /// ```
    /// use nearfar_kernels::{Matches, Scan, Selection};
    /// use nearfar_model::Native;
    ///
    /// let mut selection = Selection::all(4);
    /// Scan::new().within_signed(&[5_i64, -1, 9, -3], -1..=5, Matches::Keep, &mut selection, &Native);
    /// assert!(selection.rows().eq([0, 1]));
    /// ```
    pub fn within_signed<S: SignedLane, P: Probe>(
        &self,
        column: &[S],
        range: RangeInclusive<S>,
        matches: Matches,
        selection: &mut Selection,
        probe: &P,
    ) {
        let Some(words) = words_to_mark(column.len(), &range, matches, selection) else {
            return;
        };
        // The difference to the low end wraps around to the same bits in both kinds of integers.
        let (low, high) = (range.start().unsigned(), range.end().unsigned());
        self.mark_between(S::all_unsigned(column), low, high, matches, words, probe);
    }

    /// `words` has as many words as `column` has begun runs of 64 values.
    #[inline(always)]
    pub(super) fn mark_between<L: Lane, P: Probe>(
        &self,
        column: &[L],
        low: L,
        high: L,
        matches: Matches,
        words: &mut [u64],
        probe: &P,
    ) {
        tell!(probe.stream(column.as_ptr().addr(), size_of_val(column)));
        tell!(probe.read(words.as_ptr().addr(), size_of_val(words)));
        tell!(probe.write(words.as_ptr().addr(), size_of_val(words)));
        let _ = probe;
        // One loop for each, without a choice in it.
        match matches {
            Matches::Keep => self.mark(column, low, high, words, Matches::Keep),
            Matches::Remove => self.mark(column, low, high, words, Matches::Remove),
            Matches::Add => self.mark(column, low, high, words, Matches::Add),
        }
    }

    /// `words` has as many words as `column` has begun runs of 64 values.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn mark<L: Lane>(&self, column: &[L], low: L, high: L, words: &mut [u64], matches: Matches) {
        let span = high.minus(low);
        let apply = move |selected, found| matches.apply(selected, found);
        match self.isa {
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { L::mark_avx512(column, low, span, words, apply) },
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { L::mark_avx2(column, low, span, words, apply) },
            _ => portable::mark(column, low, span, words, apply),
        }
    }

    /// Number of selected rows.
    #[allow(unsafe_code)]
    pub fn count<P: Probe>(&self, selection: &Selection, probe: &P) -> usize {
        let words = selection.words();
        tell!(probe.read(words.as_ptr().addr(), size_of_val(words)));
        match self.isa {
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => unsafe { avx2::count(words) },
            _ => portable::count(words),
        }
    }

    /// The positions of all selected rows, ascending, in `room`, which grows where it is too short for
    /// the run. The first row has position `first_position`.
    ///
    /// # Panics
    /// Where a position needs more than four bytes.
    pub fn positions<'a, P: Probe>(
        &self,
        selection: &Selection,
        first_position: u32,
        room: &'a mut Vec<u32>,
        probe: &P,
    ) -> &'a [u32] {
        if room.len() < selection.len() {
            room.resize(selection.len(), 0);
        }
        let checked = check(selection.len(), first_position, room.len());
        assert_eq!(checked, Ok(()), "positions of four bytes");
        let words = selection.words();
        let count = self.write_positions(words, selection.len(), first_position, room, probe);
        &room[..count]
    }

    /// Writes the positions of the selected ones of `rows` rows to the front of `room`, which is as long at least;
    /// returns their number.
    #[allow(unsafe_code)]
    pub(super) fn write_positions<P: Probe>(
        &self,
        words: &[u64],
        rows: usize,
        first_position: u32,
        room: &mut [u32],
        probe: &P,
    ) -> usize {
        tell!(probe.read(words.as_ptr().addr(), size_of_val(words)));
        // Whole words may be stored in full vectors, for which there is room.
        let (whole, rest) = words.split_at(rows / WORD_BITS);
        let mut count = match self.isa {
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512::positions(whole, first_position, room) },
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::positions(whole, first_position, room) },
            _ => portable::positions(whole, first_position, room),
        };
        let first_of_rest = first_position.wrapping_add((whole.len() * WORD_BITS) as u32);
        count += portable::positions(rest, first_of_rest, &mut room[count..]);
        tell!(probe.write(room.as_ptr().addr(), count * size_of::<u32>()));
        let _ = probe;
        count
    }
}

/// The words of a selection of so many rows, for a range; `None` where no value is within it, and the selection is as
/// it has to be then.
///
/// # Panics
/// Where the selection is of another number of rows.
pub(super) fn words_to_mark<'a, T: PartialOrd>(
    rows: usize,
    range: &RangeInclusive<T>,
    matches: Matches,
    selection: &'a mut Selection,
) -> Option<&'a mut [u64]> {
    assert_eq!(rows, selection.len(), "a selection of other rows");
    if range.is_empty() {
        if matches == Matches::Keep {
            selection.reset_to_none(rows);
        }
        return None;
    }
    Some(selection.words_mut())
}
