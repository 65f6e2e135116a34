//! `nearfar bench index`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nearfar_index_bench::bench::{
    GivenOptions, IndexBenchError, IndexBenchOutcome, Mode, Plan, execute, plan,
};
use nearfar_index_bench::placed::{ScaleRule, Tuning};
use nearfar_measure::compare::compare_by;
use nearfar_measure::results::Metric;
use nearfar_memory::{Budgets, GlobalHeaps, MemorySystem, NearHeap, NearfarAllocator};
use nearfar_topology::{Profile, Topology};

use crate::args::BenchIndexArgs;
use crate::exit::{Exit, Failed};
use crate::human::Elapsed;
use crate::interrupt::run_shown;
use crate::message;
use crate::output::comparison;
use crate::output::figures::{self, dimension, range};
use crate::output::file::{Output, save_page};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchIndexArgs) -> anyhow::Result<()> {
    if args.compare_model {
        return compare_model(args);
    }
    let plan = plan(given(args)?.resolve().map_err(IndexBenchError::from)?)?;
    if args.dry_run {
        let mut output = Output::stdout();
        output.with(|out| dry_run(&plan, out))?;
        return output.finish();
    }
    let system = match args.mode {
        Mode::Native => Some(huge_pages_for_all()?),
        Mode::Emulated | Mode::Virtual => None,
    };
    let outcome = executed(plan, system)?;
    let header = figures::header(outcome.configuration());
    figures::print(args.figures.format, &header, &outcome.metrics(), table)?;
    if let Some(path) = &args.report {
        let mut report = outcome.report();
        report.heading("Machine and configuration").header(&header);
        save_page(&report, path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    Ok(())
}

/// Runs all of a plan, and shows how far it is.
fn executed(plan: Plan, system: Option<Arc<MemorySystem>>) -> anyhow::Result<IndexBenchOutcome> {
    run_shown(move |live| {
        let mut observe = |progress: nearfar_index_bench::bench::Progress| {
            let left = progress
                .left
                .map(|left| format!(", {} left", Elapsed(left)));
            let percent = progress.share * 100.0;
            let text = format!(
                "{percent:.0} %{}: {}",
                left.unwrap_or_default(),
                progress.what
            );
            live.say(text);
        };
        Ok(execute(&plan, system.as_ref(), &mut observe)?)
    })
}

/// Runs on this machine's own tiers and then in the model, and sets both side by side. Both plans are made before
/// either runs.
fn compare_model(args: &BenchIndexArgs) -> anyhow::Result<()> {
    let both = given(args)?.resolve_with_model();
    let [own, modelled] = both.map_err(IndexBenchError::from)?;
    let model = modelled
        .profile
        .as_ref()
        .map(|profile| profile.name.clone());
    let (own, modelled) = (plan(own)?, plan(modelled)?);
    let own = executed(own, Some(huge_pages_for_all()?))?;
    let modelled = executed(modelled, None)?;
    let header = figures::header(modelled.configuration());
    let both = [own.metrics(), modelled.metrics()];
    let format = args.figures.format;
    comparison::print_with_model(
        format,
        &header,
        &model.unwrap_or_default(),
        both,
        |own, modelled| compare_by(own, modelled, IndexBenchOutcome::belongs_to),
    )
}

/// Serves the program's own allocations from huge pages, so that other crates' maps have what our
/// trees have.
fn huge_pages_for_all() -> anyhow::Result<Arc<MemorySystem>> {
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let heaps = GlobalHeaps {
        near: NearHeap::Mimalloc { huge_pages: true },
        huge_pages: true,
    };
    NearfarAllocator::install(&system, heaps).context("the allocator has its heaps already")?;
    Ok(system)
}

fn given(args: &BenchIndexArgs) -> anyhow::Result<GivenOptions> {
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    Ok(GivenOptions {
        mode: args.mode,
        contestants: args.tree.clone(),
        workloads: args.workload.clone(),
        trace: args.trace.clone(),
        zipf: args.zipf.clone(),
        keys: args.keys.clone(),
        form: args.key_form,
        value_bytes: args.value_bytes,
        threads: args.threads.clone(),
        runs: args.runs,
        operations: args.operations,
        batch: args.batch,
        policies: args.policy.clone(),
        near_percent: args.near_share,
        profile,
        scale: args.scale.map(ScaleRule::from),
        error_percent: args.error,
        warm_up: milliseconds("warm-up", args.warm_up)?,
        measured: milliseconds("measured", args.measured)?,
        shift: milliseconds("shift", args.shift)?,
        tuning: Tuning {
            watermarks: args.watermarks,
            trigger: milliseconds("trigger-ms", args.trigger_ms)?,
            cooler: milliseconds("cooler-ms", args.cooler_ms)?,
            maintainer: milliseconds("maintainer-ms", args.maintainer_ms)?,
        },
    })
}

fn milliseconds(field: &str, ms: Option<f64>) -> Result<Option<Duration>, Failed> {
    let time = |ms: f64| {
        Duration::try_from_secs_f64(ms / 1e3)
            .ok()
            .filter(|time| *time < Duration::from_secs(3600))
            .ok_or_else(|| Failed::new(Exit::Usage, format!("{field}: {ms} ms is no time")))
    };
    ms.map(time).transpose()
}

fn dry_run(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("tree", Align::Left),
        ("workload", Align::Left),
        ("distribution", Align::Left),
        ("threads", Align::Right),
        ("policy", Align::Left),
    ]);
    for run in &plan.runs {
        grid.row([
            run.contestant.to_string(),
            run.workload.name.to_owned(),
            run.workload.distribution_name(),
            run.threads.to_string(),
            run.policy
                .map(|policy| policy.to_string())
                .unwrap_or_default(),
        ]);
    }
    grid.write_page(out)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("tree", Align::Left),
        ("workload", Align::Left),
        ("distribution", Align::Left),
        ("threads", Align::Right),
        ("policy or rival", Align::Left),
        ("of", Align::Left),
        ("median", Align::Right),
        ("over the runs", Align::Right),
    ]);
    let timeless = |metric: &&Metric| !metric.dimensions.contains_key("at_ms");
    for metric in metrics.iter().filter(timeless) {
        let either = dimension(metric, "policy") + &dimension(metric, "rival");
        // A metric has one of these at most.
        let of = ["operation", "tier", "worker"].map(|name| dimension(metric, name));
        let of = of.concat();
        grid.row([
            metric.metric.clone(),
            dimension(metric, "tree"),
            dimension(metric, "workload"),
            dimension(metric, "distribution"),
            dimension(metric, "threads"),
            either,
            of,
            metric
                .value
                .get()
                .map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}")),
            range(metric, |value| format!("{value:.2}")),
        ]);
    }
    grid.write_page(out)
}
