//! A scanning thread's sequential stream.

use std::sync::Arc;

use crate::clock::{Clock, RealClock, Stamp};
use crate::link::{Link, Meter};
use crate::paced::PacedTier;

/// The most by which a thread that came back late from a wait may catch up. It covers the delay of
/// the timer after a sleep, which is ours; a thread that lost its processor for longer has really
/// lost the time, as it would have on the modelled machine.
const LATENESS_NS_MAX: u64 = 100_000;

/// One thread's (that is, one core's) sequential accesses to a [`PacedTier`].
///
/// The thread calls [`Stream::read`] with the bytes it is about to use from the tier, chunk by
/// chunk, and [`Stream::write`] with those it has produced. Both return when the modelled transfer
/// is done. Chunks of 16 KiB to 1 MiB suit: the transfer of a chunk begins when the previous one
/// was asked for, so that the work on a chunk hides the transfer of the next one, as hardware
/// prefetching does. In detail, chunk `i`
///
/// * starts at the latest of: the end of the stream's previous transfer; the moment chunk `i - 1`
///   of its direction was asked for; and now, less as much time as chunk `i - 1` took (nobody
///   prefetches further ahead than that);
/// * ends when it has passed the core (`bytes / (outstanding_sequential x 64 B / latency)`) and
///   the link. The link serves its transfers in the order of their requests, but holds no stream
///   below an equal share of it: the earlier of the two ends counts, so that streams with small
///   chunks and streams that compute a lot are treated fairly;
/// * pays the tier's latency if it is the first of its direction.
///
/// Ends are absolute moments: a thread that wakes late, by up to 100 us, catches up with its next
/// chunks.
#[derive(Debug)]
pub struct Stream<C: Clock = RealClock> {
    tier: Arc<PacedTier<C>>,
    /// Time per byte at the core's own limit.
    core: Meter,
    /// End of the last transfer.
    ready_at: Stamp,
    /// How late the thread came back from its last wait.
    lateness_ns: u64,
    reads: Option<Lane>,
    writes: Option<Lane>,
}

/// State of one direction of a stream.
#[derive(Debug)]
struct Lane {
    link: Meter,
    asked_at: Stamp,
    /// Time the last transfer took.
    took_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl<C: Clock> Stream<C> {
    pub(crate) fn new(tier: Arc<PacedTier<C>>) -> Self {
        let core = Meter::new(1e9 / tier.core_bandwidth_bytes_per_s());
        Self {
            tier,
            core,
            ready_at: Stamp::default(),
            lateness_ns: 0,
            reads: None,
            writes: None,
        }
    }

    /// Holds the thread until the next `bytes` of its scan would have arrived.
    pub fn read(&mut self, bytes: u64) {
        let end = self.request(Direction::Read, bytes);
        self.hold_until(end);
    }

    /// Holds the thread until the tier would have taken `bytes` that it has written.
    pub fn write(&mut self, bytes: u64) {
        let end = self.request(Direction::Write, bytes);
        self.hold_until(end);
    }

    /// As [`Stream::read`], but returns the end of the transfer instead of waiting for it. The
    /// caller must let that moment pass before it uses the bytes: for simulations.
    pub fn request_read(&mut self, bytes: u64) -> Stamp {
        self.request(Direction::Read, bytes)
    }

    /// As [`Stream::write`], but returns the end of the transfer instead of waiting for it.
    pub fn request_write(&mut self, bytes: u64) -> Stamp {
        self.request(Direction::Write, bytes)
    }

    /// The moment up to which the thread has got, were its waits exact.
    fn now(&self) -> Stamp {
        self.tier.now().minus_ns(self.lateness_ns)
    }

    fn hold_until(&mut self, end: Stamp) {
        if end > self.now() {
            let back = self.tier.clock().wait_until(end);
            self.lateness_ns = back.since_ns(end).min(LATENESS_NS_MAX);
        }
    }

    fn request(&mut self, direction: Direction, bytes: u64) -> Stamp {
        let now = self.now();
        if bytes == 0 {
            return now;
        }
        let (link, lane) = match direction {
            Direction::Read => (self.tier.read_link(), &mut self.reads),
            Direction::Write => (self.tier.write_link(), &mut self.writes),
        };
        let (lane, latency_ns) = match lane {
            Some(lane) => (lane, 0),
            None => {
                link.enter();
                (
                    lane.insert(Lane::new(link.ns_per_byte(), now)),
                    self.tier.latency_ns(),
                )
            }
        };
        let start = self
            .ready_at
            .max(lane.asked_at)
            .max(now.minus_ns(lane.took_ns));
        let core_end = start.plus_ns(self.core.take_ns(bytes));
        let end = core_end
            .max(lane.pass(link, start, bytes))
            .plus_ns(latency_ns);
        lane.asked_at = now;
        lane.took_ns = end.since_ns(start);
        self.ready_at = end;
        end
    }
}

impl Lane {
    fn new(ns_per_byte: f64, now: Stamp) -> Self {
        Self {
            link: Meter::new(ns_per_byte),
            asked_at: now,
            took_ns: 0,
        }
    }

    /// When `bytes` that start at `start` have passed `link`.
    fn pass(&mut self, link: &Link, start: Stamp, bytes: u64) -> Stamp {
        let duration_ns = self.link.take_ns(bytes);
        let in_turn = link.reserve(start, duration_ns);
        let at_equal_share = start.plus_ns(duration_ns.saturating_mul(u64::from(link.streams())));
        in_turn.min(at_equal_share)
    }
}

impl<C: Clock> Drop for Stream<C> {
    fn drop(&mut self) {
        if self.reads.is_some() {
            self.tier.read_link().leave();
        }
        if self.writes.is_some() {
            self.tier.write_link().leave();
        }
    }
}
