//! What cores ask of memory in one round, put into the order of time.

use std::ops::Range;

use super::network::{Asked, DeviceIndex};
use super::time::Ps;

/// Most parts of a round into which requests are sorted first.
const BUCKETS: usize = 512;

/// Where a prefetched line is noted by its core (see [`super::prefetch::Streams`]).
pub(crate) type Place = u16;

/// Bits of a line number: addresses end at 2^64.
const LINE_BITS: u32 = 58;

/// A line and the device that has it, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target(u64);

impl Target {
    #[inline]
    pub(crate) fn new(line: u64, device: DeviceIndex) -> Self {
        Self(line | u64::from(device) << LINE_BITS)
    }

    #[inline]
    pub(crate) fn line(self) -> u64 {
        self.0 & ((1 << LINE_BITS) - 1)
    }

    #[inline]
    pub(crate) fn device(self) -> DeviceIndex {
        (self.0 >> LINE_BITS) as DeviceIndex
    }
}

/// What a request is for, beyond what the device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A line that a load has missed, which others may wait for.
    Load,
    /// A line that a store has missed, or a software prefetch.
    Demand,
    /// A line that a load or store is expected to ask for.
    Prefetch(Place),
    /// Nobody waits for it, or the core has noted who does.
    Write,
    /// A modified line that leaves the caches and keeps its place in the L2 queue.
    WriteBack,
}

/// One request of a core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// When it is ready; once it is answered, when the answer is back at the core, which is not
    /// before the end of the round.
    pub time: Ps,
    pub target: Target,
    pub asked: Asked,
    pub purpose: Purpose,
}

/// The requests of a round: core after core, and those of a core in the order of time.
#[derive(Debug)]
pub(crate) struct Requests {
    list: Vec<Request>,
    /// Time since the start of the round, then the place in the list.
    order: Vec<u64>,
    buckets: Box<[u32; BUCKETS]>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            order: Vec::new(),
            buckets: Box::new([0; BUCKETS]),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds a request and returns its place in the list.
    #[inline]
    pub(crate) fn push(&mut self, request: Request) -> usize {
        self.list.push(request);
        self.list.len() - 1
    }

    /// Some of the requests, answered.
    #[inline]
    pub(crate) fn range(&self, range: Range<usize>) -> &[Request] {
        &self.list[range]
    }

    /// Calls `answer` for every request and its place in the list, in the order of time, and among equal
    /// times in the order of cores.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        start: Ps,
        length: Ps,
        one_core: bool,
        mut answer: impl FnMut(usize, &Request) -> Ps,
    ) {
        if one_core {
            for (index, request) in self.list.iter_mut().enumerate() {
                request.time = answer(index, request);
            }
            return;
        }
        self.sort(start, length);
        for key in &self.order {
            let index = *key as u32 as usize;
            let request = &mut self.list[index];
            request.time = answer(index, request);
        }
    }

    /// By buckets first, about as many as there are requests, then by insertion, which has little left to do.
    fn sort(&mut self, start: Ps, length: Ps) {
        let count = self.list.len().next_power_of_two().clamp(16, BUCKETS);
        let buckets = &mut self.buckets[..count];
        let shift = (length / count as u64 + 1).next_power_of_two().ilog2();
        let bucket = |at: Ps| ((at - start) >> shift) as usize & (count - 1);
        buckets.fill(0);
        for request in &self.list {
            buckets[bucket(request.time)] += 1;
        }
        let mut sum = 0;
        for count in buckets.iter_mut() {
            sum += std::mem::replace(count, sum);
        }
        self.order.resize(self.list.len(), 0);
        for (index, request) in self.list.iter().enumerate() {
            let place = &mut buckets[bucket(request.time)];
            self.order[*place as usize] = (request.time - start) << 32 | index as u64;
            *place += 1;
        }
        let mut before = 0;
        for end in 0..self.order.len() {
            let key = self.order[end];
            if key < before {
                let at = self.order[..end].partition_point(|other| *other < key);
                self.order[at..=end].rotate_right(1);
            } else {
                before = key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_in_the_order_of_time() {
        let mut requests = Requests::new();
        let times = [105_u64, 900, 1_099, 100, 900, 901, 100, 101];
        for (line, at) in times.into_iter().enumerate() {
            requests.push(Request {
                time: at,
                target: Target::new(line as u64, 3),
                asked: Asked::Read,
                purpose: Purpose::Load,
            });
        }
        let mut seen = Vec::new();
        requests.answer(100, 1_000, false, |index, request| {
            assert_eq!(request.target.line(), index as u64);
            seen.push((request.time, request.target.line()));
            request.time + 7
        });
        let mut expected: Vec<_> = (0..)
            .map(|line| (times[line as usize], line))
            .take(8)
            .collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        assert!((0..8).all(|index| requests.range(0..8)[index].time == times[index] + 7));
    }
}
