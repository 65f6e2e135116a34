//! Looking for a client's next message for a moment before its thread sleeps.
//!
//! A thread that sleeps is woken by the kernel, which takes longer than a small statement. A client that
//! asks again as soon as it is answered is waited for awake, by one connection at a time, and only
//! while no statement needs the processor and its thread serves few clients: with many, there is always one
//! to serve, here or on the machine's other processors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A connection whose client was late so often in a row is not waited for awake.
const MISSES_MAX: u32 = 8;
/// It is then given another chance with every so many messages.
const CHANCE_EVERY: u32 = 32;

/// The one connection that may wait awake.
#[derive(Debug)]
pub struct Watch {
    /// For how long at a time.
    window: Duration,
    is_taken: AtomicBool,
}

impl Watch {
    /// One that lasts so long; none where that is no time, or there is but one processor.
    pub fn new(window: Duration) -> Self {
        let processors = std::thread::available_parallelism();
        let is_alone = processors.map_or(1, usize::from) < 2;
        Self {
            window: if is_alone { Duration::ZERO } else { window },
            is_taken: AtomicBool::new(false),
        }
    }

    /// Begins to wait for a message, if nobody else does and the client is seldom late.
    pub fn begin<'a>(&'a self, client: &mut Punctuality) -> Option<Turn<'a>> {
        let is_off = self.window.is_zero() || !client.is_worth_a_turn();
        if is_off || self.is_taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(Turn {
            watch: self,
            until: Instant::now() + self.window,
        })
    }
}

/// A connection's time to wait awake.
#[derive(Debug)]
pub struct Turn<'a> {
    watch: &'a Watch,
    until: Instant,
}

impl Turn<'_> {
    /// Whether there is time left.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.watch.is_taken.store(false, Ordering::Relaxed);
    }
}

/// How often in a row a client was late.
#[derive(Debug, Default)]
pub struct Punctuality {
    misses: u32,
}

impl Punctuality {
    fn is_worth_a_turn(&mut self) -> bool {
        if self.misses < MISSES_MAX {
            return true;
        }
        self.misses += 1;
        self.misses.is_multiple_of(CHANCE_EVERY)
    }

    /// Takes note of whether the message came in time.
    pub fn note(&mut self, came: bool) {
        match came {
            true => self.misses = 0,
            false => self.misses = self.misses.saturating_add(1).min(u32::MAX / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_waits_awake_and_only_for_punctual_clients() {
        let watch = Watch {
            window: Duration::from_secs(60),
            is_taken: AtomicBool::new(false),
        };
        let (mut one, mut other) = (Punctuality::default(), Punctuality::default());
        let turn = watch.begin(&mut one).expect("nobody else waits");
        assert!(turn.goes_on() && watch.begin(&mut other).is_none());
        drop(turn);
        for _ in 0..MISSES_MAX {
            assert!(watch.begin(&mut one).is_some());
            one.note(false);
        }
        let chances = (0..4 * CHANCE_EVERY).filter(|_| watch.begin(&mut one).is_some());
        assert_eq!(chances.count(), 4);
        one.note(true);
        assert!(watch.begin(&mut one).is_some());
    }

    #[test]
    fn no_time_is_no_turn() {
        let watch = Watch::new(Duration::ZERO);
        assert!(watch.begin(&mut Punctuality::default()).is_none());
        assert!(!watch.is_taken.into_inner());
    }
}
