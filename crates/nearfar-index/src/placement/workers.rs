//! Placement in the background: one thread per worker.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::placer::{Placer, lock};
use super::{Intervals, PlacedTree};

/// How soon an executor looks at its queue without being called.
const EXECUTOR_INTERVAL: Duration = Duration::from_millis(100);

/// A worker (zhao-2026, figure 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Worker {
    /// Looks at leaves and queues those to be moved.
    Trigger,
    /// Promotes hot leaves and their ways.
    Promoter,
    /// Demotes cold leaves and their ancestors.
    Demoter,
    /// Halves uses.
    Cooler,
    /// Watches the used shares and adjusts the parameters.
    Maintainer,
}

impl Worker {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Trigger,
        Self::Promoter,
        Self::Demoter,
        Self::Cooler,
        Self::Maintainer,
    ];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Promoter => "promoter",
            Self::Demoter => "demoter",
            Self::Cooler => "cooler",
            Self::Maintainer => "maintainer",
        }
    }

    fn interval(self, intervals: &Intervals) -> Duration {
        match self {
            Self::Trigger => intervals.trigger,
            Self::Promoter | Self::Demoter => EXECUTOR_INTERVAL,
            Self::Cooler => intervals.cooler,
            Self::Maintainer => intervals.maintainer,
        }
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A worker that panicked. The tree works on without it, and so do the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPanic {
    /// The worker.
    pub worker: Worker,
    /// What it said.
    pub message: String,
}

/// Threads that run a [`Placer`]; they end when this is dropped.
///
/// A worker that panics ends alone, is listed in [`Workers::panics`] and reported by `tracing`.
#[derive(Debug)]
pub struct Workers<H: Deref<Target: PlacedTree>> {
    shared: Arc<Shared<H>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<H: Deref<Target: PlacedTree>> {
    placer: Placer<H>,
    started: Instant,
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Signals {
    /// Workers that are to end.
    is_ended: [bool; Worker::ALL.len()],
    /// Workers that are called before their time.
    is_called: [bool; Worker::ALL.len()],
    is_paused: bool,
    /// Workers at work.
    active: usize,
    panics: Vec<WorkerPanic>,
}

impl<H: Deref<Target: PlacedTree> + Send + Sync + 'static> Workers<H> {
    /// Starts a thread per worker.
    ///
    /// # Errors
    /// The system gives no more threads; those started have ended again.
    pub fn start(placer: Placer<H>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            placer,
            started: Instant::now(),
            signals: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut workers = Self {
            shared,
            threads: Vec::new(),
        };
        for worker in Worker::ALL {
            let shared = Arc::clone(&workers.shared);
            let builder = thread::Builder::new().name(format!("nearfar-{worker}"));
            workers
                .threads
                .push(builder.spawn(move || shared.run(worker))?);
        }
        Ok(workers)
    }
}

impl<H: Deref<Target: PlacedTree>> Workers<H> {
    /// What the workers run, for its statistics.
    #[must_use]
    pub fn placer(&self) -> &Placer<H> {
        &self.shared.placer
    }

    /// Time since the workers were started, by which the placer's statistics are stamped.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// Has all workers rest, and waits until they do.
    pub fn pause(&self) {
        let mut signals = lock(&self.shared.signals);
        signals.is_paused = true;
        while signals.active > 0 {
            signals = wait(&self.shared.changed, signals, EXECUTOR_INTERVAL);
        }
    }

    /// Lets the workers go on.
    pub fn resume(&self) {
        lock(&self.shared.signals).is_paused = false;
        self.shared.changed.notify_all();
    }

    /// Ends one worker, after what it has in hand.
    pub fn stop_worker(&self, worker: Worker) {
        lock(&self.shared.signals).is_ended[worker.index()] = true;
        self.shared.changed.notify_all();
    }

    /// Workers that panicked.
    #[must_use]
    pub fn panics(&self) -> Vec<WorkerPanic> {
        lock(&self.shared.signals).panics.clone()
    }

    /// Ends all workers and gives the placer back, which can then be driven by hand; `None` where
    /// a thread holds it still, which cannot be once they have ended.
    #[must_use]
    pub fn stop(mut self) -> Option<Placer<H>> {
        self.end();
        let shared = Arc::clone(&self.shared);
        drop(self);
        Arc::into_inner(shared).map(|shared| shared.placer)
    }

    fn end(&mut self) {
        lock(&self.shared.signals).is_ended = [true; Worker::ALL.len()];
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker's panics are caught and reported where they happen.
            let _ = thread.join();
        }
    }
}

impl<H: Deref<Target: PlacedTree>> Drop for Workers<H> {
    fn drop(&mut self) {
        self.end();
    }
}

fn wait<'s>(
    changed: &Condvar,
    signals: std::sync::MutexGuard<'s, Signals>,
    at_most: Duration,
) -> std::sync::MutexGuard<'s, Signals> {
    let waited = changed.wait_timeout(signals, at_most);
    waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
}

impl<H: Deref<Target: PlacedTree>> Shared<H> {
    fn run(&self, worker: Worker) {
        let interval = worker.interval(&self.placer.options().intervals);
        let mut due = Instant::now() + interval;
        while self.wait_until(worker, due) {
            let begun = Instant::now();
            let work = AssertUnwindSafe(|| self.placer.work(worker, self.started.elapsed()));
            let result = catch_unwind(work);
            self.placer.tally().busy[worker.index()] += begun.elapsed();
            if let Err(panic) = &result {
                self.bury(worker, &**panic);
            }
            self.end_turn(worker);
            match result {
                Ok(next) => due = begun + next.unwrap_or(interval),
                Err(_) => return,
            }
        }
    }

    /// Waits for a worker's turn and begins it. Returns whether there is one.
    fn wait_until(&self, worker: Worker, due: Instant) -> bool {
        let mut signals = lock(&self.signals);
        loop {
            if signals.is_ended[worker.index()] {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            let is_due = left.is_zero() || signals.is_called[worker.index()];
            if is_due && !signals.is_paused {
                signals.is_called[worker.index()] = false;
                signals.active += 1;
                return true;
            }
            let at_most = if is_due { EXECUTOR_INTERVAL } else { left };
            signals = wait(&self.changed, signals, at_most);
        }
    }

    /// Ends a turn, and calls the executors where one may have queued something.
    fn end_turn(&self, worker: Worker) {
        let mut signals = lock(&self.signals);
        signals.active -= 1;
        if matches!(worker, Worker::Trigger) {
            signals.is_called[Worker::Promoter.index()] = true;
            signals.is_called[Worker::Demoter.index()] = true;
        }
        drop(signals);
        self.changed.notify_all();
    }

    fn bury(&self, worker: Worker, panic: &(dyn Any + Send)) {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        tracing::error!(%worker, message, "a placement worker has panicked and is gone");
        if worker == Worker::Maintainer {
            self.placer.abandon_relief();
        }
        lock(&self.signals)
            .panics
            .push(WorkerPanic { worker, message });
    }
}
