//! The threads that move nodes, one set for all indexes of an engine.

use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long an index waits for its next turn, when its nodes are moved: the interval of the maintainer in
/// zhao-2026, section 5.
const INTERVAL: Duration = Duration::from_millis(100);
/// How often that is doubled as long as nothing is moved.
const DOUBLINGS_MAX: u32 = 5;

/// An index whose nodes are moved.
pub(crate) trait Turns: Send + Sync {
    /// Whether a turn has something to do.
    fn wants_turn(&self) -> bool;

    /// Does it. Returns whether nodes were moved.
    fn take_turn(&self) -> bool;
}

/// Threads that move nodes of indexes. They begin with the first index that has such nodes, sleep while
/// none is used, and end when this is stopped or dropped.
pub struct IndexWorkers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    count: AtomicUsize,
    percent: AtomicU8,
}

#[derive(Default)]
struct State {
    indexes: Vec<Entry>,
    is_ended: bool,
}

/// An index, and when it has its next turn.
struct Entry {
    index: Weak<dyn Turns>,
    due: Instant,
    is_taken: bool,
    doublings: u32,
}

/// Calls the workers when an index is used that they sleep for.
#[derive(Clone)]
pub(crate) struct Call(Weak<Shared>);

impl Call {
    pub fn wake(&self) {
        if let Some(shared) = self.0.upgrade() {
            // Whoever looks for a turn has the lock, and is not between looking and sleeping.
            drop(shared.state.lock());
            shared.changed.notify_all();
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

impl fmt::Debug for IndexWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("IndexWorkers");
        fields.field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Default for IndexWorkers {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                count: AtomicUsize::new(Self::COUNT),
                percent: AtomicU8::new(Self::PERCENT),
            }),
            threads: Mutex::default(),
        }
    }
}

impl IndexWorkers {
    /// Threads by default.
    pub const COUNT: usize = 1;
    /// The most threads.
    pub const COUNT_MAX: usize = 64;
    /// The percentage of a processor that each takes at most, by default.
    pub const PERCENT: u8 = 5;

    /// Number of threads, once there is something to move.
    pub fn count(&self) -> usize {
        self.shared.count.load(Relaxed)
    }

    /// Sets the number of threads; with none, nodes stay where they are.
    pub fn set_count(&self, count: usize) {
        self.shared.count.store(count.min(Self::COUNT_MAX), Relaxed);
        let has_indexes = !self.shared.state.lock().indexes.is_empty();
        if has_indexes {
            self.start();
        }
        self.shared.changed.notify_all();
    }

    /// The percentage of a processor that each thread takes at most, over a few turns.
    pub fn percent(&self) -> u8 {
        self.shared.percent.load(Relaxed)
    }

    /// Sets the percentage, from 1 to 100.
    pub fn set_percent(&self, percent: u8) {
        self.shared.percent.store(percent.clamp(1, 100), Relaxed);
    }

    pub(crate) fn call(&self) -> Call {
        Call(Arc::downgrade(&self.shared))
    }

    /// Gives an index turns from now on, until it is gone.
    pub(crate) fn add(&self, index: Weak<dyn Turns>) {
        let mut state = self.shared.state.lock();
        state.indexes.retain(|entry| entry.index.strong_count() > 0);
        state.indexes.push(Entry {
            index,
            due: Instant::now() + INTERVAL,
            is_taken: false,
            doublings: 0,
        });
        drop(state);
        self.start();
        self.shared.changed.notify_all();
    }

    /// Starts the threads that are missing.
    fn start(&self) {
        let mut threads = self.threads.lock();
        if self.shared.state.lock().is_ended {
            return;
        }
        for number in threads.len()..self.count() {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name(format!("nearfar-index-{number}"));
            match builder.spawn(move || shared.run(number)) {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::warn!(%error, "no thread to move nodes of indexes"),
            }
        }
    }

    /// Ends the threads, after the turns that they have begun.
    pub fn stop(&self) {
        self.shared.state.lock().is_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            // Panics are caught and reported where they happen.
            let _ = thread.join();
        }
    }
}

impl Drop for IndexWorkers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, number: usize) {
        while let Some((weak, index)) = self.next_turn(number) {
            let began = Instant::now();
            let moved = catch_unwind(AssertUnwindSafe(|| index.take_turn()));
            let took = began.elapsed();
            // Its nodes may go with it.
            drop(index);
            if moved.is_err() {
                tracing::error!(
                    "nodes of an index are not moved any more: moving them has panicked"
                );
            }
            self.end_turn(&weak, moved.ok(), took);
        }
    }

    /// Waits for an index that has a turn. None when the workers end.
    fn next_turn(&self, number: usize) -> Option<(Weak<dyn Turns>, Arc<dyn Turns>)> {
        let mut state = self.state.lock();
        loop {
            if state.is_ended {
                return None;
            }
            if number >= self.count.load(Relaxed) {
                self.changed.wait(&mut state);
                continue;
            }
            let wanting = state.indexes.iter_mut().filter(|entry| !entry.is_taken);
            let wanting = wanting.filter_map(|entry| {
                let index = entry.index.upgrade()?;
                index.wants_turn().then_some((entry, index))
            });
            match wanting.min_by_key(|(entry, _)| entry.due) {
                Some((entry, index)) if entry.due <= Instant::now() => {
                    entry.is_taken = true;
                    return Some((Weak::clone(&entry.index), index));
                }
                Some((entry, index)) => {
                    let due = entry.due;
                    drop(index);
                    self.changed.wait_until(&mut state, due);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    fn end_turn(&self, index: &Weak<dyn Turns>, moved: Option<bool>, took: Duration) {
        let percent = u32::from(self.percent.load(Relaxed));
        let mut state = self.state.lock();
        state.indexes.retain(|entry| {
            let is_it = Weak::ptr_eq(&entry.index, index);
            entry.index.strong_count() > 0 && !(is_it && moved.is_none())
        });
        let mut entries = state.indexes.iter_mut();
        if let Some(entry) = entries.find(|entry| Weak::ptr_eq(&entry.index, index)) {
            entry.doublings = match moved {
                Some(true) => 0,
                _ => (entry.doublings + 1).min(DOUBLINGS_MAX),
            };
            let rest = took * (100 - percent.min(100)) / percent.max(1);
            entry.due = Instant::now() + rest.max(INTERVAL * (1 << entry.doublings));
            entry.is_taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    #[derive(Default)]
    struct Counted {
        is_used: AtomicBool,
        turns: AtomicU32,
        panics: AtomicBool,
    }

    impl Turns for Counted {
        fn wants_turn(&self) -> bool {
            self.is_used.load(Relaxed)
        }

        fn take_turn(&self) -> bool {
            self.is_used.store(false, Relaxed);
            self.turns.fetch_add(1, Relaxed);
            assert!(!self.panics.load(Relaxed), "expected");
            false
        }
    }

    fn use_it(index: &Counted, workers: &IndexWorkers) {
        index.is_used.store(true, Relaxed);
        workers.call().wake();
    }

    fn wait_for_turns(index: &Counted, turns: u32) {
        let began = Instant::now();
        while index.turns.load(Relaxed) < turns {
            assert!(began.elapsed() < Duration::from_secs(60), "no turn came");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn indexes_have_turns_when_they_are_used_and_only_then() {
        let workers = IndexWorkers::default();
        let index = Arc::new(Counted::default());
        let other = Arc::new(Counted::default());
        workers.add(Arc::downgrade(&index) as _);
        workers.add(Arc::downgrade(&other) as _);
        for turns in 1..4 {
            use_it(&index, &workers);
            wait_for_turns(&index, turns);
        }
        assert_eq!(index.turns.load(Relaxed), 3, "no use, no turn");
        assert_eq!(other.turns.load(Relaxed), 0);
        drop(index);
        use_it(&other, &workers);
        wait_for_turns(&other, 1);
        workers.stop();
        assert!(workers.threads.lock().is_empty());
    }

    #[test]
    fn their_number_can_be_changed_and_none_rests() {
        let workers = IndexWorkers::default();
        workers.set_count(0);
        let index = Arc::new(Counted::default());
        workers.add(Arc::downgrade(&index) as _);
        use_it(&index, &workers);
        assert!(workers.threads.lock().is_empty());
        workers.set_count(3);
        wait_for_turns(&index, 1);
        assert_eq!(workers.threads.lock().len(), 3);
        workers.set_count(1);
        use_it(&index, &workers);
        wait_for_turns(&index, 2);
    }

    #[test]
    fn threads_at_rest_keep_no_index() {
        let workers = IndexWorkers::default();
        let index = Arc::new(Counted::default());
        workers.add(Arc::downgrade(&index) as _);
        workers.set_count(0);
        use_it(&index, &workers);
        thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        while Arc::strong_count(&index) > 1 {
            assert!(began.elapsed() < Duration::from_secs(60), "it is kept");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_index_that_panics_has_no_more_turns_and_others_have() {
        let workers = IndexWorkers::default();
        let (bad, good) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        bad.panics.store(true, Relaxed);
        workers.add(Arc::downgrade(&bad) as _);
        workers.add(Arc::downgrade(&good) as _);
        use_it(&bad, &workers);
        wait_for_turns(&bad, 1);
        use_it(&good, &workers);
        wait_for_turns(&good, 1);
        assert_eq!(workers.shared.state.lock().indexes.len(), 1);
    }
}
