//! Holding a thread back for what its operations were charged.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use nearfar_model::{CACHE_LINE_BYTES, Clock, PacedTier, RealClock, Stream};

use super::lane::{Charged, Lane, Use};

/// Holds one thread back.
#[derive(Debug)]
pub(super) struct Pacer<C: Clock = RealClock> {
    tier: Arc<PacedTier<C>>,
    stream: Stream<C>,
    /// Time that charging one access takes on this machine. It is taken off the waits.
    access_ns: f64,
}

impl<C: Clock> Pacer<C> {
    pub(super) fn new(tier: &Arc<PacedTier<C>>, access_ns: f64) -> Self {
        Self {
            stream: tier.open_stream(),
            tier: Arc::clone(tier),
            access_ns,
        }
    }

    /// Waits for what a few operations that have just ended were charged: their latency, or until
    /// their lines have passed the link, whichever is longer.
    pub(super) fn hold(&mut self, charged: Charged) {
        if charged.far_accesses == 0 {
            return;
        }
        let spent_ns = (charged.far_accesses as f64 * self.access_ns) as u64;
        let latency_ns = charged.latency_ns.saturating_sub(spent_ns);
        let mut end = self.tier.now().plus_ns(latency_ns);
        let bytes = |lines: u64| lines * CACHE_LINE_BYTES;
        if charged.lines_read > 0 {
            end = end.max(self.stream.request_read(bytes(charged.lines_read)));
        }
        if charged.lines_written > 0 {
            end = end.max(self.stream.request_write(bytes(charged.lines_written)));
        }
        self.tier.clock().wait_until(end);
    }

    /// Lets bytes pass the link that nobody waits for.
    pub(super) fn pass(&mut self, read_bytes: u64, written_bytes: u64) {
        self.stream.request_read(read_bytes);
        self.stream.request_write(written_bytes);
    }
}

/// Accesses by which the time of charging one is found.
const CALIBRATING_ACCESSES: usize = 1 << 17;
const CALIBRATING_BYTES: usize = 1 << 20;

/// The time that charging an access takes, in nanoseconds: with a lane like those of a run, over
/// lines of which most are in its cache.
pub(super) fn calibrate(mut lane: Lane) -> f64 {
    let began = Instant::now();
    for access in 0..CALIBRATING_ACCESSES {
        lane.depends();
        lane.access(Use::Read, access * 64 % CALIBRATING_BYTES, 8);
    }
    lane.end_operation();
    black_box(lane.charged);
    began.elapsed().as_nanos() as f64 / CALIBRATING_ACCESSES as f64
}

#[cfg(test)]
mod tests {
    use nearfar_model::{BandwidthShare, PacedParameters, VirtualClock};

    use super::*;
    use crate::paced::lane::tests::example;

    fn held_ns(parameters: PacedParameters, charged: Charged, times: u32) -> u64 {
        let share = BandwidthShare::WholeDevice;
        let tier = PacedTier::with_clock(parameters, share, VirtualClock::new()).unwrap();
        let mut pacer = Pacer::new(&tier, 0.0);
        for _ in 0..times {
            pacer.hold(charged);
        }
        tier.now().as_ns()
    }

    #[test]
    fn a_thread_waits_for_its_latency() {
        let charged = Charged {
            latency_ns: 3_000,
            lines_read: 15,
            far_accesses: 15,
            ..Charged::default()
        };
        assert_eq!(held_ns(example(), charged, 10), 30_000);
        assert_eq!(held_ns(example(), Charged::default(), 10), 0);
    }

    #[test]
    fn a_thread_waits_for_the_link_where_that_takes_longer() {
        let slow = PacedParameters {
            read_bandwidth_bytes_per_s: 1e9,
            ..example()
        };
        let charged = Charged {
            latency_ns: 100,
            lines_read: 100,
            far_accesses: 100,
            ..Charged::default()
        };
        // 6,400 bytes at a byte per nanosecond, and one latency for the first.
        let held = held_ns(slow, charged, 10);
        assert!((64_000..=64_300).contains(&held), "{held}");
    }
}
