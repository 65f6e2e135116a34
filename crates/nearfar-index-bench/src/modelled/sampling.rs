//! How windows are chosen that are simulated, and how sure their mean is.

use std::time::Duration;

use crate::placed::{PlacedError, PlacedOptions};

/// How a run is sampled (as in Wunderlich et al., SMARTS, ISCA 2003): operations are followed, so that trees and
/// placement are in the state that they would be in, then they pass the caches without time, and then
/// a short window of them is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Half of the confidence interval of the throughput, over the throughput, at which no more windows are
    /// simulated.
    pub error_share_max: f64,
    /// Simulated time of a window.
    pub window: Duration,
    /// Simulated before each window, for queues and buffers to fill.
    pub lead_in: Duration,
    /// Windows of a slice of the measured time.
    pub windows_per_slice: u32,
    /// The most operations that are followed per slice. Where cores would answer more, each stands for several.
    pub followed_per_slice_max: u64,
}

impl Default for Sampling {
    /// Windows that three to five thousand operations begin in, and one percent of error.
    fn default() -> Self {
        let microseconds = Duration::from_micros;
        Self {
            error_share_max: 0.01,
            window: microseconds(40),
            lead_in: microseconds(10),
            windows_per_slice: 4,
            followed_per_slice_max: 750_000,
        }
    }
}

/// The fewest slices of a measured time.
pub(super) const SLICES_MIN: u32 = 10;
/// Times the asked measured time that a run goes on for, where its error does not get small.
pub(super) const SLICES_FACTOR_MAX: u32 = 4;

impl Sampling {
    /// Refuses what cannot be sampled.
    pub(super) fn check(&self, options: &PlacedOptions) -> Result<(), PlacedError> {
        let wrong = |field, reason: String| Err(PlacedError::Options { field, reason });
        if options.policy.moves_pages() {
            let policy = options.policy;
            return wrong("policy", format!("{policy}: {PAGES_REFUSED}"));
        }
        if options.shift.is_some() {
            return wrong("shift", SHIFT_REFUSED.to_owned());
        }
        if !(self.error_share_max > 0.0 && self.error_share_max < 1.0) {
            let percent = self.error_share_max * 100.0;
            return wrong(
                "error",
                format!("{percent} %: give more than 0 and less than 100"),
            );
        }
        if let Some(reason) = too_short(options.measured, options.slice) {
            return wrong("measured", reason);
        }
        if self.window.is_zero() || self.simulated_per_slice() > options.slice {
            let slice_ms = options.slice.as_secs_f64() * 1e3;
            let reason =
                format!("they have to be more than nothing and fit a slice of {slice_ms} ms");
            return wrong("windows", reason);
        }
        Ok(())
    }

    /// Simulated time of a slice of the measured time.
    fn simulated_per_slice(&self) -> Duration {
        (self.window + self.lead_in) * self.windows_per_slice.max(1)
    }
}

/// Why so much measured time is too little, if it is.
pub(crate) fn too_short(measured: Duration, slice: Duration) -> Option<String> {
    let least = SLICES_MIN * slice;
    let least_ms = least.as_secs_f64() * 1e3;
    (measured < least)
        .then(|| format!("windows lie in {SLICES_MIN} slices or more: give at least {least_ms} ms"))
}

/// Why policies of pages are not sampled.
pub(crate) const PAGES_REFUSED: &str = "policies of pages need every access, and most are followed without: leave it out, \
     or give another scale";
/// Why no hot region moves while a run is sampled.
pub(crate) const SHIFT_REFUSED: &str = "throughput is a mean over the measured time, in which nothing is to change: leave it \
     out, or give another scale";

/// Throughput slice by slice.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed(Vec<f64>);

impl Observed {
    pub(super) fn add(&mut self, rate: f64) {
        self.0.push(rate);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Half of the 95 % confidence interval of the mean, over the mean; infinite for fewer than two.
    pub(super) fn error_share(&self) -> f64 {
        let (count, mean) = (self.0.len() as f64, self.mean());
        if count < 2.0 {
            return f64::INFINITY;
        }
        let squares = self.0.iter().map(|rate| (rate - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        student_95(count - 1.0) * deviation / count.sqrt() / mean
    }
}

/// The factor of a two-sided 95 % interval by Student's distribution with so many degrees of freedom, from 3 on
/// within 1 %: Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
fn student_95(freedom: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn students_factors_are_those_of_tables() {
        for (freedom, factor) in [(4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (120.0, 1.980)] {
            let found = student_95(freedom);
            assert!((found / factor - 1.0).abs() < 0.01, "{freedom}: {found}");
        }
    }

    /// Of many series of slices, about 95 of a hundred have the true mean in their interval.
    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        let mut random = Random::new(3);
        let held = (0..2000).filter(|_| {
            let mut observed = Observed::default();
            for _ in 0..10 {
                let noise: f64 = (0..12).map(|_| random.share()).sum::<f64>() - 6.0;
                observed.add(100.0 + 5.0 * noise);
            }
            let half = observed.error_share() * observed.mean();
            (observed.mean() - 100.0).abs() < half
        });
        let share = held.count() as f64 / 2000.0;
        assert!((share - 0.95).abs() < 0.02, "{share}");
    }

    #[test]
    fn one_slice_tells_nothing_of_how_sure_it_is() {
        let mut observed = Observed::default();
        observed.add(5.0);
        assert!(observed.error_share().is_infinite());
        observed.add(5.0);
        assert!(observed.error_share().abs() < 1e-12);
    }
}
