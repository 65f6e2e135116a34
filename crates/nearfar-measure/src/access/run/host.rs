//! Runs in the memory of this machine.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Instant;

use nearfar_memory::{MemorySystem, TierId};
use nearfar_model::EmulatedTier;

use super::execute::{ExecuteError, Until, without_prefetchers};
use super::memory::Memory;
use super::queue::Queue;
use super::worker::{Shared, Worked, Worker};
use crate::access::kernels::Ticks;
use crate::access::noise::{Noise, NoiseReport};
use crate::access::outcome::{RegionFacts, Repetition};
use crate::access::plan::PlannedRun;
use crate::access::prefetchers::PrefetchersOff;

/// This machine, with the regions of the run in progress.
pub(crate) struct Host<'a> {
    system: &'a Arc<MemorySystem>,
    models: &'a [(TierId, Arc<EmulatedTier>)],
    ticks: Ticks,
    memory: Memory,
    /// Where the run in progress is to have none.
    prefetchers: Option<PrefetchersOff>,
}

impl<'a> Host<'a> {
    pub(super) fn new(
        system: &'a Arc<MemorySystem>,
        models: &'a [(TierId, Arc<EmulatedTier>)],
    ) -> Self {
        Self {
            system,
            models,
            ticks: Ticks::calibrate(),
            memory: Memory::default(),
            prefetchers: None,
        }
    }

    /// Has prefetchers as `run` wants them, and gets and fills its regions; false if it was stopped.
    pub(super) fn prepare(
        &mut self,
        run: &PlannedRun,
        stop: &AtomicBool,
    ) -> Result<bool, ExecuteError> {
        if run.spec.prefetchers {
            self.prefetchers = None;
        } else if self.prefetchers.is_none() {
            self.prefetchers = Some(without_prefetchers(run)?);
        }
        self.memory.prepare(self.system, run, stop)
    }

    pub(super) fn facts(&self) -> Vec<RegionFacts> {
        self.memory.facts()
    }

    /// One repetition; `None` if it was stopped.
    pub(super) fn once(
        &mut self,
        run: &PlannedRun,
        repetition: u32,
        until: Until<'_>,
    ) -> Result<Option<Repetition>, ExecuteError> {
        let ticks = &self.ticks;
        let misplaced_before = self.memory.misplaced();
        let noise = Noise::now();
        let began = Instant::now();
        let worked = self.memory.with_targets(self.models, |targets, emulated| {
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
                emulated,
                ticks,
                start: Barrier::new(threads),
                began: OnceLock::new(),
                busy: AtomicUsize::new(foreground.map(|task| task.threads).sum()),
                until,
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
        if until.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let of_threads: Vec<_> = tasks.iter().flatten().map(|worked| worked.noise).collect();
        let misplaced = misplaced_before.or_else(|| self.memory.misplaced());
        let noise = NoiseReport::since(&noise, &of_threads, misplaced);
        Ok(Some(Repetition {
            tasks,
            noise: Some(noise),
            elapsed,
            simulated: None,
        }))
    }
}

type Joined = Vec<Result<Worked, (u32, nearfar_memory::sys::SysError)>>;

/// Lets all threads of all tasks work concurrently; what each did, by task.
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
