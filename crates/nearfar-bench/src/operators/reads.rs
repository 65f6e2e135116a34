//! Sums and filters beside a plain read of the same column.

use std::hint::black_box;
use std::time::Instant;

use nearfar_kernels::{Aggregate, Matches, Scan, Selection, words_mut};
use nearfar_measure::probe::AccessKernel;
use nearfar_memory::{Budgets, MemorySystem, PageSize, Placement, Region, RegionOptions, TierId};
use nearfar_model::Native;
use nearfar_topology::Topology;

use super::error::OperatorsBenchError;

/// Rows that are filtered into one selection, as in SQL's scans.
const RUN_ROWS: usize = 8192;
/// The filter passes one value in so many.
const ONE_IN: u32 = 1000;

/// Seconds of a round: a plain read, a sum and a filter of the same column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadRound {
    pub read_s: f64,
    pub sum_s: f64,
    pub filter_s: f64,
}

/// Runs the rounds over a column of this many bytes.
pub(super) fn rounds(
    column_bytes: usize,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<ReadRound>, OperatorsBenchError> {
    let topology = Topology::this_machine().map_err(|error| OperatorsBenchError::Options {
        field: "machine",
        reason: error.to_string(),
    })?;
    let system = MemorySystem::new(&topology, &Budgets::new())?;
    let options = RegionOptions {
        page_size: PageSize::Huge,
        ..RegionOptions::default()
    };
    let near = Placement::Bind(TierId::NEAR);
    let mut region = Region::allocate(&system, column_bytes, &near, options)?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for word in words_mut(region.as_mut_slice())? {
        // Marsaglia's xorshift (2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = (state >> 33) as u32;
    }
    let words = nearfar_kernels::words(region.as_slice())?;
    let column: Vec<i32> = words.iter().map(|word| word.cast_signed()).collect();
    let mut taken = Vec::new();
    for round in 0..rounds {
        progress(round);
        taken.push(ReadRound {
            read_s: seconds(|| black_box(AccessKernel::widest().read(region.as_slice()))),
            sum_s: seconds(|| black_box(Aggregate::new().sum(&column, &Native))),
            filter_s: seconds(|| black_box(filter(words))),
        });
    }
    Ok(taken)
}

/// Number of values below a thousandth of their range, by bitmaps of runs.
fn filter(column: &[u32]) -> usize {
    let (scan, mut selection) = (Scan::new(), Selection::default());
    let high = (1_u32 << 31) / ONE_IN;
    let mut count = 0;
    for run in column.chunks(RUN_ROWS) {
        selection.reset_to_all(run.len());
        scan.within(run, 0..=high, Matches::Keep, &mut selection, &Native);
        count += scan.count(&selection, &Native);
    }
    count
}

pub(super) fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}
