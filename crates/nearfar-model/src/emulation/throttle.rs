//! Delaying a thread for what its operations were charged.

use std::sync::Arc;

use super::misses::Charged;
use crate::{CACHE_LINE_BYTES, Clock, PacedTier, RealClock, Stream};

/// Delays one thread.
#[derive(Debug)]
pub struct Throttle<C: Clock = RealClock> {
    tier: Arc<PacedTier<C>>,
    stream: Stream<C>,
}

impl<C: Clock> Throttle<C> {
    /// The calling thread's, which takes its share of the tier's link.
    pub fn new(tier: &Arc<PacedTier<C>>) -> Self {
        Self {
            stream: tier.open_stream(),
            tier: Arc::clone(tier),
        }
    }

    /// Waits for what a few operations that have just ended were charged: their latency, or until
    /// their lines have passed the link, whichever is longer.
    pub fn delay(&mut self, charged: Charged) {
        if charged.far_accesses == 0 {
            return;
        }
        let mut end = self.tier.now().plus_ns(charged.latency_ns);
        let bytes = |lines: u64| lines * CACHE_LINE_BYTES;
        if charged.lines_read > 0 {
            end = end.max(self.stream.request_read(bytes(charged.lines_read)));
        }
        if charged.lines_written > 0 {
            end = end.max(self.stream.request_write(bytes(charged.lines_written)));
        }
        self.tier.clock().wait_until(end);
    }

    /// Has the link transfer bytes that nobody waits for.
    pub fn transfer(&mut self, read_bytes: u64, written_bytes: u64) {
        self.stream.request_read(read_bytes);
        self.stream.request_write(written_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::misses::tests::example;
    use super::*;
    use crate::{BandwidthShare, PacedParameters, VirtualClock};

    fn delayed_ns(parameters: PacedParameters, charged: Charged, times: u32) -> u64 {
        let share = BandwidthShare::WholeDevice;
        let tier = PacedTier::with_clock(parameters, share, VirtualClock::new()).unwrap();
        let mut throttle = Throttle::new(&tier);
        for _ in 0..times {
            throttle.delay(charged);
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
        assert_eq!(delayed_ns(example(), charged, 10), 30_000);
        assert_eq!(delayed_ns(example(), Charged::default(), 10), 0);
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
        let delayed = delayed_ns(slow, charged, 10);
        assert!((64_000..=64_300).contains(&delayed), "{delayed}");
    }
}
