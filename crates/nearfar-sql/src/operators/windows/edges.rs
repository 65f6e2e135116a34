//! Where partitions and peers begin.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{partition, take};
use datafusion::error::Result;
use std::ops::Range;

/// Rows that have the same values in some columns, one behind the other, in a batch that is not empty.
#[derive(Debug)]
pub struct Runs {
    /// Of all rows.
    pub ranges: Vec<Range<usize>>,
    /// Whether the first of them goes on from the batch before.
    pub goes_on: bool,
}

impl Runs {
    /// The runs of `rows` rows by these columns; `before` are their values in the row before.
    ///
    /// # Errors
    /// Types that cannot be compared.
    pub fn of(columns: &[ArrayRef], rows: usize, before: Option<&[ArrayRef]>) -> Result<Self> {
        let ranges = match columns.is_empty() {
            true => std::iter::once(0..rows).collect(),
            false => partition(columns)?.ranges(),
        };
        let goes_on = match before {
            Some(before) => are_same(before, columns)?,
            None => false,
        };
        Ok(Self { ranges, goes_on })
    }

    /// Where the last of them begins, if that is known: 0 is not where one begins that goes on.
    pub fn last_start(&self) -> Option<usize> {
        let start = self.ranges.last()?.start;
        (start > 0 || !self.goes_on).then_some(start)
    }

    /// Those before row `at`, and those from there on.
    pub fn split(self, at: usize) -> (Self, Self) {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let mut is_cut = false;
        for range in self.ranges {
            if range.start < at {
                before.push(range.start..range.end.min(at));
            }
            if range.end > at {
                is_cut |= range.start < at || range.start == 0 && self.goes_on;
                behind.push(range.start.max(at) - at..range.end - at);
            }
        }
        let before = Self {
            ranges: before,
            goes_on: self.goes_on,
        };
        let behind = Self {
            ranges: behind,
            goes_on: is_cut,
        };
        (before, behind)
    }
}

/// Whether the only row of `before` has the values of the first row of `columns`.
fn are_same(before: &[ArrayRef], columns: &[ArrayRef]) -> Result<bool> {
    for (before, column) in before.iter().zip(columns) {
        if !not_distinct(before, &column.slice(0, 1))?.value(0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One row of each of these columns, for itself.
///
/// # Errors
/// Types of which no row can be taken.
pub fn row(columns: &[ArrayRef], at: usize) -> Result<Vec<ArrayRef>> {
    let at = UInt64Array::from(vec![at as u64]);
    let rows = columns.iter().map(|column| take(column, &at, None));
    Ok(rows.collect::<Result<_, _>>()?)
}
