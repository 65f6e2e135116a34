//! Repeated measurements, summed up.

use serde::{Deserialize, Serialize};

/// Median and spread of repeated runs, all in the unit of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The middle run, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest run.
    pub min: f64,
    /// The largest run.
    pub max: f64,
    /// Number of runs.
    pub runs: u32,
}

impl Summary {
    /// Sums up `values`; `None` if there are none.
    ///
    /// ```
    /// use nearfar_measure::Summary;
    /// let summary = Summary::of([3.0, 1.0, 9.0]).unwrap();
    /// assert_eq!((summary.median, summary.min, summary.max, summary.runs), (3.0, 1.0, 9.0, 3));
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let upper = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[upper]
        } else {
            values[upper - 1].midpoint(values[upper])
        };
        Some(Self {
            median,
            min,
            max,
            runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
        })
    }

    /// Sums up at least one run.
    pub fn of_runs(first: f64, rest: impl IntoIterator<Item = f64>) -> Self {
        let single = Self {
            median: first,
            min: first,
            max: first,
            runs: 1,
        };
        Self::of(std::iter::once(first).chain(rest)).unwrap_or(single)
    }

    /// Largest less smallest run, as a share of the median: 0.1 is a spread of 10 %.
    pub fn spread(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

/// Student's t for 95 % two-sided confidence, by degrees of freedom from 1 on.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The interval in which the mean of such values lies with 95 % confidence, if they are normally
/// distributed and independent; `None` for fewer than two values.
pub(crate) fn confidence_95(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let t = T_95.get(freedom - 1).copied().unwrap_or(1.96);
    let half = t * (squares / freedom as f64 / count).sqrt();
    Some((mean - half, mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([5.0]).unwrap().median, 5.0);
        let even = Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            (even.median, even.min, even.max, even.runs),
            (2.5, 1.0, 4.0, 4)
        );
        assert_eq!(even.spread(), 1.2);
    }

    #[test]
    fn confidence_follows_student() {
        assert_eq!(confidence_95(&[1.0]), None);
        let (low, high) = confidence_95(&[9.0, 10.0, 11.0]).unwrap();
        // A standard deviation of 1 over the root of 3, times t of two degrees of freedom.
        let half = 4.303 / 3.0_f64.sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-9 && (high - (10.0 + half)).abs() < 1e-9);
        assert_eq!(confidence_95(&[5.0; 50]), Some((5.0, 5.0)));
    }
}
