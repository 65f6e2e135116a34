//! The filtering scan as a core meets it (weisgut-2025, sections 5.2 and 5.3).

use std::cell::Cell;

use super::threads::VirtualProbe;
use crate::{CACHE_LINE_BYTES, Probe};

const VALUE_BYTES: usize = size_of::<u32>();
const LINE_BYTES: usize = CACHE_LINE_BYTES as usize;
const LINE_VALUES: usize = LINE_BYTES / VALUE_BYTES;

/// Core time of comparing one vector: about ten instructions of a loop at four per cycle and
/// 2.9 GHz.
const COMPARE_PS: u32 = 900;
/// Core time of writing the positions of one vector: compress, store, count and advance, about six
/// cycles.
const POSITIONS_PS: u32 = 2_000;

/// Takes what a filtering scan reports of a block of values to a virtual core: at the addresses of a
/// column and positions that only the model has, and in the order in which a core meets them, vector
/// by vector, with the time that the core takes for each.
///
/// The scan looks for values below a bound, reports a block as one stream and its positions as
/// writes through the caches; one that reports anything else panics.
#[derive(Debug)]
pub struct FilterProbe<'a> {
    probe: &'a VirtualProbe,
    bound: u32,
    /// Matches are so rare that each is a branch mispredict; where they are the rule, none is.
    is_rare: bool,
    block: &'a [u32],
    column: usize,
    positions: usize,
    /// Bytes of positions that were written of this block.
    written_bytes: Cell<usize>,
    /// The last vector had matches where matches are rare.
    is_mispredicted: Cell<bool>,
}

impl<'a> FilterProbe<'a> {
    /// A scan of values of which about `match_share` are below `bound`, from the modelled addresses
    /// of a column on and to those of its positions.
    pub fn new(
        probe: &'a VirtualProbe,
        bound: u32,
        match_share: f64,
        (column, positions): (usize, usize),
    ) -> Self {
        Self {
            probe,
            bound,
            is_rare: match_share * (LINE_VALUES as f64) < 1.0,
            block: &[],
            column,
            positions,
            written_bytes: Cell::new(0),
            is_mispredicted: Cell::new(false),
        }
    }

    /// The modelled address of the next block.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The next block is to be scanned: whole vectors of 16 values.
    pub fn begin_block(&mut self, values: &'a [u32]) {
        self.block = values;
        self.written_bytes.set(0);
    }

    /// The block was scanned.
    pub fn end_block(&mut self) {
        self.column += size_of_val(self.block);
        self.positions += self.written_bytes.get();
    }

    /// A load per vector, and a store of its positions.
    fn vectors(&self, positions_bytes: usize) {
        let mut positions = self.positions;
        for (index, vector) in self.block.chunks_exact(LINE_VALUES).enumerate() {
            let matches = vector.iter().filter(|value| **value < self.bound).count();
            self.probe.compute_ps(COMPARE_PS);
            if self.is_mispredicted.replace(self.is_rare && matches > 0) {
                self.probe.branch_mispredict();
            }
            if matches > 0 {
                self.probe.compute_ps(POSITIONS_PS);
            }
            self.probe
                .read(self.column + index * LINE_BYTES, LINE_BYTES);
            if matches > 0 {
                let bytes = matches * VALUE_BYTES;
                self.probe.write(positions, bytes);
                positions += bytes;
            }
        }
        let written_bytes = positions - self.positions;
        assert_eq!(written_bytes, positions_bytes, "what the kernel wrote");
        self.written_bytes.set(written_bytes);
    }
}

impl Probe for FilterProbe<'_> {
    fn read(&self, _addr: usize, _bytes: usize) {
        unreachable!("a scan streams");
    }

    fn write(&self, _addr: usize, bytes: usize) {
        self.vectors(bytes);
    }

    fn write_non_temporal(&self, _addr: usize, _bytes: usize) {
        unreachable!("the stores of this scan are cached");
    }

    fn stream(&self, addr: usize, bytes: usize) {
        let block = (self.block.as_ptr().addr(), size_of_val(self.block));
        assert_eq!((addr, bytes), block, "what the kernel read");
    }

    fn prefetch(&self, _addr: usize, _bytes: usize) {
        unreachable!("the scan does not prefetch");
    }

    fn depends(&self) {
        unreachable!("no access of a scan depends on another");
    }

    fn wrong_path_load(&self, _addr: usize, _bytes: usize) {
        unreachable!("the model knows where branches are mispredicted");
    }

    fn branch_mispredict(&self) {
        unreachable!("the model knows where branches are mispredicted");
    }

    fn critical_section(&self, _addr: usize, _lines: usize) {
        unreachable!("the scan takes no lock");
    }

    fn lock(&self, _addr: usize) {
        unreachable!("the scan takes no lock");
    }

    fn unlock(&self, _addr: usize, _changed: bool) {
        unreachable!("the scan takes no lock");
    }

    fn validate(&self, _addr: usize) {
        unreachable!("the scan takes no lock");
    }
}
