//! Who takes part, and one pass of each.

use std::fmt;
use std::hint::black_box;

use arrow::array::{Array, UInt32Array};
use arrow::compute::filter;
use arrow::compute::kernels::cmp::lt;
use nearfar_kernels::Scan;
use nearfar_measure::probe::AccessKernel;
use nearfar_model::Native;

use super::error::ScanBenchError;

/// Values of columns are below this, uniformly.
pub(super) const VALUES_END: u32 = 1 << 31;

/// What Arrow's kernels leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArrowResult {
    /// An array of positions, wherever Arrow has it: if all match, that is the array of all
    /// positions, which was there before.
    Array,
    /// The positions, copied from that array to where the scan writes them.
    Written,
}

/// One side of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contestant {
    /// Reads the column with the widest vectors and does nothing else.
    Read,
    /// Copies the column to the positions, by the platform's `memcpy`.
    Copy,
    /// The scan.
    Scan {
        /// Matches per thousand values.
        matches_per_mille: u32,
    },
    /// Arrow's comparison with a scalar, then its filter over an array of all positions.
    Arrow {
        /// Matches per thousand values.
        matches_per_mille: u32,
        /// What it leaves.
        result: ArrowResult,
    },
}

impl Contestant {
    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Copy => "copy",
            Self::Scan { .. } => "scan",
            Self::Arrow {
                result: ArrowResult::Array,
                ..
            } => "arrow",
            Self::Arrow {
                result: ArrowResult::Written,
                ..
            } => "arrow-written",
        }
    }

    /// Matches per thousand values, of those that filter.
    pub const fn matches_per_mille(self) -> Option<u32> {
        match self {
            Self::Read | Self::Copy => None,
            Self::Scan { matches_per_mille }
            | Self::Arrow {
                matches_per_mille, ..
            } => Some(matches_per_mille),
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        match self.matches_per_mille() {
            Some(matches) => write!(formatter, " at {} %", f64::from(matches) / 10.0),
            None => Ok(()),
        }
    }
}

/// The value below which so many of a thousand values are.
fn bound(matches_per_mille: u32) -> u32 {
    (u64::from(VALUES_END) * u64::from(matches_per_mille) / 1000) as u32
}

/// What one thread works on.
pub(super) struct Lane<'a> {
    pub column: &'a [u32],
    pub column_bytes: &'a [u8],
    /// The same memory.
    pub arrow_column: UInt32Array,
    /// All positions of a column.
    pub arrow_positions: &'a UInt32Array,
    pub positions: &'a mut [u32],
}

impl Lane<'_> {
    /// One pass over the column; returns the number of matches.
    pub(super) fn pass(
        &mut self,
        contestant: Contestant,
        scan: &Scan,
    ) -> Result<usize, ScanBenchError> {
        match contestant {
            Contestant::Read => {
                black_box(AccessKernel::widest().read(self.column_bytes));
                Ok(0)
            }
            Contestant::Copy => {
                self.positions.copy_from_slice(self.column);
                black_box(&mut *self.positions);
                Ok(self.column.len())
            }
            Contestant::Scan { matches_per_mille } => {
                let bound = bound(matches_per_mille);
                let positions = &mut *self.positions;
                Ok(scan.less_than(self.column, bound, 0, positions, &Native)?)
            }
            Contestant::Arrow {
                matches_per_mille,
                result,
            } => {
                let scalar = UInt32Array::new_scalar(bound(matches_per_mille));
                let matching = lt(&self.arrow_column, &scalar)?;
                let found = filter(self.arrow_positions, &matching)?;
                if result == ArrowResult::Written
                    && let Some(found) = found.as_any().downcast_ref::<UInt32Array>()
                {
                    self.positions[..found.len()].copy_from_slice(found.values());
                }
                Ok(black_box(found).len())
            }
        }
    }
}
