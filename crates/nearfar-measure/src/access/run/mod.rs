//! Running a plan.

mod memory;
mod pacing;
mod queue;
mod worker;

pub(crate) use self::worker::Worked;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use nearfar_memory::RegionError;

use self::memory::Memory;
use self::queue::Queue;
use self::worker::{Shared, Worker};
use super::kernels::Ticks;
use super::noise::{Noise, NoiseReport};
use super::outcome::{Outcome, Repetition};
use super::plan::{Plan, PlannedRun};

/// Why a run could not be made. What was done before remains valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// A region that cannot be had.
    #[error("{run}: region {region:?}")]
    Region {
        /// The run.
        run: String,
        /// The region.
        region: String,
        /// Why.
        #[source]
        source: Box<RegionError>,
    },
    /// A thread that cannot be pinned.
    #[error("{run}: a thread cannot be pinned to processor {cpu}")]
    Pin {
        /// The run.
        run: String,
        /// The processor.
        cpu: u32,
        /// Why.
        #[source]
        source: nearfar_memory::sys::SysError,
    },
    /// The user stopped it.
    #[error("interrupted after {done} of {runs} runs")]
    Stopped {
        /// Runs that were finished.
        done: usize,
        /// Runs of the plan.
        runs: usize,
    },
    /// Results that could not be kept.
    #[error("results cannot be written")]
    Keep(#[source] std::io::Error),
}

/// Follows the execution of a plan.
pub trait Observer {
    /// Whether this run was done before, and is to be left out.
    fn is_done(&self, _run: &PlannedRun) -> bool {
        false
    }

    /// A repetition begins; `left` is about the time until the plan is done.
    fn begins(&mut self, _run: &PlannedRun, _index: usize, _repetition: u32, _left: Duration) {}

    /// A run is done.
    ///
    /// # Errors
    /// Where its outcome cannot be kept, which ends the execution.
    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()>;
}

/// Runs every point of `plan` in order. Once `stop` is set, the run in progress is given up.
///
/// # Errors
/// [`ExecuteError`]; outcomes that the observer has got before are valid.
pub fn execute(
    plan: &Plan,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(), ExecuteError> {
    let ticks = Ticks::calibrate();
    let mut memory = Memory::default();
    let mut pace = Pace::new(plan, observer);
    for (index, run) in plan.runs.iter().enumerate() {
        if observer.is_done(run) {
            continue;
        }
        memory.prepare(plan, run)?;
        let began = Instant::now();
        let mut repetitions = Vec::new();
        for repetition in 0..run.spec.repetitions {
            observer.begins(run, index, repetition, pace.left());
            let done = once(plan, run, &mut memory, &ticks, (repetition, stop))?;
            match done {
                Some(done) if !stop.load(Ordering::Relaxed) => repetitions.push(done),
                _ => {
                    return Err(ExecuteError::Stopped {
                        done: index,
                        runs: plan.runs.len(),
                    });
                }
            }
        }
        let outcome = Outcome::new(run, repetitions, memory.facts(), began.elapsed());
        observer.done(run, &outcome).map_err(ExecuteError::Keep)?;
        pace.done(run);
    }
    Ok(())
}

/// How long the rest takes, by how long the beginning took.
struct Pace {
    began: Instant,
    done: Duration,
    all: Duration,
}

impl Pace {
    fn new(plan: &Plan, observer: &dyn Observer) -> Self {
        let left = plan.runs.iter().filter(|run| !observer.is_done(run));
        Self {
            began: Instant::now(),
            done: Duration::ZERO,
            all: left
                .map(PlannedRun::time)
                .fold(Duration::ZERO, Duration::saturating_add),
        }
    }

    fn done(&mut self, run: &PlannedRun) {
        self.done = self.done.saturating_add(run.time());
    }

    fn left(&self) -> Duration {
        let estimated = self.all.saturating_sub(self.done);
        if self.done.is_zero() {
            return estimated;
        }
        let pace = self.began.elapsed().div_duration_f64(self.done);
        Duration::try_from_secs_f64(estimated.as_secs_f64() * pace).unwrap_or(Duration::MAX)
    }
}

/// One repetition; `None` if it was stopped.
fn once(
    plan: &Plan,
    run: &PlannedRun,
    memory: &mut Memory,
    ticks: &Ticks,
    (repetition, stop): (u32, &AtomicBool),
) -> Result<Option<Repetition>, ExecuteError> {
    let misplaced_before = memory.misplaced();
    let noise = Noise::now();
    let began = Instant::now();
    let worked = memory.with_targets(|targets, regions| {
        let queues: Vec<Queue> = run
            .spec
            .tasks
            .iter()
            .map(|task| Queue::new(&run.spec, task))
            .collect();
        let threads: usize = run.spec.tasks.iter().map(|task| task.threads).sum();
        let foreground = run.spec.tasks.iter().filter(|task| !task.background);
        let shared = Shared {
            run,
            targets,
            regions,
            paced: plan.paced.as_ref(),
            ticks,
            start: Barrier::new(threads),
            began: OnceLock::new(),
            busy: AtomicUsize::new(foreground.map(|task| task.threads).sum()),
            stop,
            seed: run.spec.seed.wrapping_add(u64::from(repetition) << 32),
        };
        work(&shared, &queues)
    });
    let elapsed = began.elapsed();
    let mut tasks = Vec::new();
    for task in worked {
        let threads: Result<Vec<Worked>, (u32, _)> = task.into_iter().collect();
        tasks.push(threads.map_err(|(cpu, source)| ExecuteError::Pin {
            run: run.id(),
            cpu,
            source,
        })?);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let of_threads: Vec<_> = tasks.iter().flatten().map(|worked| worked.noise).collect();
    let misplaced = misplaced_before.or_else(|| memory.misplaced());
    let noise = NoiseReport::since(&noise, &of_threads, misplaced);
    Ok(Some(Repetition {
        tasks,
        noise,
        elapsed,
    }))
}

type Joined = Vec<Result<Worked, (u32, nearfar_memory::sys::SysError)>>;

/// Lets all threads of all tasks work at once; what each did, by task.
fn work(shared: &Shared<'_>, queues: &[Queue]) -> Vec<Joined> {
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (task, queue) in queues.iter().enumerate() {
            let threads = shared.run.spec.tasks[task].threads;
            let of_task: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || Worker::new(shared, task, thread, queue).run()))
                .collect();
            workers.push(of_task);
        }
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        workers
            .into_iter()
            .map(|of_task| of_task.into_iter().map(join).collect())
            .collect()
    })
}
