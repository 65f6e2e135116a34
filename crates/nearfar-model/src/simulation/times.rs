//! A small sorted set of moments, for queues whose entries mostly end in order.

use super::time::Ps;

/// At most `capacity` moments, earliest first.
///
/// Insertion moves only the moments that are later, of which there are few: almost every request
/// ends after those before it.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    buffer: Box<[Ps]>,
    head: usize,
    tail: usize,
}

impl Times {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            buffer: vec![0; 4 * capacity.max(1)].into(),
            head: 0,
            tail: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Ps> {
        (self.head < self.tail).then(|| self.buffer[self.head])
    }

    /// Drops all moments up to `now`.
    #[inline]
    pub(crate) fn drop_until(&mut self, now: Ps) {
        while self.head < self.tail && self.buffer[self.head] <= now {
            self.head += 1;
        }
    }

    #[inline]
    pub(crate) fn pop_first(&mut self) {
        self.head += usize::from(self.head < self.tail);
    }

    #[inline]
    pub(crate) fn insert(&mut self, time: Ps) {
        if self.tail == self.buffer.len() {
            self.buffer.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
        }
        let mut at = self.tail;
        while at > self.head && self.buffer[at - 1] > time {
            self.buffer[at] = self.buffer[at - 1];
            at -= 1;
        }
        self.buffer[at] = time;
        self.tail += 1;
    }
}
