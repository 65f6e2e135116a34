//! When workers wake up, and how much they may move.

use std::time::Duration;

use super::Intervals;

/// How soon queued nodes are looked at again, where a rate held them back.
const RETRY: Duration = Duration::from_millis(100);

/// Moments of the next wake-ups.
#[derive(Debug)]
pub(super) struct Schedule {
    maintainer: Duration,
    trigger: Duration,
    cooler: Duration,
    executors: Option<Duration>,
}

/// Which workers are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) maintainer: bool,
    pub(super) trigger: bool,
    pub(super) cooler: bool,
}

impl Schedule {
    pub(super) fn new(intervals: &Intervals) -> Self {
        Self {
            maintainer: intervals.maintainer,
            trigger: intervals.trigger,
            cooler: intervals.cooler,
            executors: None,
        }
    }

    /// Who is due at `now`; their next turns are set. Turns that were slept through are left out.
    pub(super) fn take_due(&mut self, now: Duration, intervals: &Intervals) -> Due {
        let take = |at: &mut Duration, every: Duration| {
            let is_due = *at <= now;
            while *at <= now {
                let behind = (now - *at).as_nanos() / every.as_nanos().max(1);
                let turns = u32::try_from(behind).unwrap_or(u32::MAX - 1) + 1;
                *at += every * turns;
            }
            is_due
        };
        Due {
            maintainer: take(&mut self.maintainer, intervals.maintainer),
            trigger: take(&mut self.trigger, intervals.trigger),
            cooler: take(&mut self.cooler, intervals.cooler),
        }
    }

    /// Notes whether something waits to be moved.
    pub(super) fn has_queued_at(&mut self, now: Duration, has_queued: bool) {
        self.executors = has_queued.then_some(now + RETRY);
    }

    pub(super) fn next_wakeup(&self) -> Duration {
        let next = self.maintainer.min(self.trigger).min(self.cooler);
        self.executors.map_or(next, |executors| next.min(executors))
    }
}

/// Bytes that may be migrated, replenished with time up to a second's worth.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes_per_second: Option<u64>,
    bytes: u64,
    at: Duration,
}

impl Allowance {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second,
            bytes: 0,
            at: Duration::ZERO,
        }
    }

    /// Whether anything may be moved at `now`.
    pub(super) fn allows(&mut self, now: Duration) -> bool {
        let Some(rate) = self.bytes_per_second else {
            return true;
        };
        let elapsed = now.saturating_sub(self.at);
        let earned = (elapsed.as_secs_f64() * rate as f64) as u64;
        if earned > 0 {
            self.bytes = self.bytes.saturating_add(earned).min(rate);
            self.at = now;
        }
        self.bytes > 0
    }

    /// Counts a move. The last one may go over what was left.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_at_their_intervals_and_are_not_made_up_for() {
        let intervals = Intervals::default();
        let mut schedule = Schedule::new(&intervals);
        assert_eq!(schedule.next_wakeup(), intervals.maintainer);
        let due = schedule.take_due(Duration::from_millis(100), &intervals);
        assert_eq!(
            (due.maintainer, due.trigger, due.cooler),
            (true, false, false)
        );
        let due = schedule.take_due(Duration::from_millis(2050), &intervals);
        assert_eq!(
            (due.maintainer, due.trigger, due.cooler),
            (true, true, true)
        );
        assert_eq!(schedule.next_wakeup(), Duration::from_millis(2100));
        schedule.has_queued_at(Duration::from_millis(1990), true);
        assert_eq!(schedule.next_wakeup(), Duration::from_millis(2090));
    }

    #[test]
    fn a_rate_is_kept() {
        let mut allowance = Allowance::new(Some(1000));
        assert!(!allowance.allows(Duration::ZERO));
        assert!(allowance.allows(Duration::from_millis(100)));
        allowance.spend(60);
        assert!(allowance.allows(Duration::from_millis(100)));
        allowance.spend(60);
        assert!(!allowance.allows(Duration::from_millis(100)));
        assert!(allowance.allows(Duration::from_secs(100)));
        allowance.spend(1000);
        assert!(
            !allowance.allows(Duration::from_secs(100)),
            "one second's worth at most"
        );
        assert!(Allowance::new(None).allows(Duration::ZERO));
    }
}
