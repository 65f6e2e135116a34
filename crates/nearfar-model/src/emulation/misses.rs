//! What the accesses of one thread to far memory cost.

use super::line_cache::LineCache;
use super::parameters::EmulationParameters;
use crate::CACHE_LINE_BYTES;

/// What a thread's operations were charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charged {
    /// Time that they wait longer than they would with all lines near, in nanoseconds.
    pub latency_ns: u64,
    /// Lines of far memory that were fetched, of 64 bytes.
    pub lines_read: u64,
    /// Changed lines of far memory that left the cache, and so were written back.
    pub lines_written: u64,
    /// Accesses to near memory, before any cache.
    pub near_accesses: u64,
    /// Accesses to far memory, before any cache.
    pub far_accesses: u64,
}

impl Charged {
    /// The same figures after taking off `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            latency_ns: self.latency_ns - before.latency_ns,
            lines_read: self.lines_read - before.lines_read,
            lines_written: self.lines_written - before.lines_written,
            near_accesses: self.near_accesses - before.near_accesses,
            far_accesses: self.far_accesses - before.far_accesses,
        }
    }
}

/// The cache misses of one thread, on a clock of their own that stands still while the thread works.
///
/// A fetch begins when a place is free among the lines that a core has in flight and when the reads
/// that it depends on are there, and takes the difference of far and near latency. The processor's own
/// work is not taken off: what a prefetch gains is what it overlaps with other waits.
#[derive(Debug, Clone)]
pub(super) struct MissModel {
    /// Far latency less near latency.
    fetch_ns: u64,
    cache: LineCache,
    /// Ends of the last fetches, as many as a core has in flight, the oldest at `oldest`.
    in_flight: Vec<u64>,
    oldest: usize,
    /// Lines that were prefetched in this operation, and the ends of their fetches.
    prefetched: Vec<(u64, u64)>,
    now_ns: u64,
    /// The latest end of the reads that nothing has depended on yet.
    reads_end_ns: u64,
    pub(super) charged: Charged,
}

/// How a line is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
    Prefetch,
}

/// What a probe hears of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Far bytes are used, so many from an address on.
    Access(AccessKind, usize, usize),
    /// What comes next needs the reads so far.
    Depends,
    /// An operation ends.
    End,
}

impl MissModel {
    /// A thread with so many bytes of cache for lines of far memory.
    pub(super) fn new(parameters: &EmulationParameters, cache_bytes: u64) -> Self {
        let fetch_ns = parameters.latency_ns - parameters.near_latency_ns;
        Self {
            fetch_ns: fetch_ns.max(0.0).round() as u64,
            cache: LineCache::new(cache_bytes),
            in_flight: vec![0; parameters.outstanding_random.round().max(1.0) as usize],
            oldest: 0,
            prefetched: Vec::new(),
            now_ns: 0,
            reads_end_ns: 0,
            charged: Charged::default(),
        }
    }

    /// Charges an event.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Access(kind, address, bytes) => self.access(kind, address, bytes),
            Event::Depends => self.depends(),
            Event::End => self.end_operation(),
        }
    }

    /// What comes next needs the reads so far.
    fn depends(&mut self) {
        self.now_ns = self.now_ns.max(self.reads_end_ns);
    }

    /// Uses all lines of `bytes` far bytes at `address`.
    fn access(&mut self, kind: AccessKind, address: usize, bytes: usize) {
        self.charged.far_accesses += 1;
        let first = address as u64 / CACHE_LINE_BYTES;
        let last = (address + bytes.max(1) - 1) as u64 / CACHE_LINE_BYTES;
        for line in first..=last {
            self.access_line(kind, line);
        }
    }

    fn access_line(&mut self, kind: AccessKind, line: u64) {
        let touched = self.cache.touch(line, kind == AccessKind::Write);
        self.charged.lines_written += u64::from(touched.writes_back);
        if touched.is_hit {
            let found = self.prefetched.iter().position(|(held, _)| *held == line);
            if let Some(found) = found.filter(|_| kind == AccessKind::Read) {
                let (_, end_ns) = self.prefetched.swap_remove(found);
                self.reads_end_ns = self.reads_end_ns.max(end_ns);
            }
            return;
        }
        let end_ns = self.now_ns.max(self.in_flight[self.oldest]) + self.fetch_ns;
        self.in_flight[self.oldest] = end_ns;
        self.oldest = (self.oldest + 1) % self.in_flight.len();
        self.charged.lines_read += 1;
        match kind {
            AccessKind::Read => self.reads_end_ns = self.reads_end_ns.max(end_ns),
            AccessKind::Prefetch => self.prefetched.push((line, end_ns)),
            // A store waits in the core's queue.
            AccessKind::Write => {}
        }
    }

    /// Ends an operation, whose reads are all needed.
    fn end_operation(&mut self) {
        self.depends();
        self.prefetched.clear();
        self.charged.latency_ns = self.now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far lines take 200 ns longer than near ones, and 4 of them are in flight concurrently.
    fn example() -> EmulationParameters {
        EmulationParameters {
            latency_ns: 300.0,
            near_latency_ns: 100.0,
            read_bandwidth_bytes_per_s: 64e9,
            write_bandwidth_bytes_per_s: 64e9,
            cores: 1,
            outstanding_sequential: 50.0,
            outstanding_random: 4.0,
            cache_bytes: None,
            copy_engine_bandwidth_bytes_per_s: None,
        }
    }

    const LINE: usize = CACHE_LINE_BYTES as usize;

    fn charged(accesses: impl FnOnce(&mut MissModel)) -> Charged {
        let mut misses = MissModel::new(&example(), 0);
        accesses(&mut misses);
        misses.end_operation();
        misses.charged
    }

    #[test]
    fn dependent_lines_wait_one_after_the_other() {
        let charged = charged(|misses| {
            for hop in 0..5 {
                misses.depends();
                misses.access(AccessKind::Read, hop * LINE, 8);
            }
        });
        assert_eq!((charged.latency_ns, charged.lines_read), (1000, 5));
    }

    #[test]
    fn independent_lines_wait_together_as_many_as_are_in_flight() {
        let of = |lines| charged(|misses| misses.access(AccessKind::Read, 0, lines * LINE));
        assert_eq!(of(1).latency_ns, 200);
        assert_eq!(of(4).latency_ns, 200);
        assert_eq!(of(5).latency_ns, 400);
        assert_eq!((of(12).latency_ns, of(12).lines_read), (600, 12));
    }

    #[test]
    fn a_prefetched_line_is_waited_for_where_it_is_read() {
        let read_after = |prefetched: usize| {
            charged(|misses| {
                for line in 0..prefetched {
                    misses.depends();
                    misses.access(AccessKind::Prefetch, line * LINE, 8);
                }
                for line in 0..4 {
                    misses.depends();
                    misses.access(AccessKind::Read, line * LINE, 8);
                }
            })
        };
        assert_eq!(read_after(0).latency_ns, 800);
        assert_eq!(read_after(4).latency_ns, 200);
        assert_eq!(read_after(4).lines_read, 4, "no line is fetched twice");
        let unread = charged(|misses| misses.access(AccessKind::Prefetch, 0, 8));
        assert_eq!((unread.latency_ns, unread.lines_read), (0, 1));
    }

    #[test]
    fn lines_in_the_cache_cost_nothing_and_stores_are_not_waited_for() {
        let twice = charged(|misses| {
            for _ in 0..2 {
                misses.depends();
                misses.access(AccessKind::Read, 0, 2 * LINE);
            }
        });
        assert_eq!((twice.latency_ns, twice.lines_read), (200, 2));
        assert_eq!(twice.far_accesses, 2);
        // It begins in the middle of a line.
        let store = |misses: &mut MissModel| misses.access(AccessKind::Write, LINE / 2, LINE);
        let stored = charged(store);
        assert_eq!((stored.latency_ns, stored.lines_read), (0, 2));
        assert_eq!(stored.lines_written, 0, "they are in the cache");
        let others = charged(|misses| {
            store(misses);
            misses.access(AccessKind::Read, 1 << 20, 10_000 * LINE);
        });
        assert_eq!(others.lines_written, 2);
    }
}
