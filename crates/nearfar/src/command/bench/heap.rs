//! `nearfar bench heap`.

use std::io::{self, Write};

use nearfar_bench::heap::{HeapBenchOptions, HeapBenchOutcome, compare_heaps};
use nearfar_measure::results::Metric;
use nearfar_sql::engine::EngineOptions;
use nearfar_topology::{Profile, Topology};

use crate::args::BenchHeapArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::comparison;
use crate::output::figures::{self, dimension};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchHeapArgs) -> anyhow::Result<()> {
    if args.compare_model {
        return compare_model(args);
    }
    let profile = machine::far_profile(args.profile.as_deref())?;
    let devices = HeapBenchOptions::published_devices();
    let outcome = executed(options(args, profile, devices))?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn options(args: &BenchHeapArgs, profile: Option<Profile>, devices: Vec<u32>) -> HeapBenchOptions {
    HeapBenchOptions {
        scale_factor: args.scale.scale_factor,
        threads: args.threads.count(),
        runs: args.runs.get(),
        profile,
        devices,
    }
}

fn executed(options: HeapBenchOptions) -> anyhow::Result<HeapBenchOutcome> {
    run_shown(move |live| {
        let runtime = machine::many_threads(options.threads)?;
        let compared = compare_heaps(&options, machine::one_of_several, |step| live.say(step));
        Ok(runtime.block_on(compared)?)
    })
}

/// Runs on this machine's own far tier and then on a modelled one, and sets both side by side.
fn compare_model(args: &BenchHeapArgs) -> anyhow::Result<()> {
    let profile = machine::profile_to_compare(args.profile.as_deref())?;
    let name = profile.name.clone();
    // Heaps are those of the first engine. The modelled one has this machine's own tiers too, by the same numbers.
    drop(machine::one_of_several(EngineOptions {
        profile: Some(profile.clone()),
        ..EngineOptions::new(Topology::this_machine()?)
    })?);
    let own = executed(options(args, None, vec![1]))?;
    let modelled = executed(options(args, Some(profile), vec![1]))?;
    let header = comparison::header(own.configuration(), modelled.configuration());
    let both = [own.metrics(), modelled.metrics()];
    let by = comparison::by(&["configuration", "workload", "query"]);
    comparison::print_with_model(args.figures.format, &header, &name, both, by)
}

/// Relative throughputs; each kind of figure says which it is.
fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("far", Align::Left),
        ("bandwidth", Align::Right),
        ("workload", Align::Left),
        ("kind", Align::Left),
        ("relative throughput", Align::Right),
        ("range", Align::Right),
    ]);
    for metric in metrics {
        if metric.unit != "ratio" {
            continue;
        }
        let range = metric.spread.map(|spread| (spread.min, spread.max));
        let range = range.or_else(|| bounds(metric));
        grid.row([
            dimension(metric, "configuration"),
            format!("x{}", dimension(metric, "devices")),
            dimension(metric, "workload"),
            metric.kind.name().to_owned(),
            metric
                .value
                .get()
                .map(|v| format!("{v:.2}"))
                .unwrap_or_default(),
            range
                .map(|(low, high)| format!("{low:.2} to {high:.2}"))
                .unwrap_or_default(),
        ]);
    }
    grid.write_page(out)
}

/// What a paper gives as lowest and highest.
fn bounds(metric: &Metric) -> Option<(f64, f64)> {
    let of = |name| metric.dimensions.get(name)?.as_f64();
    Some((of("low")?, of("high")?))
}
