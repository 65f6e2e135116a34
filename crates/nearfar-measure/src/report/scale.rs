//! Axes: from values to places, and where to put ticks.

/// A linear or logarithmic axis over a range of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    pub ticks: Vec<f64>,
}

impl Scale {
    /// An axis from zero (or the smallest value, where that is negative) to a round number at or
    /// above the largest.
    pub(super) fn linear(values: impl Iterator<Item = f64>, ticks_about: usize) -> Self {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / ticks_about as f64);
        let first = (low / step).floor() as i64;
        let last = (high / step - 1e-9).ceil() as i64;
        let ticks: Vec<f64> = (first..=last).map(|tick| tick as f64 * step).collect();
        Self {
            low: first as f64 * step,
            high: last as f64 * step,
            logarithmic: false,
            ticks,
        }
    }

    /// An axis over the values, with a tick at every power of ten, or of two where that gives
    /// less than three. Falls back to a linear one where a value is not positive.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = values
            .clone()
            .fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        if low <= 0.0 || low > high {
            return Self::linear(values, 6);
        }
        let base = if high / low >= 1e3 { 10.0_f64 } else { 2.0 };
        let first = (low.log(base) + 1e-9).floor() as i32;
        let last = ((high.log(base) - 1e-9).ceil() as i32).max(first + 1);
        let ticks: Vec<f64> = (first..=last).map(|power| base.powi(power)).collect();
        Self {
            low: base.powi(first),
            high: base.powi(last),
            logarithmic: true,
            ticks,
        }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }
}

/// The largest of 1, 2, 2.5 and 5 times a power of ten that is not above `step` by much.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|factor| step <= factor * power * 1.0001);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_start_at_zero_and_end_round() {
        let scale = Scale::linear([3.0, 47.0].into_iter(), 5);
        assert_eq!(scale.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(
            (scale.place(0.0), scale.place(25.0), scale.place(50.0)),
            (0.0, 0.5, 1.0)
        );
        let negative = Scale::linear([-10.0, 30.0].into_iter(), 4);
        assert_eq!(negative.ticks, [-10.0, 0.0, 10.0, 20.0, 30.0]);
        assert_eq!(Scale::linear([0.0].into_iter(), 5).place(0.0), 0.0);
    }

    #[test]
    fn logarithmic_axes_space_factors_evenly() {
        let threads = Scale::logarithmic([1.0, 2.0, 48.0].into_iter());
        assert_eq!(threads.ticks, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert!((threads.place(8.0) - 0.5).abs() < 1e-12);
        let wide = Scale::logarithmic([1.0, 5_000.0].into_iter());
        assert_eq!(wide.ticks, [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        let zero = Scale::logarithmic([0.0, 5.0].into_iter());
        assert_eq!(zero.ticks[0], 0.0);
    }
}
