//! A comparison from beginning to end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_memory::MemorySystem;
use nearfar_model::simulation::{Machine, MachineError};
use nearfar_model::{EmulationParameters, ParameterError};

use super::options::{BenchOptions, KeyForm, OptionError};
use super::outcome::{IndexBenchOutcome, PlacedRun};
use crate::map::{Contestant, EntryBytes, MemorySource, NearMemory, PlatformMemory, TestKey};
use crate::modelled::{self, ModelledMachine};
use crate::native::{self, Event, NativeError, NativeOptions};
use crate::placed::{Mode, PlacedError, PlacedOptions, PlacedOutcome, Policy};
use crate::real_time::{self, NoFarMemory, OwnTiers};
use crate::workload::{
    BlockTrace, Bytes, FileKeys, HotRegion, Integers, KeyFileError, KeySpace, TraceError,
    TraceKeys, Urls, Workload, open_lines,
};

/// Why a comparison ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexBenchError {
    /// An option that means nothing.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// A trace that cannot be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Keys that cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// A machine that cannot be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A native run.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// A far tier that cannot be emulated.
    #[error(transparent)]
    Emulation(#[from] ParameterError),
    /// A run under policies on a machine without far memory.
    #[error(transparent)]
    NoFarMemory(#[from] NoFarMemory),
    /// A run under a policy.
    #[error("{contestant} under {policy}")]
    Placed {
        /// The tree.
        contestant: Contestant,
        /// The policy.
        policy: Policy,
        /// Why.
        #[source]
        source: PlacedError,
    },
}

/// One series of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRun {
    /// Who.
    pub contestant: Contestant,
    /// What is asked.
    pub workload: Workload,
    /// Threads, or virtual cores.
    pub threads: usize,
    /// The policy; none where maps are compared.
    pub policy: Option<Policy>,
}

/// All that will be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What was asked for.
    pub options: BenchOptions,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The series.
    pub runs: Vec<PlannedRun>,
    trace: Option<Arc<BlockTrace>>,
    keys: Option<FileKeys>,
    machine: Option<Machine>,
    far: Option<EmulationParameters>,
}

/// How far a comparison is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is going on.
    pub what: String,
    /// The share that is done, from 0 to 1.
    pub share: f64,
    /// How long the rest will take, if it goes on as it did; none while nobody can tell.
    pub left: Option<Duration>,
}

/// Checks the options and finds all that will be run.
///
/// # Errors
/// [`IndexBenchError`]: an option means nothing, the trace is wrong, the machine cannot be
/// simulated.
pub fn plan(options: BenchOptions) -> Result<Plan, IndexBenchError> {
    options.check()?;
    let trace = options.trace.as_ref().map(|path| {
        let (file, source) = open_lines(path)?;
        Ok::<_, TraceError>(Arc::new(BlockTrace::read(&file, source)?))
    });
    let trace = trace.transpose()?;
    let keys = options.key_file.as_ref().map(|path| {
        let (file, source) = open_lines(path)?;
        FileKeys::read(&file, source)
    });
    let keys = keys.transpose()?;
    let machine = match (options.mode, &options.profile) {
        (Mode::Virtual, Some(profile)) => Some(Machine::new(profile)?),
        _ => None,
    };
    let far = match (options.mode, &options.profile) {
        (Mode::Emulated, Some(profile)) => Some(EmulationParameters::try_from(profile)?),
        _ => None,
    };
    for threads in options
        .threads
        .iter()
        .filter(|_| options.mode == Mode::Virtual)
    {
        if let Some(machine) = &machine {
            // One more moves what placement moves.
            machine.check_threads(threads.get() + 1)?;
        }
    }
    let workloads = workloads(&options, trace.as_ref())?;
    let mut runs = Vec::new();
    for workload in &workloads {
        for threads in options.threads.iter().map(|threads| threads.get()) {
            for contestant in options.contestants.iter().copied() {
                let policies = match options.is_placed() {
                    false => vec![None],
                    true => options.policies.iter().copied().map(Some).collect(),
                };
                runs.extend(policies.into_iter().map(|policy| PlannedRun {
                    contestant,
                    workload: workload.clone(),
                    threads,
                    policy,
                }));
            }
        }
    }
    Ok(Plan {
        options,
        workloads,
        runs,
        trace,
        keys,
        machine,
        far,
    })
}

fn workloads(
    options: &BenchOptions,
    trace: Option<&Arc<BlockTrace>>,
) -> Result<Vec<Workload>, OptionError> {
    if let Some(trace) = trace {
        return Ok(vec![Workload::replay(Arc::clone(trace))]);
    }
    let mut workloads = Vec::new();
    for name in &options.workloads {
        let workload = Workload::named(name).map_err(|error| OptionError {
            field: "workload",
            reason: error.to_string(),
        })?;
        if options.zipf.is_empty() {
            workloads.push(workload);
        } else {
            let with = |exponent: &f64| workload.clone().with_zipf(*exponent);
            workloads.extend(options.zipf.iter().map(with));
        }
    }
    workloads.dedup();
    Ok(workloads)
}

/// Runs all of a plan. Where maps are compared natively, our trees' nodes, and the global allocator's blocks, are on the
/// near tier of `system`; without one, on the platform's heap, and nobody counts bytes. Natively under policies, nodes are
/// on its near tier and its far one, which it must have.
///
/// # Errors
/// [`IndexBenchError`].
pub fn execute(
    plan: &Plan,
    system: Option<&Arc<MemorySystem>>,
    observe: &mut dyn FnMut(Progress),
) -> Result<IndexBenchOutcome, IndexBenchError> {
    let keys = plan.options.keys;
    if let Some(trace) = &plan.trace {
        return execute_on(plan, TraceKeys(Arc::clone(trace)), system, observe);
    }
    if let Some(keys) = &plan.keys {
        return execute_on(plan, keys.clone(), system, observe);
    }
    match plan.options.form {
        KeyForm::Integers => execute_on(plan, Integers::new(keys), system, observe),
        KeyForm::Bytes(length) => execute_on(plan, Bytes::new(keys, length), system, observe),
        KeyForm::Urls => execute_on(plan, Urls::new(keys), system, observe),
    }
}

fn execute_on<S: KeySpace>(
    plan: &Plan,
    keys: S,
    system: Option<&Arc<MemorySystem>>,
    observe: &mut dyn FnMut(Progress),
) -> Result<IndexBenchOutcome, IndexBenchError> {
    let mut outcome = IndexBenchOutcome {
        options: plan.options.clone(),
        keys: keys.count(),
        left_out: Vec::new(),
        compared: Vec::new(),
        placed: Vec::new(),
    };
    let (contestants, left_out) = taking_part(&plan.options, &keys)?;
    outcome.left_out = left_out;
    if !plan.options.is_placed() {
        outcome.compared = run_native(plan, contestants, (&keys, system), observe)?;
    } else if let Some(machine) = &plan.machine {
        let keys = Rc::new(keys);
        let modelled = ModelledMachine {
            machine: machine.clone(),
            scale: plan.options.scale,
            sampling: plan.options.sampled(),
        };
        outcome.placed = run_placed(plan, &contestants, observe, |planned, policy, observe| {
            let options = placed_options(&plan.options, planned, policy);
            modelled::run(&options, &modelled, &keys, observe)
        })?;
    } else {
        outcome.placed = run_in_real_time(plan, &contestants, (&keys, system), observe)?;
    }
    Ok(outcome)
}

/// Far memory of runs in real time.
enum FarMemory<'p> {
    Emulated(&'p EmulationParameters),
    Own(OwnTiers),
}

/// Runs all of a plan under its policies on this machine: with emulated far memory, or with its own.
fn run_in_real_time<S: KeySpace>(
    plan: &Plan,
    contestants: &[Contestant],
    (keys, system): (&S, Option<&Arc<MemorySystem>>),
    observe: &mut dyn FnMut(Progress),
) -> Result<Vec<PlacedRun>, IndexBenchError> {
    let far = match (&plan.far, system) {
        (Some(far), _) => FarMemory::Emulated(far),
        (None, Some(system)) => FarMemory::Own(own_tiers(plan, system)?),
        (None, None) => {
            let tiers = vec!["the platform's heap".to_owned()];
            return Err(NoFarMemory { tiers }.into());
        }
    };
    let (mut bytes, value_bytes) = (HashMap::new(), plan.options.value_bytes);
    let near = system.map(near_memory);
    let is_kernels = plan
        .options
        .policies
        .iter()
        .any(|one| one.kernel().is_some());
    // What the platform's allocator keeps of a dropped tree would be in the kernel's way.
    let source: &dyn MemorySource = match &near {
        Some(near) if is_kernels => near,
        _ => &PlatformMemory,
    };
    run_placed(plan, contestants, observe, |planned, policy, observe| {
        let contestant = planned.contestant;
        let options = placed_options(&plan.options, planned, policy);
        let tree_bytes = match bytes.entry(contestant) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => {
                let bytes = real_time::loaded_bytes(contestant, value_bytes, keys, source)?;
                if let FarMemory::Own(tiers) = &far {
                    tiers.check_share(&plan.options.policies, options.near_bytes(bytes))?;
                }
                *unknown.insert(bytes)
            }
        };
        let loaded = (keys, tree_bytes);
        match &far {
            FarMemory::Emulated(far) => real_time::run_emulated(&options, far, loaded, observe),
            FarMemory::Own(tiers) => real_time::run_on(tiers, &options, loaded, observe),
        }
    })
}

/// The machine's tiers, where it has all that the policies of a plan need.
fn own_tiers(plan: &Plan, system: &Arc<MemorySystem>) -> Result<OwnTiers, IndexBenchError> {
    let tiers = OwnTiers::new(system)?;
    for run in &plan.runs {
        let Some(policy) = run.policy else { continue };
        let checked = tiers.check(policy);
        checked.map_err(|source| IndexBenchError::Placed {
            contestant: run.contestant,
            policy,
            source: source.into(),
        })?;
    }
    Ok(tiers)
}

/// Those who can take part with these keys, and those who cannot with the reason.
fn taking_part<S: KeySpace>(
    options: &BenchOptions,
    keys: &S,
) -> Result<TakingPart, IndexBenchError> {
    let (mut contestants, mut left_out, mut last) = (Vec::new(), Vec::new(), None);
    let bytes = EntryBytes {
        key_max: keys.key_bytes_max(),
        value: options.value_bytes,
    };
    for contestant in options.contestants.iter().copied() {
        match contestant.refusal(S::Key::IS_INTEGER, bytes) {
            None => contestants.push(contestant),
            Some(error) => {
                left_out.push((contestant, error.to_string()));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if contestants.is_empty() => Err(NativeError::Open(error).into()),
        _ => Ok((contestants, left_out)),
    }
}

/// Heaps on the near tier, as large as that.
fn near_memory(system: &Arc<MemorySystem>) -> NearMemory {
    NearMemory {
        system: Arc::clone(system),
        reserve_bytes: None,
    }
}

/// Maps that take part, and those that do not with the reason.
type TakingPart = (Vec<Contestant>, Vec<(Contestant, String)>);

fn run_native<S: KeySpace>(
    plan: &Plan,
    contestants: Vec<Contestant>,
    (keys, system): (&S, Option<&Arc<MemorySystem>>),
    observe: &mut dyn FnMut(Progress),
) -> Result<Vec<native::Compared>, IndexBenchError> {
    let options = &plan.options;
    let near = system.map(near_memory);
    let source: &dyn MemorySource = match &near {
        Some(near) => near,
        None => &PlatformMemory,
    };
    let native = NativeOptions {
        contestants,
        threads: options.threads.clone(),
        runs: options.runs,
        operations: options.operations,
        batch: options.batch,
        value_bytes: options.value_bytes,
        seed: options.seed,
    };
    let mut began = None;
    let watch = |event: Event| {
        observe(match event {
            Event::Loading { contestant } => Progress {
                what: format!("loading {contestant}"),
                share: 0.0,
                left: None,
            },
            Event::Ran {
                contestant,
                workload,
                threads,
                progress: (done, all),
                ..
            } => {
                let began = *began.get_or_insert_with(Instant::now);
                let share = done as f64 / all as f64;
                Progress {
                    what: format!("{workload}, {threads} threads: {contestant}"),
                    share,
                    left: left(began.elapsed(), share),
                }
            }
            _ => return,
        });
    };
    Ok(native::compare(
        &native,
        &plan.workloads,
        keys,
        (source, system),
        watch,
    )?)
}

/// How long the rest takes, if it goes on as it did.
fn left(elapsed: Duration, share: f64) -> Option<Duration> {
    (share > 0.01).then(|| elapsed.mul_f64((1.0 - share).max(0.0) / share))
}

/// How often the hot region moves, by its own width.
fn shift(options: &BenchOptions) -> Option<(Duration, f64)> {
    let width = HotRegion::ZHAO_2026.key_share;
    options.shift.map(|every| (every, width))
}

fn placed_options(options: &BenchOptions, planned: &PlannedRun, policy: Policy) -> PlacedOptions {
    PlacedOptions {
        contestant: planned.contestant,
        policy,
        workload: planned.workload.clone(),
        near_percent: options.near_percent,
        threads: planned.threads,
        batch: options.batch.get(),
        warm_up: options.warm_up,
        measured: options.measured,
        slice: options.slice,
        shift: shift(options),
        value_bytes: options.value_bytes,
        tuning: options.tuning,
        seed: options.seed,
    }
}

/// Runs all of a plan that these contestants have under its policies, each run by `run`, which tells the share of it
/// that is done.
fn run_placed(
    plan: &Plan,
    contestants: &[Contestant],
    observe: &mut dyn FnMut(Progress),
    mut run: impl FnMut(&PlannedRun, Policy, &mut dyn FnMut(f64)) -> Result<PlacedOutcome, PlacedError>,
) -> Result<Vec<PlacedRun>, IndexBenchError> {
    let (began, mut all) = (Instant::now(), Vec::new());
    let runs = plan.runs.iter();
    let runs = runs.filter(|planned| contestants.contains(&planned.contestant));
    let runs: Vec<&PlannedRun> = runs.collect();
    for (index, planned) in runs.iter().copied().enumerate() {
        let policy = planned.policy.unwrap_or(Policy::AllNear);
        let contestant = planned.contestant;
        let mut watch = |share: f64| {
            let share = (index as f64 + share) / runs.len() as f64;
            observe(Progress {
                what: format!("{}: {contestant} under {policy}", planned.workload.name),
                share,
                left: left(began.elapsed(), share),
            });
        };
        watch(0.0);
        let outcome = run(planned, policy, &mut watch);
        let outcome = outcome.map_err(|source| IndexBenchError::Placed {
            contestant,
            policy,
            source,
        })?;
        all.push(PlacedRun {
            planned: planned.clone(),
            policy,
            outcome,
        });
    }
    Ok(all)
}
