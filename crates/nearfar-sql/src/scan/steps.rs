//! How much is done before others get the thread.

use arrow::array::{Array, StringViewArray};
use std::time::{Duration, Instant};

use nearfar_table::segment::{ColumnSegment, Encoding, ZONE_ROWS};

/// How long a query runs before it gives others its thread.
pub const STEP: Duration = Duration::from_millis(4);

/// Texts of so many bytes are looked at in one step, however fast those before were.
pub const STEP_BYTES: usize = 1 << 20;

/// A step has at most so many times as many rows as the one before.
const GROWTH: usize = 8;

/// Rows for the next step after one of `rows` rows took `time`.
pub fn fitted_rows(rows: usize, time: Duration) -> usize {
    let fitting = rows as f64 * STEP.as_secs_f64() / time.as_secs_f64().max(1e-9);
    (fitting as usize).clamp(1, rows.max(1).saturating_mul(GROWTH))
}

/// Rows of `row_bytes` bytes for one step.
pub fn rows_by_bytes(row_bytes: usize) -> usize {
    1 + STEP_BYTES / row_bytes.max(1)
}

/// The steps of a scan.
#[derive(Debug)]
pub struct Steps {
    /// Rows of the next one, where that is found by measuring.
    rows: Option<usize>,
    worked: Duration,
}

impl Steps {
    /// Whole zones, or where a filter `is_costly`, as many rows as take no longer than they should.
    pub fn new(is_costly: bool) -> Self {
        Self {
            rows: is_costly.then_some(1),
            worked: Duration::ZERO,
        }
    }

    /// Rows of the next step, in a segment where that is `rows_max` at most.
    pub fn rows(&self, rows_max: usize) -> usize {
        self.rows.unwrap_or(ZONE_ROWS).min(rows_max)
    }

    /// Work that began at `began` is done, and belongs to the step before.
    pub fn worked(&mut self, began: Instant) -> Duration {
        let time = began.elapsed();
        self.worked += time;
        time
    }

    /// A step of `rows` rows began at `began` and is done.
    pub fn done(&mut self, rows: usize, began: Instant) {
        let time = self.worked(began);
        if self.rows.is_some() && rows > 0 {
            self.rows = Some(fitted_rows(rows, time).min(ZONE_ROWS));
        }
    }

    /// Whether others come first now. They have, when this is asked again.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.worked >= STEP;
        if is_over {
            self.worked = Duration::ZERO;
        }
        is_over
    }
}

/// Bytes of a text of `segment`, on average; nothing for numbers.
pub fn text_bytes(segment: &ColumnSegment, rows: usize) -> usize {
    match segment.encoding() {
        Encoding::Narrow { .. } => 0,
        Encoding::Dictionary { values, .. } => dictionary_bytes(values) / values.len().max(1),
        Encoding::Strings { .. } | Encoding::Plain { .. } => segment.bytes() / rows.max(1),
    }
}

/// Bytes of the texts of a dictionary.
pub fn dictionary_bytes(values: &StringViewArray) -> usize {
    let lengths = values.views().iter().map(|view| *view as u32 as usize);
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_shrink_with_what_they_take() {
        assert_eq!(fitted_rows(1, Duration::from_micros(1)), GROWTH);
        assert_eq!(fitted_rows(64, STEP * 4), 16);
        assert_eq!(fitted_rows(64, STEP), 64);
        assert_eq!(fitted_rows(1, Duration::from_secs(9)), 1);
    }

    #[test]
    fn long_texts_make_short_steps() {
        assert!(rows_by_bytes(0) > ZONE_ROWS);
        assert_eq!(rows_by_bytes(STEP_BYTES / 4), 5);
        assert_eq!(rows_by_bytes(usize::MAX), 1);
    }

    #[test]
    fn others_come_first_after_a_while() {
        let mut steps = Steps::new(true);
        assert_eq!(steps.rows(ZONE_ROWS), 1);
        steps.done(1, Instant::now() - STEP);
        assert!(steps.is_over());
        assert!(!steps.is_over());
        assert_eq!(Steps::new(false).rows(ZONE_ROWS), ZONE_ROWS);
        assert_eq!(Steps::new(false).rows(3), 3);
    }
}
