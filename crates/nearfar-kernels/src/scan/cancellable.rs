//! Scans that can be cancelled: part by part, with a look at whether to go on before each.

use std::ops::RangeInclusive;

use nearfar_model::Probe;

use super::within::words_to_mark;
use super::{Lane, Matches, Scan, ScanError, SignedLane, Stores, check};
use crate::cancel::{Cancel, Cancelled, PART_ROWS};
use crate::selection::{Selection, WORD_BITS};

impl Scan {
    /// As [`Self::less_than`], until `cancel` ends it.
    ///
    /// # Errors
    /// [`ScanError`]; nothing was written but before [`ScanError::Cancelled`].
    pub fn less_than_cancellable<P: Probe>(
        &self,
        column: &[u32],
        bound: u32,
        first_position: u32,
        positions: &mut [u32],
        cancel: &Cancel,
        probe: &P,
    ) -> Result<usize, ScanError> {
        check(column.len(), first_position, positions.len())?;
        let stores = match self.writes_past_caches(size_of_val(column)) {
            true => Stores::Streaming,
            false => Stores::Cached,
        };
        let (scan, mut count) = (self.with_stores(stores), 0);
        for (index, part) in column.chunks(PART_ROWS).enumerate() {
            cancel.check()?;
            let first = first_position + (index * PART_ROWS) as u32;
            count += scan.less_than(part, bound, first, &mut positions[count..], probe)?;
        }
        Ok(count)
    }

    /// As [`Self::within`], until `cancel` ends it, with the rows before done.
    ///
    /// # Errors
    /// [`Cancelled`].
    ///
    /// # Panics
    /// Where `selection` has not as many rows as `column`.
    pub fn within_cancellable<L: Lane, P: Probe>(
        &self,
        column: &[L],
        range: RangeInclusive<L>,
        matches: Matches,
        selection: &mut Selection,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<(), Cancelled> {
        let Some(words) = words_to_mark(column.len(), &range, matches, selection) else {
            return Ok(());
        };
        self.mark_parts(column, range, matches, words, (cancel, probe))
    }

    /// As [`Self::within_cancellable`], of a column of signed integers.
    ///
    /// # Errors
    /// [`Cancelled`].
    ///
    /// # Panics
    /// Where the selection is of another number of rows.
    pub fn within_signed_cancellable<S: SignedLane, P: Probe>(
        &self,
        column: &[S],
        range: RangeInclusive<S>,
        matches: Matches,
        selection: &mut Selection,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<(), Cancelled> {
        let Some(words) = words_to_mark(column.len(), &range, matches, selection) else {
            return Ok(());
        };
        let range = range.start().unsigned()..=range.end().unsigned();
        self.mark_parts(
            S::all_unsigned(column),
            range,
            matches,
            words,
            (cancel, probe),
        )
    }

    /// Marks values between both ends, which wrap around, part by part.
    fn mark_parts<L: Lane, P: Probe>(
        &self,
        column: &[L],
        range: RangeInclusive<L>,
        matches: Matches,
        words: &mut [u64],
        (cancel, probe): (&Cancel, &P),
    ) -> Result<(), Cancelled> {
        let (low, high) = range.into_inner();
        let words = words.chunks_mut(PART_ROWS / WORD_BITS);
        for (column, words) in column.chunks(PART_ROWS).zip(words) {
            cancel.check()?;
            self.mark_between(column, low, high, matches, words, probe);
        }
        Ok(())
    }

    /// As [`Self::positions`], until `cancel` ends it; `room` grows with what is found.
    ///
    /// # Errors
    /// [`Cancelled`].
    ///
    /// # Panics
    /// Where a position needs more than four bytes.
    pub fn positions_cancellable<'a, P: Probe>(
        &self,
        selection: &Selection,
        first_position: u32,
        room: &'a mut Vec<u32>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<&'a [u32], Cancelled> {
        let checked = check(selection.len(), first_position, selection.len());
        assert_eq!(checked, Ok(()), "positions of four bytes");
        let mut count = 0;
        for (index, words) in selection.words().chunks(PART_ROWS / WORD_BITS).enumerate() {
            cancel.check()?;
            let begin = index * PART_ROWS;
            let rows = PART_ROWS.min(selection.len() - begin);
            if room.len() < count + rows {
                room.resize(count + rows, 0);
            }
            let first = first_position + begin as u32;
            count += self.write_positions(words, rows, first, &mut room[count..], probe);
        }
        Ok(&room[..count])
    }
}
