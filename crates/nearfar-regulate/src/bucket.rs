//! The cooperative knob: a token bucket that those ask who may wait.

/// Grants bytes at a rate, with bursts of a bounded size. Time is the caller's, so that it runs in
/// virtual time too.
///
/// ```
/// use nearfar_regulate::bucket::TokenBucket;
///
/// let mut bucket = TokenBucket::new(1e9, 1e6);
/// assert_eq!(bucket.take(0.0, 1_000_000), 0.0);
/// // The next megabyte is there after a millisecond.
/// assert_eq!(bucket.take(0.0, 1_000_000), 0.001);
/// ```
#[derive(Debug, Clone)]
pub struct TokenBucket {
    bytes_per_s: f64,
    burst_bytes: f64,
    /// What may be taken; below zero what was granted before its time.
    level_bytes: f64,
    /// What was taken so far.
    taken_bytes: f64,
    at_s: f64,
}

/// A place in the queue of a [`TokenBucket`]: what had been taken when it was given, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place(f64);

impl TokenBucket {
    /// A full bucket.
    pub fn new(bytes_per_s: f64, burst_bytes: f64) -> Self {
        Self {
            bytes_per_s,
            burst_bytes,
            level_bytes: burst_bytes,
            taken_bytes: 0.0,
            at_s: 0.0,
        }
    }

    /// Changes the rate, and the size of bursts, from `now_s` on.
    pub fn set_rate(&mut self, now_s: f64, bytes_per_s: f64, burst_bytes: f64) {
        self.fill(now_s);
        self.bytes_per_s = bytes_per_s;
        self.burst_bytes = burst_bytes;
        self.level_bytes = self.level_bytes.min(burst_bytes);
    }

    /// Takes `bytes`, and returns for how many seconds the caller waits before it uses them: turns are
    /// granted in the order of asking. A rate of zero is never, which is infinite.
    pub fn take(&mut self, now_s: f64, bytes: u64) -> f64 {
        let place = self.queue(now_s, bytes);
        self.wait_s(now_s, place)
    }

    /// Takes `bytes`, of which [`Self::wait_s`] says when they are there, whatever the rate is by then.
    pub fn queue(&mut self, now_s: f64, bytes: u64) -> Place {
        self.fill(now_s);
        self.level_bytes -= bytes as f64;
        self.taken_bytes += bytes as f64;
        Place(self.taken_bytes)
    }

    /// Seconds from `now_s` until everything is there that was taken up to `place`, at the present rate.
    pub fn wait_s(&mut self, now_s: f64, place: Place) -> f64 {
        self.fill(now_s);
        let missing_bytes = place.0 - (self.taken_bytes + self.level_bytes);
        if missing_bytes <= 0.0 {
            return 0.0;
        }
        missing_bytes / self.bytes_per_s
    }

    /// Forgets what was taken at `now_s` beyond what is there after so many seconds.
    pub fn forgive(&mut self, now_s: f64, debt_max_s: f64) {
        self.fill(now_s);
        let least = -self.bytes_per_s * debt_max_s;
        self.level_bytes = self.level_bytes.max(least);
    }

    /// A clock that jumps back fills nothing.
    fn fill(&mut self, now_s: f64) {
        let passed_s = (now_s - self.at_s).max(0.0);
        self.at_s = self.at_s.max(now_s);
        let level = self.level_bytes + passed_s * self.bytes_per_s;
        self.level_bytes = level.min(self.burst_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_rate_and_burst_are_granted() {
        let mut bucket = TokenBucket::new(1e6, 1e5);
        let mut now_s = 0.0;
        let mut taken = 0.0_f64;
        while now_s < 10.0 {
            now_s += bucket.take(now_s, 4_096) + 1e-4;
            taken += 4_096.0;
        }
        assert!((taken - (10.0 * 1e6 + 1e5)).abs() < 1e4, "{taken}");
    }

    #[test]
    fn what_is_forgiven_is_waited_for_by_nobody() {
        let mut bucket = TokenBucket::new(1e3, 0.0);
        let first = bucket.queue(0.0, 5_000);
        let second = bucket.queue(0.0, 95_000);
        bucket.forgive(0.0, 200.0);
        assert_eq!(bucket.wait_s(0.0, second), 100.0);
        bucket.forgive(0.0, 60.0);
        assert_eq!(bucket.wait_s(0.0, second), 60.0);
        assert_eq!(bucket.wait_s(0.0, first), 0.0);
        let third = bucket.queue(0.0, 1_000);
        assert_eq!(bucket.wait_s(0.0, third), 61.0);
    }

    #[test]
    fn a_clock_that_jumps_back_grants_nothing_twice() {
        let mut bucket = TokenBucket::new(1e3, 1e3);
        assert_eq!(bucket.take(5.0, 1_000), 0.0);
        assert_eq!(bucket.take(1.0, 1_000), 1.0);
        assert_eq!(bucket.take(5.0, 1_000), 2.0);
    }

    #[test]
    fn who_waits_is_told_of_another_rate() {
        let mut bucket = TokenBucket::new(1e3, 0.0);
        let first = bucket.queue(0.0, 1_000);
        let second = bucket.queue(0.0, 1_000);
        assert_eq!(bucket.wait_s(0.0, first), 1.0);
        assert_eq!(bucket.wait_s(0.5, second), 1.5);
        bucket.set_rate(0.5, 1e4, 0.0);
        assert_eq!(bucket.wait_s(0.5, second), 0.15);
        // Later ones come behind, and those whose time has come wait no longer.
        let third = bucket.queue(0.5, 1_000);
        assert_eq!(bucket.wait_s(0.5, third), 0.25);
        assert_eq!(bucket.wait_s(0.65, second), 0.0);
    }
}
