//! Which rows of a run pass: filters on codes, nulls and deleted rows, one after the other.

use arrow::buffer::NullBuffer;
use nearfar_kernels::{Isa, Matches, Scan, Selection};
use nearfar_model::{Native, Probe};
use std::ops::Range;

use super::codes::{Code, CodeRange, Codes, with_codes};
use super::ranges::Ranges;

/// A selection of rows, the kernels that narrow it, and memory that is used for one run after another.
#[derive(Debug, Default)]
pub struct Selector {
    scan: Scan,
    selection: Selection,
    /// Rows that were found, before they are put together with the selection.
    found: Selection,
    positions: Vec<u32>,
}

impl Selector {
    /// More ranges than this many are looked for no faster on this machine than verdicts are looked up in a
    /// table, code by code.
    pub fn ranges_max() -> usize {
        match Isa::widest() {
            Isa::Portable => 2,
            Isa::Avx2 | Isa::Avx512 => 8,
        }
    }

    /// Selects all of `rows` rows.
    pub fn begin(&mut self, rows: usize) {
        self.selection.reset_to_all(rows);
    }

    /// Deselects the rows whose code is not in `ranges`. `codes` are those of `rows`, as many as were
    /// begun with, and lie within `bounds`.
    ///
    /// `probe` is told that the codes are streamed, once for each range that is looked for.
    pub fn keep_ranges<P: Probe>(
        &mut self,
        codes: &Codes,
        rows: Range<usize>,
        bounds: CodeRange,
        ranges: &Ranges,
        probe: &P,
    ) {
        with_codes!(codes, codes => self.keep_in(&codes[rows], bounds, ranges, probe));
    }

    fn keep_in<C: Code, P: Probe>(
        &mut self,
        codes: &[C],
        bounds: CodeRange,
        ranges: &Ranges,
        probe: &P,
    ) {
        let scan = self.scan;
        // Bounds are those of codes, so that their ends fit.
        let ends = |range: CodeRange| C::truncate(range.low)..=C::truncate(range.high);
        let selection = &mut self.selection;
        let mut met = ranges.within(bounds);
        if let (Some(one), None) = (met.next(), met.next()) {
            return scan.within(codes, ends(one), Matches::Keep, selection, probe);
        }
        let gaps = ranges.complement();
        if gaps.within(bounds).count() <= ranges.within(bounds).count() {
            for gap in gaps.within(bounds) {
                scan.within(codes, ends(gap), Matches::Remove, selection, probe);
            }
            return;
        }
        let found = &mut self.found;
        found.reset_to_none(codes.len());
        for range in ranges.within(bounds) {
            scan.within(codes, ends(range), Matches::Add, found, probe);
        }
        selection.keep(found.words().iter().copied());
    }

    /// Deselects the rows that are null; the first row is `nulls`' row `start`.
    pub fn keep_valid(&mut self, nulls: &NullBuffer, start: usize) {
        let valid = nulls.inner().slice(start, self.selection.len());
        self.selection.keep(valid.bit_chunks().iter_padded());
    }

    /// Deselects the rows whose verdict, one for each in order, is 0; all others are 1.
    pub fn keep_where(&mut self, verdicts: impl IntoIterator<Item = u8>) {
        self.selection.keep_where(verdicts);
    }

    /// Deselects the rows whose bit is set.
    pub fn remove(&mut self, words: impl IntoIterator<Item = u64>) {
        self.selection.remove(words);
    }

    /// Number of rows that are selected.
    pub fn count(&self) -> usize {
        self.scan.count(&self.selection, &Native)
    }

    /// The selected rows, ascending, where the first row is row `start`.
    pub fn positions(&mut self, start: usize) -> &[u32] {
        let Self {
            scan,
            selection,
            positions,
            ..
        } = self;
        scan.positions(selection, start as u32, positions, &Native)
    }
}

impl From<Scan> for Selector {
    /// One with the instructions of `scan`.
    fn from(scan: Scan) -> Self {
        Self {
            scan,
            ..Self::default()
        }
    }
}
