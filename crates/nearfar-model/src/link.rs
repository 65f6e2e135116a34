//! One direction of a tier's link: a single server that all streams of the tier share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::Stamp;

/// A link that serves one transfer after another.
///
/// Its whole state is the moment at which the last reserved transfer ends, so a reservation is one
/// compare-and-swap. Reserved intervals never overlap: all streams together never get more than
/// the link has.
#[derive(Debug)]
pub(crate) struct Link {
    free_at_ns: AtomicU64,
    streams: AtomicU32,
    ns_per_byte: f64,
}

impl Link {
    /// A link of `bandwidth_bytes_per_s`, idle.
    pub(crate) fn new(bandwidth_bytes_per_s: f64) -> Self {
        Self {
            free_at_ns: AtomicU64::new(0),
            streams: AtomicU32::new(0),
            ns_per_byte: 1e9 / bandwidth_bytes_per_s,
        }
    }

    pub(crate) fn ns_per_byte(&self) -> f64 {
        self.ns_per_byte
    }

    pub(crate) fn bandwidth_bytes_per_s(&self) -> f64 {
        1e9 / self.ns_per_byte
    }

    /// Reserves `duration_ns` of the link from `earliest` or from when it is free, whichever is
    /// later, and returns the end. `earliest` is never in the future, so that no stream's request
    /// leaves a gap that nobody can use.
    pub(crate) fn reserve(&self, earliest: Stamp, duration_ns: u64) -> Stamp {
        // Relaxed: the word is the only shared state, nothing is published through it.
        let mut free_at_ns = self.free_at_ns.load(Ordering::Relaxed);
        loop {
            let end = Stamp::from_ns(free_at_ns.max(earliest.as_ns())).plus_ns(duration_ns);
            match self.free_at_ns.compare_exchange_weak(
                free_at_ns,
                end.as_ns(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return end,
                Err(actual) => free_at_ns = actual,
            }
        }
    }

    /// Counts a stream that starts to use the link.
    pub(crate) fn enter(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stream that ends.
    pub(crate) fn leave(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Streams that use the link now.
    pub(crate) fn streams(&self) -> u32 {
        self.streams.load(Ordering::Relaxed)
    }
}

/// Turns bytes into whole nanoseconds at a fixed rate and carries the remainder, so that many
/// small transfers take as long as one large one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    ns_per_byte: f64,
    remainder_ns: f64,
}

impl Meter {
    pub(crate) fn new(ns_per_byte: f64) -> Self {
        Self {
            ns_per_byte,
            remainder_ns: 0.0,
        }
    }

    /// Whole nanoseconds that `bytes` take.
    pub(crate) fn take_ns(&mut self, bytes: u64) -> u64 {
        let exact_ns = bytes as f64 * self.ns_per_byte + self.remainder_ns;
        let whole_ns = exact_ns.floor();
        self.remainder_ns = exact_ns - whole_ns;
        whole_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn reservations_queue_and_skip_idle_time() {
        let link = Link::new(1e9);
        assert_eq!(link.reserve(Stamp::from_ns(100), 10).as_ns(), 110);
        assert_eq!(link.reserve(Stamp::from_ns(105), 10).as_ns(), 120);
        assert_eq!(link.reserve(Stamp::from_ns(500), 10).as_ns(), 510);
    }

    /// Threads race for the link; the intervals they get must tile it: disjoint, gapless.
    #[test]
    fn racing_reservations_never_overlap() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 20_000;
        let link = Arc::new(Link::new(1e9));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let link = Arc::clone(&link);
                std::thread::spawn(move || {
                    (0..ROUNDS)
                        .map(|round| {
                            let duration_ns = 1 + (round * 7 + thread) % 13;
                            (
                                link.reserve(Stamp::from_ns(0), duration_ns).as_ns(),
                                duration_ns,
                            )
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut intervals: Vec<(u64, u64)> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        intervals.sort_unstable();
        let mut free_at_ns = 0;
        for (end_ns, duration_ns) in intervals {
            assert_eq!(end_ns - duration_ns, free_at_ns);
            free_at_ns = end_ns;
        }
    }

    #[test]
    fn a_meter_loses_nothing_to_rounding() {
        let mut meter = Meter::new(0.3);
        let total_ns: u64 = (0..10_000).map(|_| meter.take_ns(1)).sum();
        assert!((2_999..=3_000).contains(&total_ns), "{total_ns}");
    }
}
