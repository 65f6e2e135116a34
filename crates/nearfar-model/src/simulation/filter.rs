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

/// How a filtering scan writes positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionStores {
    /// Through the caches, vector by vector, as it finds them.
    Cached,
    /// Past the caches: whole lines, block by block, of a buffer that stays in L1.
    NonTemporal,
}

/// Takes what a filtering scan reports of a piece of a column to a virtual core: at the addresses of a
/// column and positions that only the model has, and in the order in which a core meets them, vector
/// by vector, with the time that the core takes for each.
///
/// The scan looks for values below a bound, reports each block of the piece as one stream, and behind it its
/// positions as it is said to store them; one that reports anything else panics.
#[derive(Debug)]
pub struct FilterProbe<'a> {
    probe: &'a VirtualProbe,
    bound: u32,
    stores: PositionStores,
    /// Matches are so rare that each is a branch mispredict; where they are the rule, none is.
    is_rare: bool,
    piece: &'a [u32],
    /// The modelled address of the piece, and where the next positions go.
    column: usize,
    positions: Cell<usize>,
    /// Where the block begins in the piece that is read, and where it ends, in values.
    block: Cell<(usize, usize)>,
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
            stores: PositionStores::Cached,
            is_rare: match_share * (LINE_VALUES as f64) < 1.0,
            piece: &[],
            column,
            positions: Cell::new(positions),
            block: Cell::new((0, 0)),
            is_mispredicted: Cell::new(false),
        }
    }

    /// The same of a scan that stores positions like this; by default through the caches.
    #[must_use]
    pub fn with_stores(self, stores: PositionStores) -> Self {
        Self { stores, ..self }
    }

    /// The modelled address of the next piece.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The next piece of the column is to be scanned: whole vectors of 16 values.
    pub fn begin(&mut self, values: &'a [u32]) {
        self.piece = values;
    }

    /// The piece was scanned.
    pub fn end(&mut self) {
        self.column += size_of_val(self.piece);
    }

    /// A load per vector, and through the caches a store of its positions; returns the bytes of all positions of the
    /// block.
    fn vectors(&self) -> usize {
        let (first, end) = self.block.get();
        let column = self.column + first * VALUE_BYTES;
        let mut positions = self.positions.get();
        let before = positions;
        for (index, vector) in self.piece[first..end].chunks_exact(LINE_VALUES).enumerate() {
            let matches = vector.iter().filter(|value| **value < self.bound).count();
            self.probe.compute_ps(COMPARE_PS);
            if self.is_mispredicted.replace(self.is_rare && matches > 0) {
                self.probe.branch_mispredict();
            }
            if matches > 0 {
                self.probe.compute_ps(POSITIONS_PS);
            }
            self.probe.read(column + index * LINE_BYTES, LINE_BYTES);
            if matches > 0 {
                let bytes = matches * VALUE_BYTES;
                if self.stores == PositionStores::Cached {
                    self.probe.write(positions, bytes);
                }
                positions += bytes;
            }
        }
        positions - before
    }

    /// Where so many bytes of positions go.
    fn next_positions(&self, bytes: usize) -> usize {
        self.positions.replace(self.positions.get() + bytes)
    }
}

impl Probe for FilterProbe<'_> {
    fn read(&self, _addr: usize, _bytes: usize) {
        unreachable!("a scan streams");
    }

    fn write(&self, _addr: usize, bytes: usize) {
        match self.stores {
            PositionStores::Cached => {
                assert_eq!(self.vectors(), bytes, "what the kernel wrote");
                self.next_positions(bytes);
            }
            // What does not fill a line.
            PositionStores::NonTemporal => {
                if bytes > 0 {
                    self.probe.write(self.next_positions(bytes), bytes);
                }
            }
        }
    }

    fn write_non_temporal(&self, _addr: usize, bytes: usize) {
        assert_eq!(self.stores, PositionStores::NonTemporal);
        let positions = self.next_positions(bytes);
        assert!(
            positions.is_multiple_of(LINE_BYTES) && bytes.is_multiple_of(LINE_BYTES),
            "positions begin at a line, and so do the kernel's"
        );
        self.probe.write_non_temporal(positions, bytes);
    }

    fn stream(&self, addr: usize, bytes: usize) {
        let first = addr.checked_sub(self.piece.as_ptr().addr());
        let first = first.expect("the kernel reads the piece") / VALUE_BYTES;
        self.block.set((first, first + bytes / VALUE_BYTES));
        if self.stores == PositionStores::NonTemporal {
            self.vectors();
        }
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
