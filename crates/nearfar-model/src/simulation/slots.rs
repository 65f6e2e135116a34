//! Where the issue slots of cores go: to instructions that complete, to wrong paths, to refills of the
//! pipeline, and to waits by what is waited for.

use std::collections::VecDeque;
use std::ops::{AddAssign, Sub};

use super::pending::UNANSWERED;
use super::time::Ps;
use super::times::Times;
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
    /// Slots are empty, and every load and store so far is there.
    pub units_ps: u64,
    /// Slots are empty, and the oldest line that is not there comes from a cache.
    pub cache_ps: u64,
    /// Slots are empty, and the oldest line that is not there comes from memory.
    pub memory_ps: u64,
    /// Up to three lines are on their way from memory to be read, whatever is issued. Threads that share a core
    /// have one count.
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

/// How programs use a core whose slots are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotUse {
    /// Core time that the instruction window holds.
    pub window: Ps,
    /// Threads that share the slots, and that are cores of their own here.
    pub threads: u32,
    /// Core time of an access with its first line, and of each further line.
    pub access: Ps,
    /// What of it instructions take that programs do not tell of.
    pub access_instructions: Ps,
}

/// A load or store whose line may not be there yet.
#[derive(Debug, Clone, Copy)]
struct Miss {
    /// A mark where an answer of this round decides.
    done: Ps,
    is_from_memory: bool,
}

/// Counts the time of one core.
#[derive(Debug)]
pub(crate) struct SlotCounter {
    pub times: SlotTimes,
    usage: SlotUse,
    /// Slots of a cycle that are used while instructions are issued, in those that the thread has. Above one,
    /// what the thread issues takes longer than its core time, and fills waits.
    used: f64,
    /// Up to when all time was counted.
    until: Ps,
    /// The core time of the head was counted already, before it had to wait for the L2 queue.
    head_counted: bool,
    /// What is not there, in program order.
    misses: VecDeque<Miss>,
    /// When the lines of this round were asked for that are to be read.
    asked: Vec<Ps>,
    /// Of those of the last round, when they were asked for, and when they arrive.
    pub reads: Vec<(Ps, Ps)>,
}

impl SlotCounter {
    pub(crate) fn new(usage: SlotUse) -> Self {
        let slots = SLOTS_PER_CYCLE / f64::from(usage.threads);
        Self {
            times: SlotTimes::default(),
            usage,
            used: ISSUED_PER_CYCLE / slots,
            until: 0,
            head_counted: false,
            misses: VecDeque::new(),
            asked: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// A line was asked for to be read.
    pub(crate) fn ask(&mut self, at: Ps) {
        self.asked.push(at);
    }

    /// A load or store was issued.
    pub(crate) fn miss(&mut self, done: Ps, is_from_memory: bool) {
        self.misses.push_back(Miss {
            done,
            is_from_memory,
        });
    }

    /// Takes the answers of a round: when lines arrive that were asked for to be read, in their order, and what
    /// becomes of marks.
    pub(crate) fn settle(&mut self, arrivals: impl Iterator<Item = Ps>, answer: impl Fn(Ps) -> Ps) {
        self.reads.clear();
        self.reads.extend(self.asked.drain(..).zip(arrivals));
        for miss in &mut self.misses {
            if miss.done & UNANSWERED != 0 {
                miss.done = answer(miss.done);
            }
        }
    }

    /// Counts the time until `now`, when the head is to be issued: its core time, and a wait before.
    pub(crate) fn count(&mut self, now: Ps, head: &Slot) {
        let all = now.saturating_sub(self.until);
        let own = if self.head_counted { 0 } else { head.compute };
        let own = Ps::from(own).min(all);
        let (from, waits_until) = (self.until, now - own);
        if head.action == Action::Refill {
            // Until a wrong guess is known for one, the core goes on with what it has guessed.
            let wrong = (all - own).min(self.usage.window);
            let used = self.used_by(wrong).min(all - own);
            self.times.wrong_path_ps += used;
            self.times.refill_ps += own;
            self.leave_empty(from, waits_until, all - own - used);
        } else {
            let used = self.used_by(self.instructions(head).min(own)).min(all);
            self.times.completing_ps += used;
            self.leave_empty(from, now, all - used);
        }
        self.until = self.until.max(now);
        self.head_counted = true;
    }

    /// The head was issued.
    pub(crate) fn next(&mut self) {
        self.head_counted = false;
    }

    /// Core time that instructions take of a line's.
    fn instructions(&self, head: &Slot) -> Ps {
        let own = Ps::from(head.compute);
        match head.action {
            Action::Compute | Action::Refill | Action::CriticalSection => own,
            // Further lines of an access have less time of their own.
            _ if own < self.usage.access => 0,
            _ => own - self.usage.access + self.usage.access_instructions,
        }
    }

    /// Time in which instructions are issued: what of it their slots take.
    fn used_by(&self, time: Ps) -> Ps {
        (time as f64 * self.used) as Ps
    }

    /// Leaves slots empty that take `empty` of the time from `from` to `to`, for want of the oldest line that
    /// is not there yet.
    fn leave_empty(&mut self, from: Ps, to: Ps, empty: Ps) {
        let [mut memory, mut caches] = [0, 0];
        let mut at = from;
        while at < to {
            let Some(miss) = self.misses.front() else {
                break;
            };
            let until = miss.done.clamp(at, to);
            if miss.is_from_memory {
                memory += until - at;
            } else {
                caches += until - at;
            }
            at = until;
            if at == to {
                break;
            }
            self.misses.pop_front();
        }
        let time = (to - from).max(1);
        let part = |of: Ps| (u128::from(empty) * u128::from(of) / u128::from(time)) as Ps;
        let (memory, caches) = (part(memory), part(caches));
        self.times.memory_ps += memory;
        self.times.cache_ps += caches;
        self.times.units_ps += empty - memory - caches;
    }
}

/// How many lines are on their way to be read by a core and by those that share its queue, over time.
#[derive(Debug)]
pub(crate) struct ReadWatch {
    pub times: SlotTimes,
    /// Cores of the simulation that have the queue together.
    cores: u64,
    until: Ps,
    arrivals: Times,
}

impl ReadWatch {
    /// Of so many cores, whose queue has room for `lines` lines.
    pub(crate) fn new(cores: u32, lines: u32) -> Self {
        Self {
            times: SlotTimes::default(),
            cores: u64::from(cores),
            until: 0,
            arrivals: Times::new(lines as usize),
        }
    }

    /// A line was asked for, and arrives later. Calls come in the order of the former.
    pub(crate) fn read(&mut self, at: Ps, arrival: Ps) {
        while self.arrivals.first() <= at {
            self.pass(self.arrivals.first());
            self.arrivals.drop_first();
        }
        self.pass(at);
        self.arrivals.insert(arrival);
    }

    /// Lets time pass in which nothing comes or goes.
    fn pass(&mut self, until: Ps) {
        let time = until.saturating_sub(self.until) * self.cores;
        match self.arrivals.len() {
            0 => {}
            lines if lines < BUSY_REQUESTS => self.times.few_under_way_ps += time,
            _ => self.times.many_under_way_ps += time,
        }
        self.until = self.until.max(until);
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

    fn counter(threads: u32) -> SlotCounter {
        SlotCounter::new(SlotUse {
            window: 44,
            threads,
            access: 20,
            access_instructions: 2,
        })
    }

    #[test]
    fn empty_slots_are_those_of_the_oldest_line_that_is_not_there() {
        let mut counter = counter(1);
        counter.miss(400, true);
        counter.miss(300, false);
        counter.miss(500, false);
        // Of 30 ps, 10 are of the program and 2 of the access that follows.
        counter.count(1_000, &head(Action::Load, 30));
        counter.next();
        let times = counter.times;
        assert_eq!(times.completing_ps, 8, "four of six slots in 12 ps");
        // 992 empty ones: until 400 for memory, until 500 for caches, then for nothing.
        assert_eq!((times.memory_ps, times.cache_ps), (396, 99));
        assert_eq!(times.units_ps, 992 - 396 - 99);
        let shares = counter.times.shares();
        let all = shares.retiring + shares.bad_speculation + shares.front_end + shares.back_end;
        assert!((all - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_further_line_of_an_access_has_no_instructions() {
        let mut counter = counter(1);
        counter.count(100, &head(Action::Load, 5));
        assert_eq!(
            (counter.times.completing_ps, counter.times.units_ps),
            (0, 100)
        );
        counter.next();
        counter.count(160, &head(Action::Compute, 60));
        assert_eq!(
            counter.times.completing_ps, 40,
            "all of it is the program's"
        );
    }

    #[test]
    fn a_wrong_path_is_gone_down_as_far_as_the_window_goes() {
        // Threads that share a core have three slots each: four instructions take more than a cycle.
        for (threads, wrong_path_ps) in [(1, 29), (2, 58)] {
            let mut counter = counter(threads);
            counter.miss(493, true);
            counter.count(500, &head(Action::Refill, 7));
            let expected = SlotTimes {
                wrong_path_ps,
                refill_ps: 7,
                memory_ps: 493 - wrong_path_ps,
                ..SlotTimes::default()
            };
            assert_eq!(counter.times, expected);
        }
    }

    #[test]
    fn a_head_that_is_refused_is_counted_once() {
        let mut counter = counter(1);
        let load = head(Action::Load, 48);
        counter.count(100, &load);
        counter.miss(140, true);
        counter.count(150, &load);
        counter.next();
        let times = counter.times;
        assert_eq!((times.completing_ps, times.units_ps), (20, 80 + 10));
        assert_eq!((times.cache_ps, times.memory_ps), (0, 40));
    }

    #[test]
    fn marks_become_times_when_their_round_is_answered() {
        let mut counter = counter(1);
        counter.ask(10);
        counter.ask(20);
        counter.miss(UNANSWERED | 1, true);
        counter.settle([700, 600].into_iter(), |mark| {
            [700, 600][(mark & 1) as usize]
        });
        assert_eq!(counter.reads, [(10, 700), (20, 600)]);
        counter.count(800, &head(Action::Compute, 0));
        assert_eq!(
            (counter.times.memory_ps, counter.times.units_ps),
            (600, 200)
        );
    }

    #[test]
    fn reads_of_a_queue_are_counted_for_all_that_have_it() {
        let mut watch = ReadWatch::new(2, 48);
        for at in [100, 110, 120, 130] {
            watch.read(at, at + 100);
        }
        watch.read(400, 500);
        // Up to three from 100 to 130 and from 200 to 230, four between.
        let times = watch.times;
        assert_eq!(
            (times.few_under_way_ps, times.many_under_way_ps),
            (2 * 60, 2 * 70)
        );
    }
}
