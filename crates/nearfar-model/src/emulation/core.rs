//! The modelled core of a thread: everything that the thread is charged goes through it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::link::{Link, Links, Meter, Transfer};
use super::misses::Charged;
use super::tier::EmulatedTier;
use crate::CACHE_LINE_BYTES;
use crate::clock::{Clock, Stamp};

/// The most by which a thread that came back late from a wait may catch up. It covers the delay of
/// the timer after a sleep, which is ours; a thread that lost its processor for longer has really
/// lost the time, as it would have on the modelled machine.
const LATENESS_NS_MAX: u64 = 100_000;

/// Tiers that a core remembers: more than a machine has. Those of machines that are gone make room.
const TIERS_MAX: usize = 32;

/// How bytes that are read or written follow those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// The first of a sequence: nothing has fetched them ahead, and they take the tier's latency.
    #[default]
    First,
    /// Those after them: their transfer begins when the bytes before were asked for, so that the work
    /// on those hides it, as hardware prefetching does.
    Next,
    /// Independent lines at random places: as `Next`, with as many lines in flight as a core has of
    /// such accesses.
    Random,
}

impl Pattern {
    /// The pattern of what is accessed now; what comes after it is [`Pattern::Next`] unless it is
    /// random.
    pub fn advance(&mut self) -> Self {
        match self {
            Self::First => std::mem::replace(self, Self::Next),
            Self::Next | Self::Random => *self,
        }
    }
}

/// Whether a core reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// The number of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreId(u64);

impl CoreId {
    pub(super) fn new() -> Self {
        static CORES: AtomicU64 = AtomicU64::new(0);
        Self(CORES.fetch_add(1, Ordering::Relaxed))
    }
}

/// One core of the modelled machine.
///
/// A thread has one, whatever it does on however many emulated tiers: its scans, the memory of its
/// operators, what it spills, loads and merges share the lines that one core keeps in flight.
/// [`EmulatedTier`]'s methods charge that of the calling thread. Simulations of several threads in one
/// make cores of their own.
///
/// A core makes one transfer after another. Each
///
/// * starts at the latest of: the end of the core's previous transfer or delay; the moment the one
///   before it of its tier and direction was asked for; and now, less as much time as that one took
///   (nobody prefetches further ahead than that);
/// * ends when it has passed the core (`bytes / (outstanding lines x 64 B / latency)`) and the link.
///   The link serves its transfers in the order of their requests, but delays no core below an equal
///   share of it: the earlier of the two ends counts, so that cores with small chunks and cores that
///   compute a lot are treated fairly;
/// * starts now and pays the tier's latency if it is the first of a sequence ([`Pattern::First`]), or
///   the core's first on the tier in this direction.
///
/// Chunks of 16 KiB to 1 MiB suit. Ends are absolute moments: a thread that wakes late, by up to
/// 100 us, catches up with its next chunks.
#[derive(Debug)]
pub struct Core {
    id: CoreId,
    clock: Arc<dyn Clock>,
    /// End of the last transfer or delay.
    busy_until: Stamp,
    /// How late the thread came back from its last wait.
    lateness_ns: u64,
    tiers: Vec<TierUse>,
}

/// What a core does on one tier.
#[derive(Debug)]
struct TierUse {
    links: Arc<Links>,
    /// Time per byte at the core's own limit.
    in_order: Meter,
    at_random: Meter,
    reads: Option<Lane>,
    writes: Option<Lane>,
}

/// State of one direction of a tier.
#[derive(Debug)]
struct Lane {
    link: Meter,
    asked_at: Stamp,
    /// Time the last transfer took.
    took_ns: u64,
}

thread_local! {
    static CURRENT: RefCell<Option<Core>> = const { RefCell::new(None) };
}

impl Core {
    /// A core that has done nothing yet, for tiers of this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            id: CoreId::new(),
            clock,
            busy_until: Stamp::default(),
            lateness_ns: 0,
            tiers: Vec::new(),
        }
    }

    /// Does something on the core of the calling thread. A thread that turns to tiers of another clock
    /// has another core from then on.
    pub(super) fn with_current<T>(clock: &Arc<dyn Clock>, work: impl FnOnce(&mut Self) -> T) -> T {
        CURRENT.with_borrow_mut(|current| {
            let same = current
                .take()
                .filter(|core| Arc::ptr_eq(&core.clock, clock));
            work(current.insert(same.unwrap_or_else(|| Self::new(Arc::clone(clock)))))
        })
    }

    /// When the next `bytes` will have been transferred from or to `tier`. The caller lets that moment
    /// pass before it uses them, unless nobody waits for them.
    pub fn request(
        &mut self,
        tier: &EmulatedTier,
        direction: Direction,
        pattern: Pattern,
        bytes: u64,
    ) -> Stamp {
        let now = self.now();
        if bytes == 0 {
            return now;
        }
        let (core, busy_until) = (self.id, self.busy_until);
        let (lane, link, limit) = self.on(tier).lane(tier, direction, pattern);
        let (lane, latency_ns) = match lane {
            Some(lane) if pattern != Pattern::First => (lane, 0),
            _ => (lane.insert(Lane::new(link, now)), tier.latency_ns()),
        };
        let start = busy_until
            .max(lane.asked_at)
            .max(now.minus_ns(lane.took_ns));
        let passed = link.pass(Transfer {
            core,
            start,
            core_end: start.plus_ns(limit.take_ns(bytes)),
            link_ns: lane.link.take_ns(bytes),
        });
        let end = passed.plus_ns(latency_ns);
        lane.asked_at = now;
        lane.took_ns = end.since_ns(start);
        self.busy_until = end;
        end
    }

    /// Delays the calling thread until `tier` would have transferred the next `bytes`.
    pub(super) fn transfer(
        &mut self,
        tier: &EmulatedTier,
        direction: Direction,
        pattern: Pattern,
        bytes: u64,
    ) {
        let end = self.request(tier, direction, pattern, bytes);
        self.delay_until(end);
    }

    /// Delays the calling thread for `duration_ns`, in which the core does nothing else.
    pub(super) fn delay(&mut self, duration_ns: u64) {
        let end = self.now().max(self.busy_until).plus_ns(duration_ns);
        self.busy_until = end;
        self.delay_until(end);
    }

    /// Delays the calling thread for what single accesses to `tier` that were made were charged: their
    /// latency, or until their lines have passed the link, whichever is longer.
    pub(super) fn settle(&mut self, tier: &EmulatedTier, charged: Charged) {
        if charged.far_accesses == 0 {
            return;
        }
        let latency_end = tier.now().plus_ns(charged.latency_ns);
        let lines_end = self.request_lines(tier, charged.lines_read, charged.lines_written);
        let end = latency_end.max(lines_end);
        self.busy_until = self.busy_until.max(end);
        // Nothing is caught up with: what a thread waits for a processor is taken off by those who
        // time it.
        self.clock.wait_until(end);
    }

    /// When the tier's links have transferred so many lines.
    fn request_lines(&mut self, tier: &EmulatedTier, read: u64, written: u64) -> Stamp {
        let mut end = Stamp::default();
        for (direction, lines) in [(Direction::Read, read), (Direction::Write, written)] {
            if lines > 0 {
                let bytes = lines * CACHE_LINE_BYTES;
                end = end.max(self.request(tier, direction, Pattern::Next, bytes));
            }
        }
        end
    }

    /// The moment up to which the thread has got, were its waits exact.
    fn now(&self) -> Stamp {
        self.clock.now().minus_ns(self.lateness_ns)
    }

    fn delay_until(&mut self, end: Stamp) {
        if end > self.now() {
            let back = self.clock.wait_until(end);
            self.lateness_ns = back.since_ns(end).min(LATENESS_NS_MAX);
        }
    }

    /// What the core does on `tier`.
    fn on(&mut self, tier: &EmulatedTier) -> &mut TierUse {
        let mut known = self.tiers.iter();
        let known = known.position(|one| Arc::ptr_eq(&one.links, tier.links()));
        let index = known.unwrap_or_else(|| {
            if self.tiers.len() == TIERS_MAX {
                self.tiers.remove(0).leave(self.id);
            }
            self.tiers.push(TierUse::new(tier));
            self.tiers.len() - 1
        });
        &mut self.tiers[index]
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        for tier in &self.tiers {
            tier.leave(self.id);
        }
    }
}

impl TierUse {
    fn new(tier: &EmulatedTier) -> Self {
        let ns_per_byte = |lines: f64| {
            let bytes_in_flight = lines * CACHE_LINE_BYTES as f64;
            tier.parameters().latency_ns / bytes_in_flight
        };
        Self {
            links: Arc::clone(tier.links()),
            in_order: Meter::new(ns_per_byte(tier.parameters().outstanding_sequential)),
            at_random: Meter::new(ns_per_byte(tier.parameters().outstanding_random)),
            reads: None,
            writes: None,
        }
    }

    /// The state of a direction, its link, and the limit of the core.
    fn lane<'a>(
        &'a mut self,
        tier: &'a EmulatedTier,
        direction: Direction,
        pattern: Pattern,
    ) -> (&'a mut Option<Lane>, &'a Link, &'a mut Meter) {
        let limit = match pattern {
            Pattern::First | Pattern::Next => &mut self.in_order,
            Pattern::Random => &mut self.at_random,
        };
        match direction {
            Direction::Read => (&mut self.reads, &tier.links().read, limit),
            Direction::Write => (&mut self.writes, &tier.links().write, limit),
        }
    }

    fn leave(&self, core: CoreId) {
        if self.reads.is_some() {
            self.links.read.leave(core);
        }
        if self.writes.is_some() {
            self.links.write.leave(core);
        }
    }
}

impl Lane {
    fn new(link: &Link, now: Stamp) -> Self {
        Self {
            link: Meter::new(link.ns_per_byte()),
            asked_at: now,
            took_ns: 0,
        }
    }
}
