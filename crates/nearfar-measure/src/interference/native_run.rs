//! Points on this machine: pinned threads, and processes beside them.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_memory::sys::NodeSet;

use super::application::ApplicationMetric;
use super::causes::Watch;
use super::error::InterferenceError;
use super::execute::{InterferenceObserver, Runner, execute};
use super::matrix::{Matrix, Point};
use super::native::Native;
use super::outcome::{ApplicationFigure, PointOutcome};
use super::storage::{FioLoad, Storage};
use super::traffic::{StoragePattern, Traffic};
use crate::access::{Outcome, Plan, PlannedRun, Repetition, Target, Until};
use crate::process::{Place, Process};
use crate::results::Kind;

/// A run of an application, for estimates before the first one is done.
const APPLICATION_TIME: Duration = Duration::from_secs(10);

/// What starting a program and filling memory take, for estimates.
const OVERHEAD: Duration = Duration::from_millis(300);

/// Time between two looks at whether the user wants to stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A matrix that was checked against this machine.
#[derive(Debug)]
pub struct NativePlan<'a> {
    pub(super) native: &'a Native,
    pub(super) matrix: &'a Matrix,
    pub(super) plan: Plan,
    /// Which run of the plan a point has.
    pub(super) runs: BTreeMap<String, usize>,
    pub(super) storage: Option<Storage>,
    /// The nodes that the memory of the application comes from.
    pub(super) nodes: Option<NodeSet>,
}

impl NativePlan<'_> {
    /// Most bytes of memory that any point takes.
    pub fn memory_bytes(&self) -> u64 {
        self.plan.memory_bytes()
    }

    /// What a reader of its figures should know of the file or device of storage load.
    pub fn warning(&self) -> Option<&str> {
        self.storage.as_ref().and_then(Storage::warning)
    }

    /// About how long all points take; for each run of an application, 10 s are assumed.
    pub fn time(&self) -> Duration {
        let points = self.matrix.points.iter();
        points.map(|point| self.point_time(point)).sum()
    }

    fn point_time(&self, point: &Point) -> Duration {
        let options = &self.native.options;
        let background = point.background.as_ref().map(|(traffic, _)| traffic);
        let is_settled = point.subject.is_process() || background.is_some_and(Traffic::is_process);
        let once = match point.subject {
            Traffic::Application => APPLICATION_TIME,
            Traffic::Storage(_) => self.storage_time(),
            _ => options.time,
        };
        let settle = if is_settled {
            options.settle
        } else {
            Duration::ZERO
        };
        (once + settle) * options.repetitions + OVERHEAD
    }

    /// How long a test of storage takes.
    fn storage_time(&self) -> Duration {
        let options = &self.native.options;
        let own = options.storage.as_ref().and_then(|storage| storage.time);
        own.unwrap_or(options.time)
    }

    /// Runs every point that was not done before. Nothing is left in the end: processes are ended,
    /// and a file that was made is removed.
    ///
    /// # Errors
    /// [`InterferenceError`]; outcomes that the observer has got before are valid.
    pub fn execute(
        mut self,
        stop: &AtomicBool,
        observer: &mut dyn InterferenceObserver,
    ) -> Result<(), InterferenceError> {
        let matrix = self.matrix;
        if let Some(storage) = &mut self.storage {
            storage.prepare(stop)?;
        }
        let mut runner = NativeRunner {
            given: &self,
            target: Target::new(&self.plan),
        };
        execute(matrix, &mut runner, stop, observer)
    }

    /// The storage of a plan that has traffic on it.
    fn storage(&self) -> &Storage {
        let Some(storage) = &self.storage else {
            unreachable!("pairs with storage have no points without it");
        };
        storage
    }
}

/// Runs points one after the other.
struct NativeRunner<'a> {
    given: &'a NativePlan<'a>,
    target: Target<'a>,
}

/// What one repetition beside a process gave.
struct Beside {
    tested: f64,
    memory: Option<Repetition>,
}

impl Runner for NativeRunner<'_> {
    fn time(&self, point: &Point) -> Duration {
        self.given.point_time(point)
    }

    fn run(
        &mut self,
        point: &Point,
        stop: &AtomicBool,
    ) -> Result<Option<PointOutcome>, InterferenceError> {
        let began = Instant::now();
        let given = self.given;
        let run = given.runs.get(&point.to_string());
        let run = run.map(|index| &given.plan.runs[*index]);
        if let Some(run) = run
            && !self.target.prepare(run, stop)?
        {
            return Ok(None);
        }
        let load = self.start_load(point, stop)?;
        let (cpus, _) = given.native.pins(point);
        let watch = || Watch::start(cpus, Path::new("/"));
        let watch = given.native.options.causes.then(watch);
        let outcome = match run {
            Some(run) if !point.subject.is_process() => self.memory(run, stop)?,
            _ => self.process(point, run, stop)?,
        };
        let causes = watch.map_or_else(Vec::new, Watch::finish);
        let Some(mut outcome) = outcome else {
            return Ok(None);
        };
        if let Some((pattern, process)) = load {
            let storage = given.storage();
            let process = storage.running(process)?;
            outcome.background = vec![storage.finish(pattern, process)?];
        }
        outcome.causes = causes;
        outcome.elapsed = began.elapsed();
        Ok(Some(outcome))
    }
}

impl NativeRunner<'_> {
    /// Starts the load on storage that runs beside all repetitions, and lets it settle.
    fn start_load(
        &self,
        point: &Point,
        stop: &AtomicBool,
    ) -> Result<Option<(StoragePattern, Process)>, InterferenceError> {
        let Some((Traffic::Storage(pattern), jobs)) = point.background else {
            return Ok(None);
        };
        let native = self.given.native;
        let (_, cpus) = native.pins(point);
        let load = FioLoad {
            jobs,
            settle: Duration::ZERO,
            // It is ended before; this is for the case that nobody is left to do so.
            time: self.given.point_time(point) * 10 + Duration::from_secs(600),
            cpus: cpus.to_vec(),
        };
        let storage = self.given.storage();
        let process = storage.start(pattern, &load)?;
        rest(native.options.settle, stop);
        Ok(Some((pattern, storage.running(process)?)))
    }

    /// Memory under test, alone, beside memory, or beside a load that was started before.
    fn memory(
        &mut self,
        run: &PlannedRun,
        stop: &AtomicBool,
    ) -> Result<Option<PointOutcome>, InterferenceError> {
        let began = Instant::now();
        let mut repetitions = Vec::new();
        for repetition in 0..run.spec.repetitions {
            match self
                .target
                .once(run, repetition, Until { stop, ended: None })?
            {
                Some(done) if !stop.load(Ordering::Relaxed) => repetitions.push(done),
                _ => return Ok(None),
            }
        }
        let facts = self.target.facts(run);
        let outcome = Outcome::new(run, repetitions, facts, began.elapsed());
        let rates = |task: usize| {
            outcome
                .tasks
                .get(task)
                .map(|one| &one.bandwidth_bytes_per_s)
        };
        Ok(Some(PointOutcome {
            tested: rates(0).cloned().unwrap_or_default(),
            background: rates(1).cloned().unwrap_or_default(),
            application: None,
            kind: Kind::Measured,
            causes: Vec::new(),
            noise_reasons: outcome.noise_reasons,
            elapsed: began.elapsed(),
        }))
    }

    /// A process under test, alone or beside memory.
    fn process(
        &mut self,
        point: &Point,
        run: Option<&PlannedRun>,
        stop: &AtomicBool,
    ) -> Result<Option<PointOutcome>, InterferenceError> {
        let given = self.given;
        let options = &given.native.options;
        let mut tested = Vec::new();
        let mut repetitions = Vec::new();
        for repetition in 0..options.repetitions {
            let done = match run {
                Some(run) => self.process_beside(point, run, repetition, stop)?,
                None => given.process_once(point, stop)?.map(|tested| Beside {
                    tested,
                    memory: None,
                }),
            };
            match done {
                Some(done) if !stop.load(Ordering::Relaxed) => {
                    tested.push(done.tested);
                    repetitions.extend(done.memory);
                }
                _ => return Ok(None),
            }
        }
        let background = run.map(|run| {
            let facts = self.target.facts(run);
            Outcome::new(run, repetitions, facts, Duration::ZERO)
        });
        let background = background.and_then(|outcome| outcome.tasks.into_iter().next());
        let metric = options.application.as_ref().map(|one| &one.metric);
        Ok(Some(PointOutcome {
            tested,
            background: background.map_or_else(Vec::new, |task| task.bandwidth_bytes_per_s),
            application: metric.map(|metric| match metric {
                ApplicationMetric::Seconds => ApplicationFigure::Seconds,
                other => ApplicationFigure::Metric {
                    lower_is_better: other.lower_is_better(),
                },
            }),
            kind: Kind::Measured,
            causes: Vec::new(),
            noise_reasons: Vec::new(),
            elapsed: Duration::ZERO,
        }))
    }

    /// One run of a process under test, while memory is accessed beside it.
    fn process_beside(
        &mut self,
        point: &Point,
        run: &PlannedRun,
        repetition: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Beside>, InterferenceError> {
        let given = self.given;
        let ended = AtomicBool::new(false);
        let until = Until {
            stop,
            ended: Some(&ended),
        };
        let (tested, memory) = thread::scope(|scope| {
            let process = scope.spawn(|| {
                // The background ends also if this fails.
                let _end = Setting(&ended);
                rest(given.native.options.settle, stop);
                given.process_once(point, stop)
            });
            let memory = self.target.once(run, repetition, until);
            let tested = process.join().unwrap_or_else(|panic| resume_unwind(panic));
            (tested, memory)
        });
        Ok(tested?.zip(memory?).map(|(tested, memory)| Beside {
            tested,
            memory: Some(memory),
        }))
    }
}

impl NativePlan<'_> {
    /// One run of a process under test; `None` if it was stopped.
    fn process_once(
        &self,
        point: &Point,
        stop: &AtomicBool,
    ) -> Result<Option<f64>, InterferenceError> {
        let options = &self.native.options;
        let (cpus, _) = self.native.pins(point);
        let cpus = cpus.to_vec();
        match (&point.subject, &options.application) {
            (Traffic::Storage(pattern), _) => {
                let load = FioLoad {
                    jobs: point.threads,
                    settle: options.settle,
                    time: self.storage_time(),
                    cpus,
                };
                Ok(self.storage().measure(*pattern, &load, stop)?)
            }
            (_, Some(application)) => {
                let nodes = self.nodes;
                Ok(application.measure(Place { cpus, nodes }, stop)?)
            }
            _ => unreachable!("only processes come here, and points have theirs"),
        }
    }
}

/// Sets a flag when it is dropped.
struct Setting<'a>(&'a AtomicBool);

impl Drop for Setting<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits, unless the user wants to stop.
fn rest(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(BETWEEN_LOOKS.min(time));
    }
}
