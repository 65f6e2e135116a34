//! Sums and filters beside a plain read of the same column.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use nearfar_kernels::{
    Aggregate, Matches, NotWords, Scan, Selection, Summary, signed_words, words, words_mut,
};
use nearfar_memory::{
    MemorySystem, PageSize, Placement, Region, RegionError, RegionOptions, TierId,
};
use nearfar_model::{Native, Probe};

use crate::probe::AccessKernel;

/// Rows that are filtered into one selection, as in SQL's scans.
const RUN_ROWS: usize = 8192;
/// The filter passes one value in so many.
const ONE_IN: u32 = 1000;
/// The largest value that passes it; values have 31 bits.
pub const READ_FILTER_HIGH: u32 = (1 << 31) / ONE_IN;

/// Why there is no column to read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadColumnError {
    /// It gets no memory.
    #[error("no memory for the column")]
    Region(#[from] RegionError),
    /// Its bytes are no column.
    #[error(transparent)]
    Words(#[from] NotWords),
}

/// Seconds of a round: a plain read, a sum, a summary and a filter of the same bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadRound {
    /// [`AccessKernel::read`].
    pub read_s: f64,
    /// [`Aggregate::sum`].
    pub sum_s: f64,
    /// [`Aggregate::summary`]: number, sum, smallest and largest in one pass.
    pub summary_s: f64,
    /// [`Scan::within`] into bitmaps of 8192 rows, which passes 0.1 %, and their count.
    pub filter_s: f64,
}

/// A column of random integers in near memory, on huge pages where the machine gives some.
#[derive(Debug)]
pub struct ReadColumn {
    region: Arc<Region>,
}

/// What all contestants must find in the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFound {
    /// Number, sum, smallest and largest.
    pub summary: Summary<i32>,
    /// Values that pass the filter.
    pub passed: usize,
}

impl ReadColumn {
    /// Makes a column of this many bytes.
    ///
    /// # Errors
    /// [`ReadColumnError`].
    pub fn new(system: &Arc<MemorySystem>, bytes: usize) -> Result<Self, ReadColumnError> {
        let options = RegionOptions {
            page_size: PageSize::Huge,
            ..RegionOptions::default()
        };
        let near = Placement::Bind(TierId::NEAR);
        let mut region = Region::allocate(system, bytes, &near, options)?;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for word in words_mut(region.as_mut_slice())? {
            // Marsaglia's xorshift (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = (state >> 33) as u32;
        }
        let region = Arc::new(region);
        Ok(Self { region })
    }

    /// Its memory, for others that read the same column.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// What our operators find.
    ///
    /// # Errors
    /// [`ReadColumnError::Words`].
    pub fn found(&self) -> Result<ReadFound, ReadColumnError> {
        let bytes = self.region.as_slice();
        Ok(ReadFound {
            summary: Aggregate::new().summary(signed_words(bytes)?, &Native),
            passed: count_within(words(bytes)?, 0..=READ_FILTER_HIGH, &Native),
        })
    }

    /// One read, sum, summary and filter.
    ///
    /// # Errors
    /// [`ReadColumnError::Words`].
    pub fn round(&self) -> Result<ReadRound, ReadColumnError> {
        let bytes = self.region.as_slice();
        let (unsigned, signed) = (words(bytes)?, signed_words(bytes)?);
        Ok(ReadRound {
            read_s: seconds(|| AccessKernel::widest().read(bytes)),
            sum_s: seconds(|| Aggregate::new().sum(signed, &Native)),
            summary_s: seconds(|| Aggregate::new().summary(signed, &Native)),
            filter_s: seconds(|| count_within(unsigned, 0..=READ_FILTER_HIGH, &Native)),
        })
    }
}

/// Number of values within a range, by bitmaps of runs.
pub(super) fn count_within(
    column: &[u32],
    range: RangeInclusive<u32>,
    probe: &impl Probe,
) -> usize {
    let (scan, mut selection) = (Scan::new(), Selection::default());
    let mut count = 0;
    for run in column.chunks(RUN_ROWS) {
        selection.reset_to_all(run.len());
        scan.within(run, range.clone(), Matches::Keep, &mut selection, probe);
        count += scan.count(&selection, &Native);
    }
    count
}

fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let began = Instant::now();
    black_box(work());
    began.elapsed().as_secs_f64()
}
