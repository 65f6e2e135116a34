//! Rounds over a column of this machine's near memory, beside Arrow's kernels on the same bytes.

use std::hint::black_box;

use arrow::array::{Int32Array, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::kernels::cmp::lt_eq;
use arrow::compute::{max, min, sum};
use arrow::error::ArrowError;
use nearfar_measure::operators::native::{READ_FILTER_HIGH, ReadColumn, ReadRound};
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;

use super::error::OperatorsBenchError;
use super::round::timed;

/// A round of our operators, and of Arrow's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadsOfRound {
    pub own: ReadRound,
    pub arrow: ArrowRound,
}

/// Seconds of Arrow's kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ArrowRound {
    /// `sum`.
    pub sum_s: f64,
    /// `sum`, `min` and `max`, which are one pass each.
    pub summary_s: f64,
    /// `lt_eq` into a bitmap, and its count.
    pub filter_s: f64,
}

/// The column as Arrow's arrays.
struct ArrowColumn {
    signed: Int32Array,
    unsigned: UInt32Array,
}

impl ArrowColumn {
    fn new(column: &ReadColumn) -> Self {
        let region = column.region();
        let values = region.len() / size_of::<u32>();
        let buffer = || region.buffer(0..region.len());
        Self {
            signed: Int32Array::new(ScalarBuffer::new(buffer(), 0, values), None),
            unsigned: UInt32Array::new(ScalarBuffer::new(buffer(), 0, values), None),
        }
    }

    fn summary(&self) -> (Option<i32>, Option<i32>, Option<i32>) {
        (sum(&self.signed), min(&self.signed), max(&self.signed))
    }

    fn passed(&self) -> Result<usize, ArrowError> {
        let high = UInt32Array::new_scalar(READ_FILTER_HIGH);
        Ok(lt_eq(&self.unsigned, &high)?.true_count())
    }

    /// Refuses a column of which both find another thing.
    fn check(&self, column: &ReadColumn) -> Result<(), OperatorsBenchError> {
        let found = column.found()?;
        let ours = found.summary;
        // Arrow's sum has as many bits as the values.
        let summary = (Some(ours.sum as i32), ours.min, ours.max);
        match (self.summary() == summary, self.passed()? == found.passed) {
            (true, true) => Ok(()),
            (false, _) => Err(OperatorsBenchError::Differs { what: "sum" }),
            (true, false) => Err(OperatorsBenchError::Differs { what: "filter" }),
        }
    }

    fn round(&self) -> Result<ArrowRound, OperatorsBenchError> {
        let (_, sum_s) = timed(|| black_box(sum(&self.signed)));
        let (_, summary_s) = timed(|| black_box(self.summary()));
        let (passed, filter_s) = timed(|| black_box(self.passed()));
        passed?;
        Ok(ArrowRound {
            sum_s,
            summary_s,
            filter_s,
        })
    }
}

/// Runs the rounds over a column of this many bytes.
pub(super) fn rounds(
    column_bytes: usize,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<ReadsOfRound>, OperatorsBenchError> {
    let topology = Topology::this_machine().map_err(|error| OperatorsBenchError::Options {
        field: "machine",
        reason: error.to_string(),
    })?;
    let system = MemorySystem::new(&topology, &Budgets::new())?;
    let column = ReadColumn::new(&system, column_bytes)?;
    let arrow = ArrowColumn::new(&column);
    arrow.check(&column)?;
    let mut taken = Vec::new();
    for round in 0..rounds {
        progress(round);
        taken.push(ReadsOfRound {
            own: column.round()?,
            arrow: arrow.round()?,
        });
    }
    Ok(taken)
}
