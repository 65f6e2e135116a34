//! A controller that keeps near memory fast: it limits what the engine moves to and from tiers that are
//! not near for as long as near memory is slower than its goal.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_memory::TierBytes;
use nearfar_regulate::control::{Controller, Goal, TierAware};
use nearfar_regulate::observe::{NearProbe, Observer};
use nearfar_table::traffic::TierTraffic;

use crate::shared::Shared;

/// After so many periods in which nothing was moved, there is nobody to slow any more; and of so many
/// the fastest says what full speed is.
const PERIODS: usize = 20;

/// Regulates what an engine moves, its `traffic`, on a thread of its own, until the server is gone. `probe`
/// has seen near memory undisturbed, and `latency_max` is how many times as slow as then it may be.
///
/// # Errors
/// No thread.
pub fn start(
    shared: &Arc<Shared>,
    traffic: &Arc<TierTraffic>,
    mut probe: NearProbe,
    latency_max: f64,
) -> io::Result<()> {
    let (shared, traffic) = (Arc::downgrade(shared), Arc::clone(traffic));
    let goal = Goal {
        victim: 1.0 / latency_max,
        ..Goal::default()
    };
    let mut limit = FarLimit::new(TierAware::new(goal));
    let regulate = move || {
        let begun = Instant::now();
        while shared.strong_count() > 0 {
            let now_ms = begun.elapsed().as_secs_f64() * 1e3;
            let Ok(victim) = probe.victim(now_ms) else {
                break;
            };
            let seen = Seen {
                victim,
                far: traffic.far_bytes(),
                is_waited_for: traffic.waiting() > 0,
            };
            traffic.regulate(limit.decide(now_ms, seen));
            std::thread::sleep(limit.period());
        }
        traffic.regulate(None);
    };
    let thread = std::thread::Builder::new().name("nearfar-regulate".to_owned());
    thread.spawn(regulate).map(drop)
}

/// What there is to decide by.
struct Seen {
    /// Share of its undisturbed speed that near memory has.
    victim: f64,
    /// What was moved to and from each tier that is not near, so far.
    far: TierBytes,
    /// Whether somebody waits for a turn.
    is_waited_for: bool,
}

/// From the share that a controller grants to bytes per second.
struct FarLimit<C> {
    controller: C,
    /// What was moved to and from one tier in the last periods without a limit, in bytes per second.
    unlimited_bytes_per_s: VecDeque<f64>,
    is_limited: bool,
    last: Option<(f64, TierBytes)>,
    silent_periods: usize,
}

impl<C: Controller> FarLimit<C> {
    fn new(controller: C) -> Self {
        Self {
            controller,
            unlimited_bytes_per_s: VecDeque::new(),
            is_limited: false,
            last: None,
            silent_periods: PERIODS,
        }
    }

    fn period(&self) -> Duration {
        Duration::from_secs_f64(self.controller.period_ms() * 1e-3)
    }

    /// The limit from `now_ms` on, in bytes per second, if there is to be one.
    fn decide(&mut self, now_ms: f64, seen: Seen) -> Option<u64> {
        let (at_ms, before) = self.last.replace((now_ms, seen.far))?;
        let moved = seen.far.saturating_sub(&before);
        let most_bytes = moved.iter().map(|(_, bytes)| bytes).max().unwrap_or(0);
        let began = self.silent_periods >= PERIODS;
        self.silent_periods = match most_bytes > 0 || seen.is_waited_for {
            true => 0,
            false => self.silent_periods.saturating_add(1),
        };
        if self.silent_periods >= PERIODS {
            // Whoever disturbs near memory now, it is not what can be slowed here.
            self.controller.release();
            self.unlimited_bytes_per_s.clear();
            self.is_limited = false;
            return None;
        }
        if !self.is_limited {
            let passed_s = ((now_ms - at_ms) * 1e-3).max(1e-3);
            let rates = &mut self.unlimited_bytes_per_s;
            rates.push_back(most_bytes as f64 / passed_s);
            rates.drain(..rates.len().saturating_sub(PERIODS));
        }
        let victim = match most_bytes > 0 {
            // In the midst of a period: what all of the speed is, the next one says.
            true if began => f64::NAN,
            true => seen.victim,
            // What disturbs near memory meanwhile is something else, and who waits may have more.
            false if seen.is_waited_for => 1.0,
            false => f64::NAN,
        };
        let granted = self.controller.decide(now_ms, victim);
        self.is_limited = granted < 1.0;
        let rates = self.unlimited_bytes_per_s.iter().copied();
        let full_bytes_per_s = rates.fold(0.0, f64::max);
        self.is_limited
            .then_some((granted * full_bytes_per_s) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_memory::TierId;

    const MIB: u64 = 1 << 20;

    /// Periods of 50 ms in which so much is moved at most, or what the limit allows; the limits.
    fn regulated(
        limit: &mut FarLimit<TierAware>,
        periods: std::ops::Range<u64>,
        moved: u64,
        victim: impl Fn(u64) -> f64,
    ) -> Vec<Option<u64>> {
        let mut far = limit.last.map_or(TierBytes::ZERO, |(_, far)| far);
        let mut allowed = u64::MAX;
        let mut limits = Vec::new();
        for period in periods {
            let bytes = moved.min(allowed);
            far[TierId::from_index(1).expect("a tier")] += bytes;
            let seen = Seen {
                victim: victim(bytes),
                far,
                is_waited_for: false,
            };
            let decided = limit.decide(period as f64 * 50.0, seen);
            allowed = decided.map_or(u64::MAX, |per_s| per_s / 20);
            limits.push(decided);
        }
        limits
    }

    #[test]
    fn a_flood_is_limited_to_what_near_memory_can_spare() {
        let mut limit = FarLimit::new(TierAware::new(Goal {
            victim: 1.0 / 1.2,
            ..Goal::default()
        }));
        // Beyond half of what is moved at full speed, near memory is three times as slow.
        let victim = |bytes: u64| if bytes > 25 * MIB { 1.0 / 3.0 } else { 1.0 };
        let limits = regulated(&mut limit, 0..200, 50 * MIB, victim);
        assert!(limits[..3].iter().any(Option::is_some), "within 150 ms");
        let end = limits[199].expect("a limit");
        assert!((250 * MIB..=500 * MIB).contains(&end), "{end}");
        // Who is gone is forgotten within a second, and what is slow then is somebody else's.
        let silent = regulated(&mut limit, 200..230, 0, |_| 0.2);
        assert_eq!(silent.last(), Some(&None));
    }

    #[test]
    fn a_flood_that_begins_in_the_midst_of_a_period_is_no_smaller() {
        let mut limit = FarLimit::new(TierAware::new(Goal::default()));
        regulated(&mut limit, 0..2, 0, |_| 1.0);
        regulated(&mut limit, 2..3, MIB, |_| 0.3);
        let limits = regulated(&mut limit, 3..4, 50 * MIB, |_| 0.3);
        let limit = limits[0].expect("a limit");
        assert!(limit.abs_diff(600 * MIB) < MIB, "{limit}");
    }

    #[test]
    fn a_burst_is_not_what_disturbs_later() {
        let mut limit = FarLimit::new(TierAware::new(Goal::default()));
        regulated(&mut limit, 0..2, 0, |_| 1.0);
        regulated(&mut limit, 2..4, 50 * MIB, |_| 1.0);
        let limits = regulated(&mut limit, 4..14, 0, |_| 0.3);
        assert!(limits.iter().all(Option::is_none), "{limits:?}");
    }

    #[test]
    fn who_disturbs_nobody_is_not_limited() {
        let mut limit = FarLimit::new(TierAware::new(Goal::default()));
        let limits = regulated(&mut limit, 0..100, 50 * MIB, |_| 0.99);
        assert!(limits.iter().all(Option::is_none));
    }
}
