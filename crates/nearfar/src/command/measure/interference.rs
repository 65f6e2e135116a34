//! `nearfar measure interference`.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nearfar_measure::Kind;
use nearfar_measure::interference::{
    Application, ApplicationMetric, Ground, InterferenceError, InterferenceObserver, MachineState,
    Matrix, Modelled, Native, NativeOptions, NativePlan, Point, PointOutcome, PresetInputs,
    Selection, StorageOptions, Table,
};
use nearfar_measure::report::Report;
use nearfar_measure::results::{Header, Metric};
use nearfar_topology::{Known, Profile, Topology};
use serde_json::json;

use super::interference_table as table;
use super::keep::{Destination, Results};
use crate::args::{ApplicationArgs, InterferenceArgs, StorageArgs};
use crate::exit::{Exit, Failed};
use crate::human::Elapsed;
use crate::interrupt::Interrupts;
use crate::machine::front;
use crate::message;
use crate::output::figures;
use crate::output::file::save_page;
use crate::progress::Live;

/// Runs the command.
pub fn run(args: &InterferenceArgs) -> anyhow::Result<()> {
    let ground = On::new(args)?;
    let matrix = Matrix::new(&selection(args, &ground), ground.ground())?;
    if args.dry_run {
        return dry_run(args, &ground, &matrix);
    }
    // Everything is checked before a file is begun.
    if let On::Machine(native) = &ground {
        warn(&native.plan(&matrix)?);
    }
    let settings = settings(args, &ground);
    let header = header(&ground, &settings);
    let to = Destination {
        output: args.output.as_deref(),
        resume: args.resume,
        format: args.figures.format,
    };
    let results = Results::open(to, &settings, header)?;
    let report = args.report.clone();
    let kind = ground.kind();
    let (matrix, outcome, mut results) = execute(ground, matrix, results)?;
    let cells = Table::of(results.figures().1).metrics();
    let missing = matrix.missing.iter().map(|cell| cell.metric(kind));
    results.run(&cells.into_iter().chain(missing).collect::<Vec<_>>())?;
    if let Some(path) = &report {
        let (header, metrics) = results.figures();
        save_page(&page(header, metrics), path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    // What is done is kept, also after Ctrl-C or a failure.
    results.finish(|metrics, out| {
        let found = Table::of(metrics);
        table::matrix(&found, out)?;
        table::causes(&found.causes(metrics), out)
    })?;
    Ok(outcome?)
}

/// The page of results of this command.
pub fn page(header: &Header, metrics: &[Metric]) -> Report {
    Table::page(header, metrics)
}

/// Where the matrix runs.
enum On {
    Machine(Box<Native>),
    Model(Box<Modelled>),
}

impl On {
    fn new(args: &InterferenceArgs) -> anyhow::Result<Self> {
        if let Some(name) = &args.profile {
            let modelled = Modelled::new(&Profile::resolve(name)?)?;
            let modelled = match args.causes {
                true => modelled.explaining(),
                false => modelled,
            };
            return Ok(Self::Model(Box::new(modelled)));
        }
        if args.application.kind().is_some() && !args.application.is_named() {
            let message = "--application-type is of an application: give --application or --application-preset";
            return Err(Failed::new(Exit::Usage, message).into());
        }
        let options = NativeOptions {
            time: args.time,
            settle: args.settle,
            repetitions: args.repetitions,
            region_bytes: args.region_size.0,
            cpus: args
                .cpus
                .as_ref()
                .map_or_else(Vec::new, |list| list.0.clone()),
            storage: storage(&args.storage),
            application: application(&args.application, args.storage.storage.as_deref())?,
            application_tier: args.application.tier().map(str::to_owned),
            causes: args.causes,
        };
        let native = Native::new(options, Topology::this_machine()?, Path::new("/sys"))?;
        Ok(Self::Machine(Box::new(native)))
    }

    fn ground(&self) -> &Ground {
        match self {
            Self::Machine(native) => native.ground(),
            Self::Model(modelled) => modelled.ground(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Machine(_) => Kind::Measured,
            Self::Model(_) => Kind::Modelled,
        }
    }
}

fn storage(args: &StorageArgs) -> Option<StorageOptions> {
    Some(StorageOptions {
        path: args.storage.clone()?,
        bytes: args.storage_size.0,
        engine: args.storage_engine.clone(),
        depth: args.storage_depth,
        direct: !args.storage_buffered,
        overwrite: args.storage_overwrite,
        time: args.storage_time,
    })
}

fn application(
    args: &ApplicationArgs,
    storage: Option<&Path>,
) -> anyhow::Result<Option<Application>> {
    if let Some(name) = &args.application_preset {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let inputs = PresetInputs {
            storage,
            program: Some(&program),
            tier: args.tier(),
        };
        return Ok(Some(Application::preset(name, inputs)?));
    }
    let Some(command) = &args.application else {
        return Ok(None);
    };
    let metric = match &args.metric_pattern {
        Some(pattern) => ApplicationMetric::pattern(pattern, args.lower_is_better)?,
        None => ApplicationMetric::Seconds,
    };
    Ok(Some(Application {
        command: command.clone(),
        metric,
        places_itself: false,
    }))
}

fn selection(args: &InterferenceArgs, on: &On) -> Selection {
    let numbers = |threads: &[NonZeroU32]| threads.iter().map(|one| one.get() as usize).collect();
    let application = &args.application;
    let is_named = application.is_named();
    let beside = match application.kind() {
        Some(kind) => kind
            .beside()
            .iter()
            .map(|words| (*words).to_owned())
            .collect(),
        None => args.beside.clone(),
    };
    Selection {
        under_test: args.under_test.clone(),
        beside,
        threads: numbers(&args.threads),
        background_threads: numbers(&args.background_threads),
        is_application: is_named && matches!(on, On::Machine(_)),
    }
}

/// What figures depend on: with other settings, results are not gone on with.
fn settings(args: &InterferenceArgs, on: &On) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut put = |name: &str, value: String| settings.insert(name.to_owned(), value);
    if args.causes {
        put("causes", "watched".to_owned());
    }
    match on {
        On::Model(_) => {
            put("clock", "virtual".to_owned());
            put("profile", args.profile.clone().unwrap_or_default());
        }
        On::Machine(native) => {
            put("processors", native.cpus().to_string());
            put("time", format!("{}s", args.time.as_secs_f64()));
            put("settle", format!("{}s", args.settle.as_secs_f64()));
            put("repetitions", args.repetitions.to_string());
            put("region bytes", args.region_size.0.to_string());
            if let Some(options) = storage(&args.storage) {
                put("storage", format!("{options:?}"));
            }
            let application = &args.application;
            let command = application.application.as_ref();
            if let Some(command) = command.or(application.application_preset.as_ref()) {
                let pattern = application.metric_pattern.as_deref();
                put("application", command.clone());
                put("metric", pattern.unwrap_or("its own").to_owned());
                let tier = application.tier();
                put("on", tier.unwrap_or("the kernel's choice").to_owned());
            }
        }
    }
    settings
}

fn header(on: &On, settings: &BTreeMap<String, String>) -> Header {
    let mut configuration = json!({
        "matrix": "interference",
        "settings": settings,
        "tiers": on.ground().tiers,
        "processors for threads": on.ground().cpus,
    });
    let mut gaps = Vec::new();
    if let On::Machine(_) = on {
        for (name, fact) in MachineState::read(Path::new("/")).facts {
            match fact {
                Known::Value(value) => configuration[name] = value.into(),
                Known::Unavailable(reason) => gaps.push((name.to_owned(), reason.to_string())),
            }
        }
    }
    let of_ground = on.ground().gaps.iter();
    gaps.extend(of_ground.map(|gap| (gap.what.clone(), gap.reason.clone())));
    let header = figures::header(configuration);
    gaps.into_iter().fold(header, |header, (what, reason)| {
        header.unavailable(what, reason)
    })
}

fn warn(plan: &NativePlan<'_>) {
    if let Some(warning) = plan.warning() {
        message::print(warning);
    }
}

fn dry_run(args: &InterferenceArgs, on: &On, matrix: &Matrix) -> anyhow::Result<()> {
    let (time, bytes) = match on {
        On::Machine(native) => {
            let plan = native.plan(matrix)?;
            warn(&plan);
            (plan.time(), plan.memory_bytes())
        }
        On::Model(modelled) => (modelled.time(matrix), 0),
    };
    let estimated =
        |name: &str, value: f64, unit: &str| Metric::new(name, value, unit, Kind::Estimated);
    let mut metrics = vec![
        estimated("plan_seconds", time.as_secs_f64(), "s"),
        estimated("plan_memory_bytes", bytes as f64, "B"),
        estimated("plan_points", matrix.points.len() as f64, "count"),
    ];
    metrics.extend(matrix.missing.iter().map(|cell| cell.metric(on.kind())));
    let header = header(on, &settings(args, on));
    figures::print(args.figures.format, &header, &metrics, |_, out| {
        table::plan(matrix, on.ground(), time, bytes, out)
    })
}

type Executed = (Matrix, Result<(), InterferenceError>, Results);

/// Runs the matrix on a thread of its own, so that this one can listen for signals.
fn execute(on: On, matrix: Matrix, results: Results) -> anyhow::Result<Executed> {
    let stop = Arc::new(AtomicBool::new(false));
    let live = Live::default();
    let spinner = live.spinner();
    let mut follower = Follower {
        results,
        live,
        points: matrix.points.len(),
    };
    let front = front()?;
    let (done, ended) = tokio::sync::oneshot::channel();
    let interrupted = front.block_on(async {
        // From before anything is started, so that nothing is left.
        let mut interrupts = Interrupts::listen_to_all()?;
        let worker = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let outcome = match &on {
                    On::Machine(native) => native
                        .plan(&matrix)
                        .and_then(|plan| plan.execute(&stop, &mut follower)),
                    On::Model(modelled) => modelled.execute(&matrix, &stop, &mut follower),
                };
                // The receiver is gone only if the listener failed, which is told instead.
                let _ = done.send(());
                (matrix, outcome, follower.results)
            }
        });
        if interrupts.during(ended).await.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        anyhow::Ok(worker)
    });
    let executed = interrupted?
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    drop(spinner);
    Ok(executed)
}

struct Follower {
    results: Results,
    live: Live,
    points: usize,
}

impl InterferenceObserver for Follower {
    fn is_done(&self, point: &Point) -> bool {
        self.results.has_run(&point.to_string())
    }

    fn begins(&mut self, point: &Point, index: usize, left: Duration) {
        let (points, index, point) = (self.points, index + 1, point.to_string());
        tracing::info!("{point}");
        let began = Instant::now();
        self.live.follow(move || {
            let left = Elapsed(left.saturating_sub(began.elapsed()));
            format!("point {index} of {points}: {point}; about {left} left")
        });
    }

    fn done(&mut self, point: &Point, outcome: &PointOutcome) -> io::Result<()> {
        for reason in &outcome.noise_reasons {
            tracing::info!("disturbed: {point}: {reason}");
        }
        self.results.run(&outcome.metrics(point))
    }
}
