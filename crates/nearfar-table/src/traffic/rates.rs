//! Bytes per second, of two looks at the same counters.

use nearfar_memory::TierId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SessionId;
use super::counters::{Moved, Task};

/// What is told apart.
pub(super) type Key = (Option<SessionId>, TierId, Task);

/// Rates are those of so long at least.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// All counters at one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    at: Instant,
    moved: Arc<BTreeMap<Key, Moved>>,
}

impl Look {
    fn of_nothing() -> Self {
        Self {
            at: Instant::now(),
            moved: Arc::default(),
        }
    }

    /// Bytes read and written per second since then, of what is `now` moved.
    pub(super) fn since(&self, key: Key, now: &Moved) -> (f64, f64) {
        let before = self.moved.get(&key).copied().unwrap_or_default();
        let passed_s = self.at.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / passed_s;
        (
            rate(now.read_bytes, before.read_bytes),
            rate(now.written_bytes, before.written_bytes),
        )
    }
}

/// The last two looks that were a second apart.
#[derive(Debug)]
pub(super) struct Rates {
    last: Look,
    before: Look,
}

impl Default for Rates {
    fn default() -> Self {
        let nothing = Look::of_nothing();
        Self {
            last: nothing.clone(),
            before: nothing,
        }
    }
}

impl Rates {
    /// Notes what was moved by now, and returns the look that rates are to be counted from: the last one
    /// where that is a second ago, else the one before.
    pub(super) fn look(&mut self, moved: &BTreeMap<Key, Moved>) -> Look {
        if self.last.at.elapsed() >= WINDOW_MIN {
            let now = Look {
                at: Instant::now(),
                moved: Arc::new(moved.clone()),
            };
            self.before = std::mem::replace(&mut self.last, now);
        }
        self.before.clone()
    }

    /// A session is gone: what it had moved is among that of all such from now on.
    pub(super) fn end(&mut self, session: SessionId) {
        for look in [&mut self.last, &mut self.before] {
            let moved = Arc::make_mut(&mut look.moved);
            let of_session = moved.extract_if(.., |(of, ..), _| *of == Some(session));
            let of_session: Vec<_> = of_session.collect();
            for ((_, tier, task), its) in of_session {
                *moved.entry((None, tier, task)).or_default() += its;
            }
        }
    }
}
