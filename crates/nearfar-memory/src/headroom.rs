//! Amounts that the kernel tells and that other processes change, asked for less often than needed.

use std::panic::RefUnwindSafe;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long an answer holds.
const VALIDITY: Duration = Duration::from_millis(10);
/// The most bytes that are taken of an answer without asking again.
const SMALL_BYTES: u64 = 1 << 20;
/// What is taken of an answer in one step is at most this part of what it leaves.
const PART: u64 = 256;

/// What was left of an amount when it was last asked for. Asking takes a hundred microseconds, and a
/// row that is inserted takes memory: small takers that come one after another share one answer.
#[derive(Debug, Default)]
pub(crate) struct Headroom {
    known: Mutex<Option<(Instant, u64)>>,
}

// What is known is replaced in one assignment, or made smaller in one.
impl RefUnwindSafe for Headroom {}

impl Headroom {
    /// Takes `bytes` of the last answer, if that is fresh and they are few beside what it leaves.
    pub fn take(&self, bytes: u64) -> bool {
        self.take_at(Instant::now(), bytes)
    }

    /// Keeps an answer, of which `left_bytes` are not taken.
    pub fn learn(&self, left_bytes: u64) {
        *self.known.lock() = Some((Instant::now(), left_bytes));
    }

    fn take_at(&self, now: Instant, bytes: u64) -> bool {
        let mut known = self.known.lock();
        let Some((asked, left_bytes)) = &mut *known else {
            return false;
        };
        let is_fresh = now.saturating_duration_since(*asked) < VALIDITY;
        if !is_fresh || bytes > SMALL_BYTES || bytes > *left_bytes / PART {
            return false;
        }
        *left_bytes -= bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_small_takers_for_a_short_time() {
        let headroom = Headroom::default();
        assert!(!headroom.take(0), "nothing was asked yet");
        headroom.learn(1 << 30);
        let asked = headroom.known.lock().expect("learned").0;
        assert!(headroom.take_at(asked, SMALL_BYTES));
        assert!(!headroom.take_at(asked, SMALL_BYTES + 1), "a large one");
        assert!(!headroom.take_at(asked + VALIDITY, 1), "an old answer");
        assert!(headroom.take_at(asked, 1), "what is refused stays as it is");
    }

    #[test]
    fn takers_never_come_near_the_end_of_an_answer() {
        let headroom = Headroom::default();
        let all = 1000 * PART;
        headroom.learn(all);
        let asked = headroom.known.lock().expect("learned").0;
        let mut taken = 0;
        while headroom.take_at(asked, 1000) {
            taken += 1000;
        }
        assert_eq!(taken, 1000, "of what is left then, 1000 bytes are too many");
        headroom.learn(0);
        let asked = headroom.known.lock().expect("learned").0;
        assert!(headroom.take_at(asked, 0) && !headroom.take_at(asked, 1));
    }
}
