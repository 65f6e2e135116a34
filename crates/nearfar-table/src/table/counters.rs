//! How often a column segment is read, and in which pattern (weisgut-2025 §6.1 names the four).

use std::sync::atomic::{AtomicU64, Ordering};

/// The order in which the rows of one access lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// A run of rows, all of them.
    Sequential,
    /// Rows in ascending order, with gaps.
    Monotonic,
    /// Rows in any order.
    Random,
    /// One row.
    Point,
}

/// Values read, by pattern. Updated without ordering: totals are exact, moments are not.
#[derive(Debug, Default)]
pub struct AccessCounters {
    by_pattern: [AtomicU64; 4],
}

/// A reading of [`AccessCounters`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AccessCounts {
    /// Values read one after another.
    pub sequential: u64,
    /// Values read in ascending order, some left out.
    pub monotonic: u64,
    /// Values read in any order.
    pub random: u64,
    /// Values read alone.
    pub point: u64,
}

impl AccessCounts {
    /// Values read in any pattern.
    pub fn total(&self) -> u64 {
        self.sequential + self.monotonic + self.random + self.point
    }
}

impl std::ops::AddAssign for AccessCounts {
    fn add_assign(&mut self, other: Self) {
        self.sequential += other.sequential;
        self.monotonic += other.monotonic;
        self.random += other.random;
        self.point += other.point;
    }
}

impl AccessCounters {
    /// Counts `values` values read in `pattern`.
    pub fn record(&self, pattern: AccessPattern, values: usize) {
        self.by_pattern[pattern as usize].fetch_add(values as u64, Ordering::Relaxed);
    }

    /// Counts what others have counted.
    pub fn add(&self, counts: AccessCounts) {
        let all = [
            (AccessPattern::Sequential, counts.sequential),
            (AccessPattern::Monotonic, counts.monotonic),
            (AccessPattern::Random, counts.random),
            (AccessPattern::Point, counts.point),
        ];
        for (pattern, values) in all.into_iter().filter(|(_, values)| *values > 0) {
            self.record(pattern, values as usize);
        }
    }

    /// What has been counted.
    pub fn read(&self) -> AccessCounts {
        let of = |p: AccessPattern| self.by_pattern[p as usize].load(Ordering::Relaxed);
        AccessCounts {
            sequential: of(AccessPattern::Sequential),
            monotonic: of(AccessPattern::Monotonic),
            random: of(AccessPattern::Random),
            point: of(AccessPattern::Point),
        }
    }

    /// Starts again from nothing.
    pub fn reset(&self) {
        for counter in &self.by_pattern {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
