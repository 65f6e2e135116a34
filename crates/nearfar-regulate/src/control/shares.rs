//! Several aggressors: who is the cause, and what each of them keeps.

use super::Controller;

/// A group that has at least so much of what goes to the slow tier is a cause; less where there are so many
/// groups that half of an equal part is less.
const CAUSE_SHARE: f64 = 0.1;
/// Weight of the last look in a mean: bursts of a single look count less.
const LAST_LOOK: f64 = 0.5;
/// A cause that moves less than this share of what it may, for so long, is gone.
const GONE_SHARE: f64 = 0.1;
const GONE_MS: f64 = 1_000.0;
/// Decisions of which a look may still show the effect.
const EFFECTS: usize = 3;
/// While these differ by more than this factor, a look tells nothing of what a group would move.
const SETTLED: f64 = 1.5;
/// What a slowed group would move is another only where it differs by more than this: counters vary.
const SAME_DEMAND: f64 = 0.15;
/// Looks until what causes would move is known: the first one may have met them in the midst of a period.
const REFERENCE_LOOKS: u32 = 20;

/// What the candidates did since the last decision.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// What each moves to and from the slow tier, in the order of the groups. What is no number says nothing.
    pub slow: &'a [f64],
    /// What others move there, as far as it is known.
    pub others: f64,
}

/// One group, and what is known of it.
#[derive(Debug, Clone)]
struct Standing {
    /// What it moves to the slow tier; no number before the first look.
    rate: f64,
    /// What it would move if nothing limited it, and the most of that.
    demand: f64,
    demand_max: f64,
    /// Mean of what it moves, divided by its share while that is settled.
    estimate: f64,
    is_cause: bool,
    granted: f64,
    /// What was granted in the last periods.
    effects: [f64; EFFECTS],
    silent_since_ms: Option<f64>,
    /// Whether nothing tells of it any more.
    is_lost: bool,
}

/// Names the groups that disturb the victim, and splits among them what the controller grants.
///
/// When the victim is disturbed, the groups that move most to the slow tier are **causes**; the others are
/// granted all, whatever happens. What the controller grants is a share of what the causes moved together when
/// they were named, and they get it max-min fair: all have one limit, and who asks for less is not slowed. So
/// the heaviest is slowed first and released last. What a slowed cause would move follows from what it moves
/// with the share that it has, so that a knob that takes less than it should is turned further. A cause that goes silent is none any more, and when the
/// last one is gone, the controller begins anew.
///
/// ```
/// use nearfar_regulate::control::{Goal, Rates, Shares, TierAware};
///
/// let mut controller = TierAware::new(Goal::default());
/// let mut shares = Shares::new(2, Goal::default().floor, Some(0.1));
/// let rates = Rates { slow: &[8.0, 0.2], others: 0.0 };
/// shares.decide(&mut controller, 0.0, 0.3, Some(rates));
/// assert_eq!(shares.causes(), [true, false]);
/// assert_eq!(shares.granted(), [0.6, 1.0]);
/// ```
#[derive(Debug, Clone)]
pub struct Shares {
    groups: Vec<Standing>,
    floor: f64,
    /// Less than this disturbs nobody; none where nothing tells what groups move.
    least: Option<f64>,
    others: f64,
    /// What the causes moved together before they were slowed: what the controller's share is of.
    reference: f64,
    reference_looks: u32,
    granted: f64,
}

impl Shares {
    /// Groups of which none is slowed. No cause falls below `floor`, and who moves less than `least` is none.
    /// Where nothing tells what groups move, `least` is none: all of them are causes, and slowed alike.
    pub fn new(groups: usize, floor: f64, least: Option<f64>) -> Self {
        let unseen = Standing {
            rate: f64::NAN,
            demand: if least.is_some() { f64::NAN } else { 1.0 },
            demand_max: 0.0,
            estimate: f64::NAN,
            is_cause: false,
            granted: 1.0,
            effects: [1.0; EFFECTS],
            silent_since_ms: None,
            is_lost: false,
        };
        Self {
            groups: vec![unseen; groups],
            floor,
            least,
            others: 0.0,
            reference: 0.0,
            reference_looks: 0,
            granted: 1.0,
        }
    }

    /// What the controller grants all causes together.
    pub fn together(&self) -> f64 {
        self.granted
    }

    /// What each group keeps of its speed.
    pub fn granted(&self) -> Vec<f64> {
        self.groups.iter().map(|group| group.granted).collect()
    }

    /// Which groups are causes.
    pub fn causes(&self) -> Vec<bool> {
        self.groups.iter().map(|group| group.is_cause).collect()
    }

    /// Says which groups nothing tells of any more. They are released and no causes. What they moved last still counts
    /// as theirs, so that no other is named instead.
    pub fn lose(&mut self, are_lost: impl IntoIterator<Item = bool>) {
        for (group, is_lost) in self.groups.iter_mut().zip(are_lost) {
            group.is_lost = is_lost;
        }
    }

    /// Asks the controller, after the victim had `victim` of its undisturbed speed while the groups moved
    /// `rates`, and splits what it grants.
    pub fn decide(
        &mut self,
        controller: &mut dyn Controller,
        now_ms: f64,
        victim: f64,
        rates: Option<Rates<'_>>,
    ) {
        let had_causes = self.has_causes();
        if let Some(rates) = rates {
            self.see(now_ms, rates);
        }
        if had_causes && !self.has_causes() {
            controller.release();
            self.granted = 1.0;
        }
        if controller.is_disturbed(victim) {
            let is_limited = self.granted < 1.0;
            let is_new = self.name_causes();
            if !is_limited {
                self.reference_looks = 0;
            } else if is_new {
                // The limit that holds is tried with the new one below it, before less is granted.
                self.reference_looks = REFERENCE_LOOKS;
                self.split();
                return;
            }
        }
        if self.has_causes() {
            if self.reference_looks < REFERENCE_LOOKS {
                self.reference = self.demands().iter().sum();
                self.reference_looks += 1;
            }
            self.granted = controller.decide(now_ms, victim);
            self.split();
        }
    }

    fn has_causes(&self) -> bool {
        self.groups.iter().any(|group| group.is_cause)
    }

    /// Demands of the causes.
    fn demands(&self) -> Vec<f64> {
        let causes = self.groups.iter().filter(|group| group.is_cause);
        causes.map(|group| group.demand).collect()
    }

    fn see(&mut self, now_ms: f64, rates: Rates<'_>) {
        if rates.others.is_finite() {
            self.others = rates.others.max(0.0);
        }
        let least = self.least.unwrap_or(0.0);
        let is_limited = self.granted < 1.0;
        for (group, rate) in self.groups.iter_mut().zip(rates.slow) {
            if group.is_lost {
                group.release();
            } else if rate.is_finite() && *rate >= 0.0 {
                group.see(*rate, is_limited);
                group.end_if_silent(now_ms, least);
            }
        }
    }

    /// Names causes, and says whether there is a new one. While nobody is slowed, all are judged anew.
    fn name_causes(&mut self) -> bool {
        let total = self.groups.iter().map(|group| group.demand);
        let total: f64 = total.filter(|demand| demand.is_finite()).sum::<f64>() + self.others;
        let share = CAUSE_SHARE.min(0.5 / self.groups.len() as f64);
        let least = self.least.unwrap_or(0.0).max(share * total);
        let keeps = self.granted < 1.0;
        let mut is_new = false;
        for group in &mut self.groups {
            // What is no number is not at least anything.
            let is_heavy = group.demand >= least && !group.is_lost;
            is_new |= is_heavy && !group.is_cause;
            group.is_cause = is_heavy || (keeps && group.is_cause);
        }
        is_new
    }

    fn split(&mut self) {
        let limit = match self.granted < 1.0 {
            true => fair_limit(self.demands(), self.granted * self.reference),
            false => f64::INFINITY,
        };
        for group in &mut self.groups {
            group.granted = match group.is_cause {
                true => (limit / group.demand).clamp(self.floor, 1.0),
                false => 1.0,
            };
        }
    }
}

impl Standing {
    fn see(&mut self, rate: f64, is_limited: bool) {
        self.rate = mean(self.rate, rate);
        self.effects.rotate_left(1);
        self.effects[EFFECTS - 1] = self.granted;
        if !(is_limited && self.is_cause) {
            self.demand = self.rate;
            self.demand_max = self.rate;
            self.estimate = f64::NAN;
            return;
        }
        let least = self.effects.into_iter().fold(1.0, f64::min);
        let most = self.effects.into_iter().fold(0.0, f64::max);
        if most > SETTLED * least {
            self.estimate = f64::NAN;
            return;
        }
        let effect = self.effects.iter().sum::<f64>() / EFFECTS as f64;
        self.estimate = mean(self.estimate, rate / effect);
        if (self.estimate / self.demand - 1.0).abs() > SAME_DEMAND {
            self.demand = self.estimate;
            self.demand_max = self.demand_max.max(self.demand);
        }
    }

    fn end_if_silent(&mut self, now_ms: f64, least: f64) {
        let silence = match self.granted < 1.0 {
            true => GONE_SHARE * self.granted * self.demand_max,
            false => least,
        };
        if self.rate >= silence {
            self.silent_since_ms = None;
            return;
        }
        let since_ms = *self.silent_since_ms.get_or_insert(now_ms);
        if now_ms - since_ms >= GONE_MS {
            self.release();
            self.demand = self.rate;
        }
    }

    fn release(&mut self) {
        self.is_cause = false;
        self.granted = 1.0;
    }
}

/// A mean in which the last look weighs most; the first one is it.
fn mean(before: f64, last: f64) -> f64 {
    match before.is_finite() {
        true => before + LAST_LOOK * (last - before),
        false => last,
    }
}

/// The one limit under which demands come to a capacity together.
fn fair_limit(mut demands: Vec<f64>, capacity: f64) -> f64 {
    demands.sort_unstable_by(f64::total_cmp);
    let mut left = capacity;
    for (index, demand) in demands.iter().enumerate() {
        let share = left / (demands.len() - index) as f64;
        if *demand > share {
            return share;
        }
        left -= demand;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::{Goal, TierAware};

    const PERIOD_MS: f64 = 50.0;
    const LEAST: f64 = 0.1;

    /// A victim that has all as long as less than `knee` is moved, and loses it within a hundredth beyond.
    fn plant(moved: f64, knee: f64) -> f64 {
        1.0 - 0.9 * ((moved / knee - 1.0) / 0.01).clamp(0.0, 1.0)
    }

    /// Groups with their demands beside a victim.
    struct Run {
        shares: Shares,
        controller: TierAware,
        knee: f64,
        /// A group that is granted a share moves so many times as much, as far as it wants to.
        slack: f64,
        now_ms: f64,
    }

    impl Run {
        fn new(groups: usize, knee: f64) -> Self {
            let goal = Goal::default();
            Self {
                shares: Shares::new(groups, goal.floor, Some(LEAST)),
                controller: TierAware::new(goal),
                knee,
                slack: 1.0,
                now_ms: 0.0,
            }
        }

        /// What each group moves.
        fn moved(&self, demands: &[f64]) -> Vec<f64> {
            let granted = self.shares.granted().into_iter();
            let shares = granted.map(|granted| (granted * self.slack).min(1.0));
            demands
                .iter()
                .zip(shares)
                .map(|(demand, share)| demand * share)
                .collect()
        }

        /// One period; what the victim had in it. Counters are off by up to `noise`.
        fn step(&mut self, demands: &[f64], noise: f64) -> f64 {
            let moved = self.moved(demands);
            let victim = plant(moved.iter().sum(), self.knee);
            let seen: Vec<f64> = moved.iter().map(|moved| moved * (1.0 + noise)).collect();
            let rates = Rates {
                slow: &seen,
                others: 0.0,
            };
            self.now_ms += PERIOD_MS;
            let (now_ms, seen) = (self.now_ms, victim + 0.02 * noise);
            self.shares
                .decide(&mut self.controller, now_ms, seen, Some(rates));
            victim
        }
    }

    proptest! {
        #[test]
        fn two_causes_converge_and_the_innocent_is_never_slowed(
            heavy in 4.0_f64..10.0,
            ratio in 0.25_f64..1.0,
            quiet in 0.0_f64..0.09,
            knee_share in 0.2_f64..1.2,
            noise in proptest::collection::vec(-0.2_f64..0.2, 400),
        ) {
            let demands = [heavy, heavy * ratio, heavy * quiet];
            let total: f64 = demands.iter().sum();
            let mut run = Run::new(3, knee_share * total);
            let mut together = Vec::new();
            let mut missed = 0;
            for (period, noise) in noise.iter().enumerate() {
                let victim = run.step(&demands, *noise);
                prop_assert_eq!(run.shares.granted()[2], 1.0);
                together.push(run.shares.together());
                missed += usize::from(period >= 100 && victim < 0.9);
            }
            prop_assert!(missed <= 12, "{missed}, {together:?}");
            let cuts = together[100..].windows(2).filter(|two| two[1] < two[0]).count();
            prop_assert!(cuts <= 8, "{cuts}, {together:?}");
            // Two fifths of what the victim can spare are used at least, and who asks for more has not much less.
            let moved = run.moved(&demands);
            let spared = run.knee.min(total);
            prop_assert!(moved.iter().sum::<f64>() >= 0.4 * spared, "{moved:?} of {spared}");
            prop_assert!(moved[0] >= moved[1] * 0.6, "{moved:?}");
        }

        #[test]
        fn of_two_groups_only_the_one_that_moves_much_is_slowed(
            heavy in 2.0_f64..10.0,
            quiet in 0.0_f64..0.1,
            knee_share in 0.1_f64..0.9,
            first in any::<bool>(),
        ) {
            let mut demands = [heavy, heavy * quiet];
            if !first {
                demands.reverse();
            }
            let (cause, innocent) = if first { (0, 1) } else { (1, 0) };
            let mut run = Run::new(2, knee_share * heavy + demands[innocent]);
            for _ in 0..200 {
                run.step(&demands, 0.0);
                prop_assert_eq!(run.shares.granted()[innocent], 1.0);
            }
            prop_assert!(run.shares.causes()[cause]);
            prop_assert!(run.shares.granted()[cause] < 1.0);
            prop_assert!(run.step(&demands, 0.0) > 0.9);
        }

        #[test]
        fn equal_causes_keep_equal_parts(
            demand in 2.0_f64..10.0,
            groups in 2_usize..6,
            knee_share in 0.1_f64..0.9,
        ) {
            let demands = vec![demand; groups];
            let mut run = Run::new(groups, knee_share * demand * groups as f64);
            for _ in 0..200 {
                run.step(&demands, 0.0);
            }
            let granted = run.shares.granted();
            prop_assert!(granted[0] < 1.0);
            prop_assert!(granted.iter().all(|one| (one - granted[0]).abs() < 1e-9), "{granted:?}");
        }

        #[test]
        fn a_knob_that_takes_less_than_it_should_is_turned_further(
            heavy in 4.0_f64..10.0,
            ratio in 0.25_f64..1.0,
            slack in 1.0_f64..4.0,
            knee_share in 0.2_f64..0.9,
            noise in proptest::collection::vec(-0.05_f64..0.05, 400),
        ) {
            let demands = [heavy, heavy * ratio];
            let total = heavy + heavy * ratio;
            let mut run = Run { slack, ..Run::new(2, knee_share * total) };
            let missed = noise.iter().enumerate().filter(|(period, noise)| {
                run.step(&demands, **noise) < 0.9 && *period >= 100
            });
            prop_assert!(missed.count() <= 15);
            let moved = run.moved(&demands);
            prop_assert!(moved[0] >= moved[1] * 0.6, "{moved:?}");
            prop_assert!(moved.iter().sum::<f64>() >= 0.3 * run.knee, "{moved:?} of {}", run.knee);
        }

        #[test]
        fn who_stays_has_what_the_one_who_left_had(
            demand in 2.0_f64..10.0,
            knee_share in 0.55_f64..0.9,
        ) {
            let mut run = Run::new(2, knee_share * 2.0 * demand);
            for _ in 0..200 {
                run.step(&[demand, demand], 0.0);
            }
            prop_assert!(run.shares.granted()[1] < 1.0);
            for _ in 0..60 {
                run.step(&[0.0, demand], 0.0);
            }
            prop_assert!(!run.shares.causes()[0]);
            prop_assert_eq!(run.shares.granted()[0], 1.0);
            let alone = run.shares.granted()[1];
            prop_assert!(alone > 0.9, "{alone}");
            // And the controller begins anew when the last one is gone.
            for _ in 0..60 {
                run.step(&[0.0, 0.0], 0.0);
            }
            prop_assert_eq!(run.shares.together(), 1.0);
            prop_assert_eq!(run.shares.causes(), vec![false, false]);
        }
    }

    #[test]
    fn a_second_cause_that_comes_later_shares_the_limit() {
        let mut run = Run::new(2, 6.0);
        for _ in 0..100 {
            run.step(&[10.0, 0.0], 0.0);
        }
        assert_eq!(run.shares.causes(), [true, false]);
        for _ in 0..100 {
            run.step(&[10.0, 10.0], 0.0);
        }
        let granted = run.shares.granted();
        assert_eq!(run.shares.causes(), [true, true]);
        assert!((granted[0] - granted[1]).abs() < 0.05, "{granted:?}");
        assert!(run.step(&[10.0, 10.0], 0.0) > 0.9);
    }

    #[test]
    fn nobody_is_slowed_for_what_others_move() {
        let mut controller = TierAware::new(Goal::default());
        // Less than what disturbs; a tenth of what others move; no number.
        let cases: [(&[f64], f64); 3] = [
            (&[0.05, 0.02], 0.0),
            (&[0.5, 0.5], 9.0),
            (&[f64::NAN, f64::NAN], 0.0),
        ];
        for (slow, others) in cases {
            let mut shares = Shares::new(2, 0.02, Some(LEAST));
            let rates = Rates { slow, others };
            shares.decide(&mut controller, 0.0, 0.3, Some(rates));
            assert_eq!(shares.granted(), [1.0, 1.0], "{slow:?}");
        }
    }

    #[test]
    fn who_is_lost_is_released_and_nobody_is_named_instead() {
        let mut controller = TierAware::new(Goal::default());
        let mut shares = Shares::new(2, Goal::default().floor, Some(LEAST));
        let mut step = |period: u32, slow: [f64; 2], are_lost: [bool; 2]| {
            shares.lose(are_lost);
            let rates = Rates {
                slow: &slow,
                others: 0.0,
            };
            let now_ms = f64::from(period) * PERIOD_MS;
            shares.decide(&mut controller, now_ms, 0.2, Some(rates));
            (shares.causes(), shares.granted())
        };
        for period in 0..10 {
            let (causes, _) = step(period, [8.0, 0.2], [false; 2]);
            assert_eq!(causes, [true, false]);
        }
        for period in 10..50 {
            let (causes, granted) = step(period, [f64::NAN, 0.2], [true, false]);
            assert_eq!((causes, granted), (vec![false; 2], vec![1.0; 2]));
        }
        let (causes, granted) = step(50, [8.0, 0.2], [false; 2]);
        assert_eq!(causes, [true, false]);
        assert!(granted[0] < 1.0);
    }

    #[test]
    fn without_a_look_at_groups_all_are_slowed_alike() {
        let mut controller = TierAware::new(Goal::default());
        let mut shares = Shares::new(2, 0.02, None);
        shares.decide(&mut controller, 0.0, 0.3, None);
        assert_eq!(shares.granted(), [0.6, 0.6]);
        assert_eq!(shares.causes(), [true, true]);
    }

    #[test]
    fn limits_are_max_min_fair() {
        assert_eq!(fair_limit(vec![8.0, 2.0, 6.0], 10.0), 4.0);
        assert_eq!(fair_limit(vec![3.0, 3.0], 4.0), 2.0);
        assert_eq!(fair_limit(vec![1.0, 2.0], 3.0), f64::INFINITY);
    }
}
