//! `nearfar bench heap`.

use std::io::{self, Write};

use nearfar_bench::heap::{HeapBenchOptions, compare_heaps};
use nearfar_measure::results::Metric;

use crate::args::BenchHeapArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchHeapArgs) -> anyhow::Result<()> {
    let options = HeapBenchOptions {
        scale_factor: args.scale.scale_factor,
        threads: args.threads.count(),
        runs: args.runs.get(),
        profile: machine::far_profile(args.profile.as_deref())?,
    };
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(options.threads)?;
        let compared = compare_heaps(&options, machine::one_of_several, |step| live.say(step));
        Ok(runtime.block_on(compared)?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)
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
