//! Where the issue slots of cores go: to instructions that complete, to wrong paths, to refills of the
//! pipeline, and to waits by what is waited for.

use std::ops::{AddAssign, Sub};

use super::time::Ps;
use super::window::{Action, Slot};

/// Issue slots of a cycle: general knowledge of this generation of processors (Golden Cove).
const SLOTS_PER_CYCLE: f64 = 6.0;
/// Instructions that a core issues per cycle while it waits for nothing, as core times assume.
const ISSUED_PER_CYCLE: f64 = 4.0;
/// Requests for lines under way from which on a wait is for bandwidth, as the vendor's metric has it.
const BUSY_REQUESTS: usize = 4;

/// Time of cores by what it was spent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotTimes {
    /// Instructions that complete are issued.
    pub completing_ps: u64,
    /// Instructions behind a branch mispredict are issued: until it is known for one, or they fill the
    /// instruction window.
    pub wrong_path_ps: u64,
    /// The pipeline is filled again.
    pub refill_ps: u64,
    /// Slots are left empty while instructions are issued.
    pub units_ps: u64,
    /// Nothing is issued, and no line is on its way from memory.
    pub cache_ps: u64,
    /// Nothing is issued, and lines are on their way from memory.
    pub memory_ps: u64,
    /// Up to three lines are on their way from memory, whatever is issued.
    pub few_under_way_ps: u64,
    /// More are.
    pub many_under_way_ps: u64,
}

/// Shares of issue slots, per cent. The first four are 100 together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlotShares {
    /// Used by instructions that complete.
    pub retiring: f64,
    /// Used by instructions on a wrong path.
    pub bad_speculation: f64,
    /// Empty for want of instructions.
    pub front_end: f64,
    /// Empty for want of data, or of units.
    pub back_end: f64,
    /// Of those: the share that waits for the bandwidth of memory.
    pub bandwidth: f64,
    /// And for its latency.
    pub latency: f64,
}

impl SlotTimes {
    /// What the slots were used for.
    ///
    /// Bandwidth and latency are those that weisgut-2025, section 5.1, calls normalised: the share of slots that
    /// wait for memory, parted as the times are in which many and few lines are on their way.
    pub fn shares(&self) -> SlotShares {
        let waits = self.units_ps + self.cache_ps + self.memory_ps;
        let all = self.completing_ps + self.wrong_path_ps + self.refill_ps + waits;
        let percent = |ps: u64| 100.0 * ps as f64 / all.max(1) as f64;
        let under_way = (self.few_under_way_ps + self.many_under_way_ps).max(1);
        let bandwidth = self.many_under_way_ps as f64 / under_way as f64 * percent(self.memory_ps);
        SlotShares {
            retiring: percent(self.completing_ps),
            bad_speculation: percent(self.wrong_path_ps),
            front_end: percent(self.refill_ps),
            back_end: percent(waits),
            bandwidth,
            latency: percent(self.memory_ps) - bandwidth,
        }
    }

    fn fields(&mut self) -> [&mut u64; 8] {
        [
            &mut self.completing_ps,
            &mut self.wrong_path_ps,
            &mut self.refill_ps,
            &mut self.units_ps,
            &mut self.cache_ps,
            &mut self.memory_ps,
            &mut self.few_under_way_ps,
            &mut self.many_under_way_ps,
        ]
    }
}

impl AddAssign for SlotTimes {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }
}

impl Sub for SlotTimes {
    type Output = Self;

    fn sub(mut self, mut earlier: Self) -> Self {
        for (time, before) in self.fields().into_iter().zip(earlier.fields()) {
            *time -= *before;
        }
        self
    }
}

/// Counts the time of one core.
#[derive(Debug)]
pub(crate) struct SlotCounter {
    pub times: SlotTimes,
    /// Core time that the instruction window holds.
    window: Ps,
    /// Share of the slots that are used while instructions are issued.
    used: f64,
    /// Up to when all time was counted.
    pub until: Ps,
    /// The core time of the head was counted already, before it had to wait for the L2 queue.
    head_counted: bool,
}

impl SlotCounter {
    /// Of a core that so many threads share, each of which has its part of the slots.
    pub(crate) fn new(window: Ps, threads: u32) -> Self {
        let slots = SLOTS_PER_CYCLE / f64::from(threads);
        Self {
            times: SlotTimes::default(),
            window,
            used: (ISSUED_PER_CYCLE / slots).min(1.0),
            until: 0,
            head_counted: false,
        }
    }

    /// Counts the time until `now`, when the head is to be issued: its core time, and a wait before.
    /// `under_way` lines were on their way at the beginning, or arrived since, when `arrivals` tell.
    pub(crate) fn count(
        &mut self,
        now: Ps,
        head: &Slot,
        under_way: usize,
        arrivals: impl Iterator<Item = Ps>,
    ) {
        let all = now.saturating_sub(self.until);
        let own = if self.head_counted { 0 } else { head.compute };
        let own = Ps::from(own).min(all);
        let mut waits_from = self.until;
        if head.action == Action::Refill {
            // Until a wrong guess is known for one, the core goes on with what it has guessed.
            let wrong = (all - own).min(self.window);
            let used = self.use_slots(wrong);
            self.times.wrong_path_ps += used;
            self.times.refill_ps += own;
            waits_from += wrong;
        } else {
            self.times.completing_ps += self.use_slots(own);
        }
        let waits_until = now - own;
        let (mut from, mut under_way) = (self.until, under_way);
        for until in arrivals.take_while(|at| *at < now).chain([now]) {
            let wait = until.min(waits_until).saturating_sub(from.max(waits_from));
            self.pass(until.saturating_sub(from), wait, under_way);
            under_way = under_way.saturating_sub(1);
            from = from.max(until);
        }
        self.until = self.until.max(now);
        self.head_counted = true;
    }

    /// Time in which instructions are issued: what of it their slots take.
    fn use_slots(&mut self, time: Ps) -> Ps {
        let used = (time as f64 * self.used) as Ps;
        self.times.units_ps += time - used;
        used
    }

    /// The head was issued.
    pub(crate) fn next(&mut self) {
        self.head_counted = false;
    }

    /// Lets time pass with so many lines on their way, of which `wait` is a wait.
    fn pass(&mut self, time: Ps, wait: Ps, under_way: usize) {
        let times = &mut self.times;
        match under_way {
            0 => times.cache_ps += wait,
            _ => times.memory_ps += wait,
        }
        match under_way {
            0 => {}
            lines if lines < BUSY_REQUESTS => times.few_under_way_ps += time,
            _ => times.many_under_way_ps += time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(action: Action, compute: u32) -> Slot {
        Slot {
            line: 0,
            compute,
            bytes: 8,
            action,
            flags: 0,
        }
    }

    #[test]
    fn waits_are_for_what_is_under_way() {
        let mut counter = SlotCounter::new(44, 1);
        let load = head(Action::Load, 30);
        counter.count(1_000, &load, 5, [100, 200, 900].into_iter());
        counter.next();
        let times = counter.times;
        assert_eq!((times.completing_ps, times.units_ps), (20, 10));
        // Five and four until 200, three and two until the end, of which 30 are no wait.
        assert_eq!(
            (times.many_under_way_ps, times.few_under_way_ps),
            (200, 800)
        );
        assert_eq!((times.memory_ps, times.cache_ps), (970, 0));
        counter.count(1_050, &load, 0, [].into_iter());
        assert_eq!(counter.times.cache_ps, 20);
        let shares = counter.times.shares();
        let all = shares.retiring + shares.bad_speculation + shares.front_end + shares.back_end;
        assert!((all - 100.0).abs() < 1e-9);
        assert!((shares.bandwidth * 4.0 - shares.latency).abs() < 1e-9);
    }

    #[test]
    fn a_wrong_path_is_gone_down_as_far_as_the_window_goes() {
        // Threads that share a core have three slots each, and issue in all of them.
        let mut counter = SlotCounter::new(44, 2);
        counter.count(500, &head(Action::Refill, 7), 1, [493].into_iter());
        let expected = SlotTimes {
            wrong_path_ps: 44,
            refill_ps: 7,
            memory_ps: 449,
            few_under_way_ps: 493,
            ..SlotTimes::default()
        };
        assert_eq!(counter.times, expected);
    }

    #[test]
    fn a_head_that_is_refused_is_counted_once() {
        let mut counter = SlotCounter::new(44, 1);
        let load = head(Action::Load, 30);
        counter.count(100, &load, 0, [].into_iter());
        counter.count(150, &load, 4, [].into_iter());
        counter.next();
        let times = counter.times;
        assert_eq!((times.completing_ps, times.units_ps), (20, 10));
        assert_eq!((times.cache_ps, times.memory_ps), (70, 50));
    }
}
