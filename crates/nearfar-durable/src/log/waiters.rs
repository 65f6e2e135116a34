//! Whom to wake once the log is on disk.

use parking_lot::Mutex;
use std::task::Waker;

/// Tasks that wait until the log is on disk, each up to a position.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Vec<(u64, Waker)>>);

impl Waiters {
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Has `waker` woken when the log is on disk up to `position`, which one task waits for.
    pub fn add(&self, position: u64, waker: &Waker) {
        let mut waiting = self.0.lock();
        match waiting.iter_mut().find(|(known, _)| *known == position) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((position, waker.clone())),
        }
    }

    /// Wakes those that wait for no more than `position`.
    pub fn wake_up_to(&self, position: u64) {
        let woken: Vec<(u64, Waker)> = {
            let mut waiting = self.0.lock();
            waiting.extract_if(.., |(at, _)| *at <= position).collect()
        };
        // Outside of the lock: who is woken may wait for more.
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn those_are_woken_that_wait_for_no_more_and_each_once() {
        let counters: Vec<Arc<Counter>> = (0..4).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counters.iter().cloned().map(Waker::from).collect();
        let woken = || {
            let counts = counters.iter().map(|one| one.0.load(Ordering::SeqCst));
            counts.collect::<Vec<_>>()
        };
        let waiters = Waiters::default();
        assert!(waiters.is_empty());
        waiters.add(30, &wakers[0]);
        waiters.add(10, &wakers[1]);
        // A task that is polled again by another one than before.
        waiters.add(20, &wakers[2]);
        waiters.add(20, &wakers[3]);
        waiters.wake_up_to(9);
        assert_eq!(woken(), [0, 0, 0, 0]);
        waiters.wake_up_to(20);
        assert_eq!(woken(), [0, 1, 0, 1]);
        waiters.wake_up_to(u64::MAX);
        waiters.wake_up_to(u64::MAX);
        assert_eq!(woken(), [1, 1, 0, 1]);
        assert!(waiters.is_empty());
    }
}
