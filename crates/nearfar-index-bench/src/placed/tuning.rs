//! Numbers of the framework that are chosen instead of a policy's own.

use std::time::Duration;

use nearfar_index::placement::{PlacementOptions, Watermarks};

/// What of the framework is other than a policy has it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tuning {
    /// The watermarks of near memory.
    pub watermarks: Option<Watermarks>,
    /// How often the migration trigger wakes up; as all intervals, in the time of the modelled machine before it is
    /// scaled.
    pub trigger: Option<Duration>,
    /// How often the cooler does.
    pub cooler: Option<Duration>,
    /// How often the watermark maintainer does.
    pub maintainer: Option<Duration>,
}

impl Tuning {
    /// The intervals that are chosen, by the names of the options.
    pub(crate) fn intervals(&self) -> [(&'static str, Option<Duration>); 3] {
        [
            ("trigger-ms", self.trigger),
            ("cooler-ms", self.cooler),
            ("maintainer-ms", self.maintainer),
        ]
    }

    /// The framework's options with what is chosen.
    pub(crate) fn apply(&self, mut framework: PlacementOptions) -> PlacementOptions {
        let intervals = &mut framework.intervals;
        intervals.trigger = self.trigger.unwrap_or(intervals.trigger);
        intervals.cooler = self.cooler.unwrap_or(intervals.cooler);
        intervals.maintainer = self.maintainer.unwrap_or(intervals.maintainer);
        framework.watermarks = self.watermarks.unwrap_or(framework.watermarks);
        framework
    }

    /// The first option that means nothing, and why.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String)> {
        if let Some(Watermarks { low, high }) = self.watermarks
            && !(low > 0.0 && low < high && high <= 1.0)
        {
            let (low, high) = (low * 100.0, high * 100.0);
            let reason =
                format!("{low}:{high}: give LOW:HIGH, above 0, rising and up to 100 percent");
            return Some(("watermarks", reason));
        }
        let zero = |(name, every): (_, Option<Duration>)| {
            let reason = "0 ms: give more, a worker sleeps in between".to_owned();
            every?.is_zero().then_some((name, reason))
        };
        self.intervals().into_iter().find_map(zero)
    }
}

/// Reads watermarks as percentages of a tier's budget, such as `85:95`.
///
/// # Errors
/// What is expected, where it is something else.
///
/// ```
/// let watermarks = nearfar_index_bench::placed::watermarks("85:95")?;
/// assert_eq!((watermarks.low, watermarks.high), (0.85, 0.95));
/// # Ok::<(), String>(())
/// ```
pub fn watermarks(text: &str) -> Result<Watermarks, String> {
    let percent = |text: &str| text.parse::<f64>().ok().map(|percent| percent / 100.0);
    let both = text
        .split_once(':')
        .and_then(|(low, high)| Some((percent(low)?, percent(high)?)));
    let (low, high) =
        both.ok_or("give two percentages of near memory as LOW:HIGH, such as 85:95")?;
    Ok(Watermarks { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_replaces_a_policys_own_and_nothing_else() {
        let usual = PlacementOptions::fitted();
        assert_eq!(Tuning::default().apply(usual.clone()), usual);
        let tuning = Tuning {
            watermarks: watermarks("50:60").ok(),
            cooler: Some(Duration::from_millis(7)),
            ..Tuning::default()
        };
        let mut tuned = usual.clone();
        tuned.watermarks = Watermarks {
            low: 0.5,
            high: 0.6,
        };
        tuned.intervals.cooler = Duration::from_millis(7);
        assert_eq!(tuning.apply(usual), tuned);
    }

    #[test]
    fn what_means_nothing_is_named() {
        for text in ["95", "a:b", "85:", ""] {
            assert!(watermarks(text).is_err(), "{text:?}");
        }
        for text in ["95:85", "0:50", "50:50", "50:101", "NaN:50"] {
            let tuning = Tuning {
                watermarks: watermarks(text).ok(),
                ..Tuning::default()
            };
            assert_eq!(
                tuning.wrong().map(|(name, _)| name),
                Some("watermarks"),
                "{text}"
            );
        }
        let sleepless = Tuning {
            maintainer: Some(Duration::ZERO),
            ..Tuning::default()
        };
        assert_eq!(
            sleepless.wrong().map(|(name, _)| name),
            Some("maintainer-ms")
        );
        assert_eq!(Tuning::default().wrong(), None);
    }
}
