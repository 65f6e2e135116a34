//! Multiplicative cuts, additive raises below a remembered limit.

use super::{Controller, Goal};

/// Time between two decisions: long enough for a mean over thousands of requests.
const PERIOD_MS: f64 = 50.0;
/// What a cut leaves.
const CUT: f64 = 0.6;
/// What a raise adds.
const RAISE: f64 = 0.05;
/// A share within so much of the goal is met: a measured share varies.
const TOLERANCE: f64 = 0.01;
/// Periods that the goal is met before anything is raised.
const CALM_PERIODS: u32 = 3;
/// First time after which a limit is tried again; it doubles with every try that fails.
const RETRY_MS: f64 = 10_000.0;
const RETRY_MS_MAX: f64 = 600_000.0;

/// Ours: cuts as soon as the goal is missed, and finds the limit from below.
///
/// Beyond some rate of slow requests the shared request table fills, and the victim loses most of what it
/// has: the share as a function of what is granted has a cliff. Whoever raises until the goal is missed
/// falls off it again and again. So what was granted when the goal was missed is remembered as the
/// **limit**, and nothing is raised to it until a time has passed that doubles with every failure.
#[derive(Debug, Clone)]
pub struct TierAware {
    goal: Goal,
    granted: f64,
    /// Least that was granted when the goal was missed.
    limit: f64,
    calm: u32,
    retry_at_ms: f64,
    retry_ms: f64,
}

impl TierAware {
    /// A controller that has seen nothing.
    pub fn new(goal: Goal) -> Self {
        Self {
            goal,
            granted: 1.0,
            limit: f64::INFINITY,
            calm: 0,
            retry_at_ms: f64::INFINITY,
            retry_ms: RETRY_MS,
        }
    }

    fn cut(&mut self, now_ms: f64) {
        self.calm = 0;
        if self.granted < self.limit {
            self.limit = self.granted;
        }
        self.retry_at_ms = now_ms + self.retry_ms;
        self.retry_ms = (self.retry_ms * 2.0).min(RETRY_MS_MAX);
        self.granted = (self.granted * CUT).max(self.goal.floor);
    }

    fn raise(&mut self, now_ms: f64) {
        if now_ms >= self.retry_at_ms {
            self.limit += RAISE;
            self.retry_at_ms = now_ms + self.retry_ms;
        }
        let raised = (self.granted + RAISE).min(1.0);
        // A step below the limit: on the cliff's edge, noise would decide.
        if raised <= self.limit - RAISE {
            self.granted = raised;
        }
    }
}

impl Controller for TierAware {
    fn name(&self) -> &'static str {
        "tier-aware"
    }

    fn period_ms(&self) -> f64 {
        PERIOD_MS
    }

    fn floor(&self) -> f64 {
        self.goal.floor
    }

    fn is_disturbed(&self, victim: f64) -> bool {
        victim < self.goal.victim - TOLERANCE
    }

    fn decide(&mut self, now_ms: f64, victim: f64) -> f64 {
        if self.is_disturbed(victim) {
            self.cut(now_ms);
        } else if victim >= self.goal.victim - TOLERANCE {
            self.calm += 1;
            if self.calm > CALM_PERIODS && self.granted < 1.0 {
                self.raise(now_ms);
            }
        }
        self.granted
    }

    fn release(&mut self) {
        *self = Self::new(self.goal);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A victim that has all as long as less than `knee` is granted, and falls to `bottom` beyond it.
    fn plant(granted: f64, knee: f64, bottom: f64, slope: f64) -> f64 {
        let over = ((granted - knee) / slope).clamp(0.0, 1.0);
        1.0 - over * (1.0 - bottom)
    }

    proptest! {
        #[test]
        fn it_converges_below_the_cliff_and_stays(
            knee in 0.1_f64..1.2,
            bottom in 0.0_f64..0.8,
            slope in 0.001_f64..0.2,
            noise in proptest::collection::vec(-0.008_f64..0.008, 400),
        ) {
            let goal = Goal::default();
            let mut controller = TierAware::new(goal);
            let mut granted = 1.0;
            let mut all = Vec::new();
            for (period, noise) in noise.iter().enumerate() {
                let victim = plant(granted, knee, bottom, slope) + noise;
                granted = controller.decide(period as f64 * PERIOD_MS, victim);
                prop_assert!((goal.floor..=1.0).contains(&granted));
                all.push(granted);
            }
            // The first five seconds are there to find the limit: what follows is met nearly always.
            let missed = all[100..].iter().filter(|granted| {
                plant(**granted, knee, bottom, slope) < goal.victim - 2.0 * TOLERANCE
            });
            prop_assert!(missed.count() <= 12, "{all:?}");
            // It does not swing: granted changes direction a few times, when limits are tried again.
            let changes: Vec<f64> = all.windows(2).map(|two| two[1] - two[0]).collect();
            let cuts = changes[100..].iter().filter(|change| **change < 0.0).count();
            prop_assert!(cuts <= 8, "{cuts} cuts, {all:?}");
            // And the aggressor keeps nearly all that the victim can spare.
            let best = (knee + 0.05 * slope / (1.0 - bottom)).min(1.0);
            prop_assert!(granted >= 0.5 * best - RAISE, "{granted} of {best}");
        }

        #[test]
        fn what_is_no_number_changes_nothing(granted in 0.1_f64..0.9) {
            let mut controller = TierAware::new(Goal::default());
            controller.granted = granted;
            prop_assert_eq!(controller.decide(0.0, f64::NAN), granted);
        }
    }

    #[test]
    fn who_is_gone_is_granted_all() {
        let mut controller = TierAware::new(Goal::default());
        controller.decide(0.0, 0.1);
        controller.release();
        assert_eq!(controller.decide(50.0, 1.0), 1.0);
    }
}
