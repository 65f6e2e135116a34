//! Running a specification.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearfar_measure::access::counters::{Counters, Counting};
use nearfar_measure::access::spec::TEXT_BYTES_MAX;
use nearfar_measure::access::{
    Document, ExecuteError, Flag, Observer, Outcome, Plan, PlannedRun, execute,
};
use nearfar_measure::compare::compare;
use nearfar_measure::results::Metric;
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Topology};
use serde_json::json;

use super::keep::{Destination, Results};
use super::{plan, preset, table};
use crate::args::MeasureRunArgs;
use crate::exit::{Exit, Failed};
use crate::human::Elapsed;
use crate::interrupt::Interrupts;
use crate::machine::front;
use crate::output::{comparison, figures};
use crate::progress::Live;

/// Measures.
pub fn run(args: &MeasureRunArgs) -> anyhow::Result<()> {
    let document = document(args)?;
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    if let Some(profile) = profile.as_ref().filter(|_| args.compare_model) {
        return compare_model(args, &document, profile);
    }
    let plan = make_plan(args, &document, profile.as_ref())?;
    if args.dry_run {
        return plan::print(&plan, args.figures.format);
    }
    let configuration = json!({ "settings": plan.settings, "profile": profile });
    let mut header = figures::header(configuration);
    let counters = counters(args)?;
    match &counters {
        Some(Ok(counters)) => {
            for gap in &counters.missing {
                header = header.unavailable(&*gap.what, &*gap.reason);
            }
        }
        Some(Err(reason)) => header = header.unavailable("hardware counters", reason.as_str()),
        None => {}
    }
    let to = Destination {
        output: args.output.as_deref(),
        resume: args.resume,
        format: args.figures.format,
    };
    let results = Results::open(to, &plan.settings, header)?;
    measure(plan, results, counters.and_then(Result::ok))
}

/// What can be counted, or why nothing can, where it is asked for.
fn counters(args: &MeasureRunArgs) -> anyhow::Result<Option<Result<Counters, String>>> {
    Ok(match args.counters {
        true => Some(Counters::of_this_machine(&Topology::this_machine()?)),
        false => None,
    })
}

/// Runs the specification in this machine's memory and then in the model of `profile`, and sets both side by
/// side. Both plans are made before either runs.
fn compare_model(
    args: &MeasureRunArgs,
    document: &Document,
    profile: &Profile,
) -> anyhow::Result<()> {
    let native = plan_in_memory(args, document, None)?;
    let modelled = Plan::simulated(document, profile, None)?;
    let header = figures::header(json!({ "settings": native.settings, "profile": profile }));
    let to = Destination {
        output: None,
        resume: false,
        format: args.figures.format,
    };
    let run = |plan: Plan| -> anyhow::Result<Vec<Metric>> {
        let results = Results::open(to, &plan.settings, header.clone())?;
        let (outcome, results) = executed(plan, results, None)?;
        outcome?;
        Ok(results.figures().1.to_vec())
    };
    let both = [run(native)?, run(modelled)?];
    comparison::print_with_model(args.figures.format, &header, &profile.name, both, compare)
}

/// The specification, with the flags.
fn document(args: &MeasureRunArgs) -> anyhow::Result<Document> {
    let mut document = match (&args.specification, &args.preset) {
        (Some(path), _) => {
            let name = path.display().to_string();
            let text = read_text(path).map_err(|error| {
                Failed::new(Exit::Input, format!("cannot read {name}: {error}"))
            })?;
            Document::parse(&name, &text)?
        }
        (None, Some(name)) => {
            let preset = preset(name)?;
            Document::parse(&format!("preset {}", preset.name), preset.text)?
        }
        (None, None) => Document::default(),
    };
    let written = args.fields.written().into_iter();
    let mut flags: Vec<Flag> = written
        .map(|(path, flag, values)| Flag {
            path: path.to_owned(),
            flag,
            values,
        })
        .collect();
    for text in args.fields.set() {
        let (path, values) = text
            .split_once('=')
            .ok_or_else(|| Failed::new(Exit::Usage, format!("--set {text}: write PATH=VALUE")))?;
        flags.push(Flag {
            path: path.to_owned(),
            flag: "--set".to_owned(),
            values: values
                .split('|')
                .map(|value| value.trim().to_owned())
                .collect(),
        });
    }
    document.apply(&flags)?;
    Ok(document)
}

/// A specification, at most a byte more than is allowed, so that its parser refuses it.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(TEXT_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn make_plan(
    args: &MeasureRunArgs,
    document: &Document,
    profile: Option<&Profile>,
) -> anyhow::Result<Plan> {
    let mut plan = match profile.filter(|_| args.virtual_time) {
        Some(profile) => Plan::simulated(document, profile, args.lines)?,
        None => plan_in_memory(args, document, profile)?,
    };
    if let Some(profile) = profile {
        // So that results of one profile are not gone on with under another.
        let name = profile.name.clone();
        plan.settings.insert("profile".to_owned(), name);
    }
    Ok(plan)
}

fn plan_in_memory(
    args: &MeasureRunArgs,
    document: &Document,
    profile: Option<&Profile>,
) -> anyhow::Result<Plan> {
    let mut topology = Topology::this_machine()?;
    let mut models = Vec::new();
    if let Some(profile) = profile {
        topology = topology.with_profile(profile);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = if args.whole_device {
            BandwidthShare::WholeDevice
        } else {
            BandwidthShare::Threads(u32::try_from(threads)?)
        };
        for (tier, modelled) in topology.modelled(profile) {
            let model = EmulatedTier::of_tier(profile, modelled, share)?;
            models.push((tier.name.clone(), model));
        }
    }
    Ok(Plan::new(document, &topology, models)?)
}

/// Runs the plan and prints what there is.
fn measure(plan: Plan, results: Results, counters: Option<Counters>) -> anyhow::Result<()> {
    let (outcome, results) = executed(plan, results, counters)?;
    // What is done is kept, also after Ctrl-C or a failure.
    results.finish(table::results)?;
    Ok(outcome?)
}

/// Runs the plan on a thread of its own, so that this one can listen for Ctrl-C.
fn executed(
    plan: Plan,
    results: Results,
    counters: Option<Counters>,
) -> anyhow::Result<(Result<(), ExecuteError>, Results)> {
    let stop = Arc::new(AtomicBool::new(false));
    let live = Live::default();
    let spinner = live.spinner();
    let runs = plan.runs.len();
    let mut follower = Follower {
        results,
        live,
        runs,
        counting: None,
        counted: Vec::new(),
        counters,
    };
    let (done, ended) = tokio::sync::oneshot::channel();
    let worker = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let outcome = execute(&plan, &stop, &mut follower);
            // The receiver is gone only if the listener failed, which is told instead.
            let _ = done.send(());
            (outcome, follower.results)
        }
    });
    let front = front()?;
    let interrupted = front.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        interrupts.during(ended).await
    });
    if interrupted.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let (outcome, results) = worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    drop(spinner);
    Ok((outcome, results))
}

struct Follower {
    results: Results,
    live: Live,
    runs: usize,
    counting: Option<Counting>,
    /// Of the run that has ended and is not done.
    counted: Vec<Metric>,
    counters: Option<Counters>,
}

impl Observer for Follower {
    fn is_done(&self, run: &PlannedRun) -> bool {
        self.results.has(run)
    }

    fn begins(&mut self, run: &PlannedRun, index: usize, repetition: u32, left: Duration) {
        let (id, runs, index) = (run.id(), self.runs, index + 1);
        let repetition = repetition + 1;
        tracing::info!("{id}, repetition {repetition}");
        let began = Instant::now();
        self.live.follow(move || {
            let left = Elapsed(left.saturating_sub(began.elapsed()));
            format!("run {index} of {runs}, repetition {repetition}: {id}; about {left} left")
        });
        if let Some(counters) = self.counters.as_ref().filter(|_| repetition == 1) {
            self.counting = Some(counters.start());
        }
    }

    fn ends(&mut self, run: &PlannedRun) {
        if let Some((counters, counting)) = self.counters.as_ref().zip(self.counting.take()) {
            let of_run = |metric: Metric| metric.with("run", run.id());
            let counted = counters.finish(counting).into_iter();
            self.counted = counted.map(of_run).collect();
        }
    }

    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()> {
        let mut metrics = std::mem::take(&mut self.counted);
        metrics.extend(outcome.metrics(run));
        for reason in &outcome.noise_reasons {
            tracing::info!("disturbed: {}: {reason}", run.id());
        }
        self.results.run(&metrics)
    }
}
