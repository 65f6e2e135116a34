//! The scan by several threads.

use std::panic::resume_unwind;

use nearfar_model::Probe;

use super::{Scan, ScanError, check};

/// What one thread scans: a part of a column, or a column of its own as in weisgut-2025,
/// section 5.2, with a buffer for its positions.
#[derive(Debug)]
pub struct Part<'a> {
    /// Values to compare.
    pub column: &'a [u32],
    /// Position of the first value.
    pub first_position: u32,
    /// Where matching positions go: as long as `column` at least.
    pub positions: &'a mut [u32],
}

impl<'a> Part<'a> {
    /// Divides `column` and `positions` alike into `parts` parts of almost the same length, each a
    /// whole number of lines but the last.
    ///
    /// # Errors
    /// [`ScanError::PositionsTooShort`] where `positions` is shorter than `column`.
    pub fn divide(
        column: &'a [u32],
        positions: &'a mut [u32],
        parts: std::num::NonZeroUsize,
    ) -> Result<Vec<Self>, ScanError> {
        check(column.len(), 0, positions.len())?;
        let length = column.len().div_ceil(parts.get()).next_multiple_of(16);
        let columns = column.chunks(length.max(1));
        let positions = positions.chunks_mut(length.max(1));
        Ok(columns
            .zip(positions)
            .enumerate()
            .map(|(index, (column, positions))| Self {
                column,
                first_position: (index * length) as u32,
                positions,
            })
            .collect())
    }
}

impl Scan {
    /// Scans every part on a thread of its own; returns the number of matches of each. `probe`
    /// makes the probe of the thread with this index.
    ///
    /// # Errors
    /// [`ScanError`] for the first part that it holds for; no part was scanned then.
    pub fn less_than_partitioned<P: Probe>(
        &self,
        parts: &mut [Part<'_>],
        bound: u32,
        probe: impl Fn(usize) -> P + Sync,
    ) -> Result<Vec<usize>, ScanError> {
        for part in &*parts {
            check(part.column.len(), part.first_position, part.positions.len())?;
        }
        let scan_one = |(index, part): (usize, &mut Part<'_>)| {
            let Part {
                column,
                first_position,
                positions,
            } = part;
            self.less_than(column, bound, *first_position, positions, &probe(index))
        };
        std::thread::scope(|scope| {
            let scan_one = &scan_one;
            let workers: Vec<_> = parts
                .iter_mut()
                .enumerate()
                .map(|part| scope.spawn(move || scan_one(part)))
                .collect();
            let outcomes = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            outcomes.collect()
        })
    }
}
