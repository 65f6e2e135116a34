//! Small sorted sets of moments, for buffers and queues whose entries mostly end in order.

use super::time::{NEVER, Ps};

/// At most `capacity` moments, earliest first, and [`NEVER`] after the last.
///
/// Almost every request ends after those before it, so that insertion mostly compares with one other.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    first: Ps,
    /// Place of the first, and the place after the last, which has [`NEVER`].
    head: usize,
    tail: usize,
    /// Before `head` are moments that were dropped, and there is at least one place before.
    buffer: Box<[Ps]>,
}

impl Times {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            first: NEVER,
            head: 1,
            tail: 1,
            buffer: vec![NEVER; 8 * capacity.max(1) + 2].into(),
        }
    }

    /// The earliest, or [`NEVER`].
    #[inline]
    pub(crate) fn first(&self) -> Ps {
        self.first
    }

    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Drops the earliest, of which there must be one.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        self.head += 1;
        self.first = self.buffer[self.head];
    }

    /// Drops all moments up to `now`, and returns how many.
    #[inline]
    pub(crate) fn drop_until(&mut self, now: Ps) -> usize {
        let before = self.head;
        while self.first <= now {
            self.drop_first();
        }
        self.head - before
    }

    #[inline]
    pub(crate) fn insert(&mut self, time: Ps) {
        let tail = self.tail;
        if let Some([last, free, end]) = self.buffer.get_mut(tail - 1..tail + 2)
            && *last <= time
            && self.head < tail
        {
            *free = time;
            *end = NEVER;
            self.tail = tail + 1;
        } else {
            self.insert_earlier(time);
        }
    }

    /// As [`Self::insert`], where there is none, or not at the end, or where there is no room behind.
    #[inline(never)]
    fn insert_earlier(&mut self, time: Ps) {
        if self.tail + 2 > self.buffer.len() {
            self.compact();
        }
        let tail = self.tail;
        self.tail = tail + 1;
        self.buffer[tail + 1] = NEVER;
        let mut times = &mut self.buffer[self.head..=tail];
        while let [earlier @ .., last, free] = times {
            if *last <= time {
                *free = time;
                return;
            }
            *free = *last;
            let more = earlier.len() + 1;
            times = &mut times[..more];
        }
        if let [free] = times {
            *free = time;
        }
        self.first = time;
    }

    /// Makes room behind the last.
    #[cold]
    fn compact(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 1);
        self.tail -= self.head - 1;
        self.head = 1;
    }
}

/// Moments in no order until somebody asks for one: a queue that is seldom full is seldom asked, and by
/// then most of its moments have passed.
#[derive(Debug)]
pub(crate) struct LazyTimes {
    sorted: Times,
    fresh: Vec<Ps>,
}

impl LazyTimes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            sorted: Times::new(capacity),
            fresh: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, time: Ps) {
        self.fresh.push(time);
    }

    /// The earliest, or [`NEVER`].
    #[inline]
    pub(crate) fn first(&mut self) -> Ps {
        if !self.fresh.is_empty() {
            self.sort();
        }
        self.sorted.first()
    }

    /// Drops all moments up to `now`, and returns how many.
    #[inline]
    pub(crate) fn drop_until(&mut self, now: Ps) -> usize {
        let dropped = self.sorted.drop_until(now);
        if self.fresh.is_empty() {
            return dropped;
        }
        dropped + self.sort_after(now)
    }

    #[inline(never)]
    fn sort(&mut self) {
        for time in self.fresh.drain(..) {
            self.sorted.insert(time);
        }
    }

    /// Sorts what is later than `now`, drops the others, and returns how many.
    #[inline(never)]
    fn sort_after(&mut self, now: Ps) -> usize {
        let mut dropped = 0;
        for time in self.fresh.drain(..) {
            if time <= now {
                dropped += 1;
            } else {
                self.sorted.insert(time);
            }
        }
        dropped
    }
}

/// When the fill buffers of a core are free; those of lines that wait for an answer are missing.
#[derive(Debug)]
pub(crate) struct FillBuffers {
    /// Those that lines from L2 had, which release them in order.
    hits: Times,
    fills: Times,
}

impl FillBuffers {
    pub(crate) fn new(count: usize) -> Self {
        let mut fills = Times::new(count);
        (0..count).for_each(|_| fills.insert(0));
        Self {
            hits: Times::new(count),
            fills,
        }
    }

    /// When one is free, or [`NEVER`] where that is not known yet.
    #[inline]
    pub(crate) fn first(&self) -> Ps {
        self.hits.first().min(self.fills.first())
    }

    /// Takes the one that is free first.
    #[inline]
    pub(crate) fn take(&mut self) {
        if self.hits.first() <= self.fills.first() {
            self.hits.drop_first();
        } else {
            self.fills.drop_first();
        }
    }

    /// Gives back the one of a line from L2.
    #[inline]
    pub(crate) fn release_hit(&mut self, time: Ps) {
        self.hits.insert(time);
    }

    /// Gives back the one of a line from memory.
    #[inline]
    pub(crate) fn release_fill(&mut self, time: Ps) {
        self.fills.insert(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stay_in_order_whatever_order_they_come_in() {
        let mut times = Times::new(4);
        let mut expected = Vec::new();
        for step in 0..500_u64 {
            let time = step * 10 + (step * 7 % 5) * 13;
            times.insert(time);
            expected.push(time);
            expected.sort_unstable();
            if expected.len() == 4 {
                assert_eq!(times.first(), expected[0]);
                let dropped = times.drop_until(expected[1]);
                assert!(dropped >= 2);
                expected.drain(..dropped);
            }
            assert_eq!(times.first(), expected.first().copied().unwrap_or(NEVER));
        }
    }

    #[test]
    fn moments_that_nobody_asked_for_are_found_later() {
        let mut times = LazyTimes::new(4);
        [50, 20, 40, 30]
            .into_iter()
            .for_each(|time| times.insert(time));
        assert_eq!(times.first(), 20);
        times.insert(10);
        times.insert(60);
        assert_eq!(times.drop_until(30), 3);
        times.insert(35);
        assert_eq!((times.first(), times.drop_until(40)), (35, 2));
        assert_eq!((times.drop_until(60), times.first()), (2, NEVER));
    }

    #[test]
    fn the_fill_buffer_that_is_free_first_is_taken() {
        let mut buffers = FillBuffers::new(2);
        buffers.take();
        buffers.release_fill(900);
        buffers.take();
        assert_eq!(buffers.first(), 900);
        buffers.release_hit(50);
        assert_eq!(buffers.first(), 50);
        buffers.take();
        assert_eq!(buffers.first(), 900);
        buffers.take();
        assert_eq!(buffers.first(), NEVER);
    }
}
