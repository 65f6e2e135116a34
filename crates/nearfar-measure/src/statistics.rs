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
}
