//! Rounds in which two have their turns.

use std::time::Instant;

/// Seconds of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    pub ours_s: f64,
    pub theirs_s: f64,
}

impl Round {
    /// Above 1, ours is faster.
    pub(super) fn ratio(&self) -> f64 {
        self.theirs_s / self.ours_s
    }
}

/// What some work gives, and its seconds.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed().as_secs_f64())
}
