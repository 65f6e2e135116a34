//! `nearfar bench heap`.

use std::io::{self, Write};
use std::sync::Arc;

use nearfar_bench::heap::{HeapBenchOptions, HeapBenchOutcome, compare_heaps};
use nearfar_measure::results::{Header, Metric, ResultsWriter};
use nearfar_memory::{GlobalHeaps, NearfarAllocator};
use nearfar_store::engine::{Engine, EngineOptions};
use nearfar_topology::Profile;

use super::dimension;
use crate::args::{BenchHeapArgs, FigureFormat};
use crate::interrupt::run_until_interrupted;
use crate::machine;
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};
use crate::progress::{Live, Spinner};

/// Runs the command.
pub fn run(args: &BenchHeapArgs) -> anyhow::Result<()> {
    let threads = args.threads.map(|threads| threads.get() as usize);
    let options = HeapBenchOptions {
        scale_factor: args.scale_factor,
        threads: threads.unwrap_or_else(processors),
        runs: args.runs.get(),
        profile: Profile::resolve(&args.profile)?,
    };
    let live = Live::default();
    let shown = live.clone();
    let spinner = Spinner::new(move || shown.text());
    let outcome = run_until_interrupted(move || {
        let runtime = machine::many_threads(options.threads)?;
        let compared = runtime.block_on(compare_heaps(&options, engine, |step| live.say(step)));
        Ok(compared?)
    });
    drop(spinner);
    print(args.format, &outcome?)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// An engine whose tiers the allocator follows. Of several, the first gives it its heaps: their tiers
/// are the same.
fn engine(options: EngineOptions) -> Result<Arc<Engine>, nearfar_store::error::StoreError> {
    let engine = Engine::new(options)?;
    if let Err(error) = NearfarAllocator::install(engine.system(), GlobalHeaps::default()) {
        tracing::debug!(%error, "the heaps are those of the engine before");
    }
    Ok(engine)
}

fn print(format: FigureFormat, outcome: &HeapBenchOutcome) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    match format {
        FigureFormat::Table => output.with(|out| table(outcome, out))?,
        FigureFormat::Json => {
            let version = env!("CARGO_PKG_VERSION");
            let header = Header::new(version, crate::command_line(), outcome.configuration());
            output.with(|out| {
                let mut results = ResultsWriter::new(out, &header)?;
                let metrics = outcome.metrics();
                metrics.iter().try_for_each(|metric| results.metric(metric))
            })?;
        }
    }
    output.finish()
}

/// Relative throughputs; each kind of figure says which it is.
fn table(outcome: &HeapBenchOutcome, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("far", Align::Left),
        ("bandwidth", Align::Right),
        ("workload", Align::Left),
        ("kind", Align::Left),
        ("relative throughput", Align::Right),
        ("range", Align::Right),
    ]);
    for metric in outcome.metrics() {
        if metric.unit != "ratio" {
            continue;
        }
        let range = metric.spread.map(|spread| (spread.min, spread.max));
        let range = range.or_else(|| bounds(&metric));
        grid.row([
            dimension(&metric, "configuration"),
            format!("x{}", dimension(&metric, "devices")),
            dimension(&metric, "workload"),
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
