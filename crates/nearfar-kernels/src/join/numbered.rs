//! Rows by the distance of their keys from the lowest one, where keys are close together.

use std::ops::RangeInclusive;

use nearfar_model::Probe;

use crate::line::Line;
use crate::line_table::NO_ROW;
use crate::memory::{NoMemory, reserve};

/// Numbers between the lowest and the highest key that always have a place each: 256 KiB.
const PLACES_ALWAYS: u64 = 64 << 10;

/// For each number from the lowest key on the first row that has it, or [`NO_ROW`]. The last place stands for all other
/// numbers.
#[derive(Debug, Clone)]
pub(super) struct NumberedRows {
    low: u64,
    rows: Vec<u32>,
}

impl NumberedRows {
    /// Places for so many numbers, where these take no more memory than lines for so many rows would, or hardly any.
    pub(super) fn places_for(rows: usize, keys: &RangeInclusive<i64>) -> Option<usize> {
        let numbers = keys.end().checked_sub(*keys.start())?;
        let numbers = u64::try_from(numbers).ok()?.checked_add(1)?;
        let in_lines = Line::count_for(rows) * size_of::<Line>() / size_of::<u32>();
        let is_small = numbers <= PLACES_ALWAYS.max(in_lines as u64);
        is_small.then(|| numbers as usize + 1)
    }

    /// No rows, in places that [were counted](Self::places_for).
    pub(super) fn empty(low: i64, places: usize) -> Result<Self, NoMemory> {
        let mut rows = Vec::new();
        reserve(&mut rows, places)?;
        rows.resize(places, NO_ROW);
        Ok(Self {
            low: low as u64,
            rows,
        })
    }

    /// Bytes of the places.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
    }

    /// The first row of a key, or [`NO_ROW`]. Nothing is decided by a branch.
    #[inline(always)]
    pub(super) fn find<P: Probe>(&self, key: u64, probe: &P) -> u32 {
        let place = self.place(key);
        tell!(probe.read(self.rows.as_ptr().addr() + place * 4, 4));
        let _ = probe;
        self.rows[place]
    }

    /// The first row of a key, or [`NO_ROW`], where `row` is the first one then.
    #[inline(always)]
    pub(super) fn find_or_insert<P: Probe>(&mut self, key: u64, row: u32, probe: &P) -> u32 {
        let place = self.place(key);
        assert!(place + 1 < self.rows.len(), "a key that was not announced");
        tell!(probe.read(self.rows.as_ptr().addr() + place * 4, 4));
        let first = self.rows[place];
        if first == NO_ROW {
            tell!(probe.write(self.rows.as_ptr().addr() + place * 4, 4));
            self.rows[place] = row;
        }
        let _ = probe;
        first
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        // A number below the lowest one is far above the highest.
        key.wrapping_sub(self.low).min(self.rows.len() as u64 - 1) as usize
    }
}
