//! The matrix on this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_memory::sys::{NodeSet, allowed_cpus};
use nearfar_topology::Topology;

use super::application::{Application, ApplicationError, ApplicationMetric};
use super::error::InterferenceError;
use super::execute::{InterferenceObserver, Runner, execute};
use super::matrix::{Ground, Matrix, Point};
use super::outcome::{ApplicationFigure, PointOutcome};
use super::process::{Place, Process};
use super::storage::{FioLoad, Storage, StorageOptions};
use super::traffic::Traffic;
use crate::access::{
    CpuList, Document, ExecuteError, Outcome, Plan, PlanTarget, PlannedRun, Repetition, Target,
    Until,
};
use crate::results::{Gap, Kind};

/// A run of an application, for estimates before the first one is done.
const APPLICATION_TIME: Duration = Duration::from_secs(10);

/// What starting a program and filling memory take, for estimates.
const OVERHEAD: Duration = Duration::from_millis(300);

/// Time between two looks at whether the user wants to stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// How points are run.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// How long one repetition takes.
    pub time: Duration,
    /// How long a load runs before what is under test begins, where one of them is a process.
    pub settle: Duration,
    /// How often each point is run.
    pub repetitions: u32,
    /// Bytes of each region: several times what the caches hold.
    pub region_bytes: u64,
    /// Processors to use; if empty, one of each core that this process may run on.
    pub cpus: Vec<u32>,
    /// The file or device of storage load, if one was named.
    pub storage: Option<StorageOptions>,
    /// The program under test, if there is one.
    pub application: Option<Application>,
    /// The tier that its memory comes from; the kernel's choice if none is named.
    pub application_tier: Option<String>,
}

/// This machine, and what it offers to a matrix.
#[derive(Debug)]
pub struct Native {
    options: NativeOptions,
    topology: Topology,
    cpus: Vec<u32>,
    ground: Ground,
}

impl Native {
    /// Looks at the machine of `topology`, whose sysfs lies below `sys`.
    ///
    /// # Errors
    /// [`InterferenceError::Cpu`] for a processor that this process may not use, and
    /// [`InterferenceError::Cpus`] where the kernel does not tell which it may.
    pub fn new(
        options: NativeOptions,
        topology: Topology,
        sys: &Path,
    ) -> Result<Self, InterferenceError> {
        let allowed = allowed_cpus().map_err(InterferenceError::Cpus)?;
        if let Some(cpu) = options.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(InterferenceError::Cpu {
                cpu: *cpu,
                allowed: CpuList(allowed).to_string(),
            });
        }
        let cpus = match options.cpus.is_empty() {
            true => one_of_each_core(&allowed, sys),
            false => options.cpus.clone(),
        };
        let tiers = topology.tiers.iter().filter(|tier| tier.allocatable);
        let tiers: Vec<String> = tiers.map(|tier| tier.name.clone()).collect();
        let mut gaps = Vec::new();
        if tiers.len() < 2 {
            gaps.push(Gap {
                what: "interference between tiers".to_owned(),
                reason: "this machine has one tier of memory that can be allocated".to_owned(),
            });
        }
        let storage_gap = options
            .storage
            .is_none()
            .then(|| "no file or device was named for it".to_owned());
        let ground = Ground {
            tiers,
            cpus: cpus.len(),
            storage_gap,
            gaps,
            is_virtual: false,
        };
        Ok(Self {
            options,
            topology,
            cpus,
            ground,
        })
    }

    /// What the machine offers.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The processors that threads are pinned to, in the order in which they are taken.
    pub fn cpus(&self) -> CpuList {
        CpuList(self.cpus.clone())
    }

    /// Checks everything that can be checked before anything runs.
    ///
    /// # Errors
    /// [`InterferenceError`]; nothing was allocated, made or run.
    pub fn plan<'a>(&'a self, matrix: &'a Matrix) -> Result<NativePlan<'a>, InterferenceError> {
        let mut documents = Vec::new();
        let mut runs = BTreeMap::new();
        for point in &matrix.points {
            if let Some(text) = self.specification(point) {
                runs.insert(point.to_string(), documents.len());
                let name = point.to_string();
                documents
                    .push(Document::parse(&name, &text).map_err(crate::access::PlanError::from)?);
            }
        }
        let plan = Plan::of_documents(&documents, &self.topology, Vec::new())?;
        let is_storage = |traffic: &Traffic| matches!(traffic, Traffic::Storage(_));
        let writes = |traffic: &Traffic| match traffic {
            Traffic::Storage(pattern) => pattern.writes(),
            _ => false,
        };
        let traffic = || {
            let background = |point: &'a Point| point.background.as_ref().map(|(one, _)| one);
            let points = matrix.points.iter();
            points.flat_map(move |point| background(point).into_iter().chain([&point.subject]))
        };
        let application = self.options.application.as_ref();
        let is_on_storage =
            application.is_some_and(|one| matches!(one.metric, ApplicationMetric::Fio));
        let storage = match &self.options.storage {
            Some(options) if traffic().any(is_storage) || is_on_storage => {
                let writes = traffic().any(writes) || is_on_storage;
                Some(Storage::check(options, writes)?)
            }
            _ => None,
        };
        let nodes = self.application_nodes(&plan)?;
        Ok(NativePlan {
            native: self,
            matrix,
            plan,
            runs,
            storage,
            nodes,
        })
    }

    /// The nodes that the memory of the application comes from.
    fn application_nodes(&self, plan: &Plan) -> Result<Option<NodeSet>, InterferenceError> {
        let (Some(name), PlanTarget::Memory { system, .. }) =
            (&self.options.application_tier, &plan.target)
        else {
            return Ok(None);
        };
        let tier = system.tier(name)?;
        let nodes: NodeSet = system.nodes(tier).iter().copied().collect();
        match nodes.is_empty() || system.info(tier).is_modelled() {
            true => Err(ApplicationError::NoNode { tier: name.clone() }.into()),
            false => Ok(Some(nodes)),
        }
    }

    /// The access benchmark of a point, if some of it accesses memory.
    fn specification(&self, point: &Point) -> Option<String> {
        let options = &self.options;
        let is_beside_process = point.subject.is_process();
        let time = match is_beside_process {
            // As long as the process runs.
            true => "100000000s".to_owned(),
            false => format!("{}us", options.time.as_micros().max(1)),
        };
        let mut text = format!(
            "name = \"interference\"\nrepetitions = {}\ntime = \"{time}\"\nbatch = \"4MiB\"\n",
            options.repetitions
        );
        let before = text.len();
        let mut regions = Regions {
            text: &mut text,
            bytes: options.region_bytes,
        };
        regions.of(&point.subject, "tested");
        if let Some((traffic, _)) = &point.background {
            regions.of(traffic, "beside");
        }
        if text.len() == before {
            return None;
        }
        let (own, others) = self.pins(point);
        add_task(&mut text, &point.subject, "tested", own, false);
        if let Some((traffic, _)) = &point.background {
            add_task(&mut text, traffic, "beside", others, !is_beside_process);
        }
        Some(text)
    }

    /// Processors of what is under test, and of the background.
    fn pins(&self, point: &Point) -> (&[u32], &[u32]) {
        let (own, rest) = self.cpus.split_at(point.threads.min(self.cpus.len()));
        let others = point.background.as_ref().map_or(0, |(_, others)| *others);
        (own, &rest[..others.min(rest.len())])
    }
}

/// Writes the regions of a specification.
struct Regions<'a> {
    text: &'a mut String,
    bytes: u64,
}

impl Regions<'_> {
    fn of(&mut self, traffic: &Traffic, task: &str) {
        match traffic {
            Traffic::Memory { tier, .. } => self.add(task, tier),
            Traffic::Copy { from, to, .. } => {
                self.add(task, to);
                self.add(&format!("{task}-from"), from);
            }
            Traffic::Storage(_) | Traffic::Application => {}
        }
    }

    fn add(&mut self, name: &str, tier: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "[region.{name}]\nsize = \"{}\"\nplacement = \"{tier}\"",
            self.bytes
        );
    }
}

/// Adds the task that makes the accesses of `traffic`, if it makes any.
fn add_task(text: &mut String, traffic: &Traffic, name: &str, cpus: &[u32], is_background: bool) {
    let (operation, source) = match traffic {
        Traffic::Memory { operation, .. } => (operation.operation(), String::new()),
        Traffic::Copy { operation, .. } => {
            (operation.operation(), format!("source = \"{name}-from\"\n"))
        }
        Traffic::Storage(_) | Traffic::Application => return,
    };
    let pins = CpuList(cpus.to_vec());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "[task.{name}]\noperation = \"{operation}\"\nregion = \"{name}\"\n{source}threads = {}\n\
         pin = \"{pins}\"\nbackground = {is_background}\n",
        cpus.len()
    );
}

/// One processor of each core, of those that this process may run on; all where the machine does not
/// tell which of them share a core.
fn one_of_each_core(allowed: &[u32], sys: &Path) -> Vec<u32> {
    let siblings = |cpu: u32| -> Option<CpuList> {
        let file = format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        std::fs::read_to_string(sys.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let is_first = |cpu: &u32| match siblings(*cpu) {
        Some(list) => list.0.iter().find(|one| allowed.contains(one)) == Some(cpu),
        None => true,
    };
    allowed.iter().copied().filter(is_first).collect()
}

/// A matrix that was checked against this machine.
#[derive(Debug)]
pub struct NativePlan<'a> {
    native: &'a Native,
    matrix: &'a Matrix,
    plan: Plan,
    /// Which run of the plan a point has.
    runs: BTreeMap<String, usize>,
    storage: Option<Storage>,
    nodes: Option<NodeSet>,
}

impl NativePlan<'_> {
    /// Most bytes of memory that any point takes.
    pub fn memory_bytes(&self) -> u64 {
        self.plan.memory_bytes()
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
            _ => options.time,
        };
        let settle = if is_settled {
            options.settle
        } else {
            Duration::ZERO
        };
        (once + settle) * options.repetitions + OVERHEAD
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
        let outcome = match run {
            Some(run) if !point.subject.is_process() => self.memory(run, stop)?,
            _ => self.process(point, run, stop)?,
        };
        let Some(mut outcome) = outcome else {
            return Ok(None);
        };
        if let Some((pattern, process)) = load {
            let storage = given.storage();
            let process = storage.running(process)?;
            outcome.background = vec![storage.finish(pattern, process)?];
        }
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
    ) -> Result<Option<(super::traffic::StoragePattern, Process)>, InterferenceError> {
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
        let memory: Option<Repetition> = memory.map_err(|error: ExecuteError| error)?;
        Ok(tested?.zip(memory).map(|(tested, memory)| Beside {
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
                    time: options.time,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_of_each_core_is_taken() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5")] {
            let folder = format!("devices/system/cpu/cpu{cpu}/topology");
            let folder = sys.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        assert_eq!(one_of_each_core(&[0, 1, 4, 5], sys.path()), [0, 1]);
        assert_eq!(one_of_each_core(&[1, 4, 5], sys.path()), [1, 4]);
        assert_eq!(
            one_of_each_core(&[7, 8], sys.path()),
            [7, 8],
            "nothing is told"
        );
    }
}
