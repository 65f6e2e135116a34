//! Point by point.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::InterferenceError;
use super::matrix::{Matrix, Point};
use super::outcome::PointOutcome;

/// Follows the execution of a matrix.
pub trait InterferenceObserver {
    /// Whether this point was done before, and is to be left out.
    fn is_done(&self, _point: &Point) -> bool {
        false
    }

    /// A point begins; `left` is about the time until all are done.
    fn begins(&mut self, _point: &Point, _index: usize, _left: Duration) {}

    /// A point is done.
    ///
    /// # Errors
    /// Where its outcome cannot be kept, which ends the execution.
    fn done(&mut self, point: &Point, outcome: &PointOutcome) -> io::Result<()>;
}

/// Where points are run.
pub(super) trait Runner {
    /// About how long a point takes.
    fn time(&self, point: &Point) -> Duration;

    /// Runs a point; `None` if it was stopped.
    fn run(
        &mut self,
        point: &Point,
        stop: &AtomicBool,
    ) -> Result<Option<PointOutcome>, InterferenceError>;
}

/// Runs every point that was not done before.
pub(super) fn execute(
    matrix: &Matrix,
    runner: &mut dyn Runner,
    stop: &AtomicBool,
    observer: &mut dyn InterferenceObserver,
) -> Result<(), InterferenceError> {
    let points = matrix.points.len();
    let open: Vec<(usize, &Point)> = matrix
        .points
        .iter()
        .enumerate()
        .filter(|(_, point)| !observer.is_done(point))
        .collect();
    let mut left: Duration = open.iter().map(|(_, point)| runner.time(point)).sum();
    let began = Instant::now();
    let mut estimated = Duration::ZERO;
    for (index, point) in open {
        let stopped = InterferenceError::Stopped {
            done: index,
            points,
        };
        if stop.load(Ordering::Relaxed) {
            return Err(stopped);
        }
        // What was done tells how far the estimate is from the truth.
        let pace = match estimated.is_zero() {
            true => 1.0,
            false => began.elapsed().div_duration_f64(estimated),
        };
        observer.begins(point, index, left.mul_f64(pace.clamp(0.01, 100.0)));
        let Some(outcome) = runner.run(point, stop)? else {
            return Err(stopped);
        };
        observer
            .done(point, &outcome)
            .map_err(InterferenceError::Keep)?;
        let time = runner.time(point);
        estimated += time;
        left = left.saturating_sub(time);
    }
    Ok(())
}
