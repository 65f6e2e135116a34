//! `nearfar bench restart`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use nearfar_bench::restart::{RestartBenchOptions, RestartBenchOutcome, measure_restarts};
use nearfar_measure::results::{Header, ResultsWriter};
use tempfile::TempDir;
use tracing::info;

use super::{dimension, remove};
use crate::args::{BenchRestartArgs, FigureFormat};
use crate::exit::{Exit, Failed};
use crate::interrupt::run_until_interrupted;
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};
use crate::progress::{Live, Spinner};

/// Where memory is that outlives a process, on most machines.
const TMPFS: &str = "/dev/shm";

/// Runs the command, in folders that go away also when Ctrl-C leaves the processes behind.
pub fn run(args: &BenchRestartArgs) -> anyhow::Result<()> {
    let pools = folder(args.pool_dir.as_deref().unwrap_or(Path::new(TMPFS)))?;
    let files = folder(&args.directory.clone().unwrap_or_else(std::env::temp_dir))?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = RestartBenchOptions {
        scale_factor: args.scale_factor,
        runs: args.runs.get(),
        threads: args.threads.map_or_else(processors, |n| n.get() as usize),
        pool_directory: pools.path().to_owned(),
        directory: files.path().to_owned(),
        program: std::env::current_exe().context("cannot find this program's file")?,
        arguments: ["bench", "start"].map(str::to_owned).to_vec(),
        python: args.python.clone(),
    };
    let live = Live::default();
    let shown = live.clone();
    let spinner = Spinner::new(move || shown.text());
    let outcome = run_until_interrupted(move || {
        let progress = |step: String| {
            info!("{step}");
            live.say(step);
        };
        Ok(measure_restarts(&options, progress)?)
    });
    drop(spinner);
    remove(pools);
    remove(files);
    print(args.format, &outcome?)
}

fn folder(parent: &Path) -> anyhow::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("nearfar-restart-")
        .tempdir_in(parent);
    let folder = folder.map_err(|error| {
        let message = format!("cannot write below {}: {error}", parent.display());
        Failed::new(Exit::Output, message)
    });
    Ok(folder?)
}

fn print(format: FigureFormat, outcome: &RestartBenchOutcome) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    match format {
        FigureFormat::Table => output.with(|out| table(outcome, out))?,
        FigureFormat::Json => {
            let version = env!("CARGO_PKG_VERSION");
            let header = Header::new(version, crate::command_line(), outcome.configuration());
            let header = match &outcome.absent {
                Some(reason) => header.unavailable("duckdb", reason),
                None => header,
            };
            output.with(|out| {
                let mut results = ResultsWriter::new(out, &header)?;
                let metrics = outcome.metrics();
                metrics.iter().try_for_each(|metric| results.metric(metric))
            })?;
        }
    }
    output.finish()
}

fn table(outcome: &RestartBenchOutcome, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("scale factor", Align::Right),
        ("of", Align::Left),
        ("value", Align::Right),
        ("over the runs", Align::Right),
    ]);
    for metric in outcome.metrics() {
        let text = |value: f64| match metric.unit.as_str() {
            "ms" => format!("{value:.1} ms"),
            _ => format!("{value:.4}"),
        };
        let spread = metric.spread;
        let range = spread.map(|spread| format!("{} to {}", text(spread.min), text(spread.max)));
        let known = metric.value.get().map(text);
        grid.row([
            metric.metric.clone(),
            dimension(&metric, "scale_factor"),
            dimension(&metric, "reload") + &dimension(&metric, "start"),
            known.unwrap_or_else(|| "unavailable".to_owned()),
            range.unwrap_or_default(),
        ]);
    }
    grid.write_page(out)?;
    match &outcome.absent {
        Some(reason) => writeln!(out, "\nDuckDB took no part: {reason}"),
        None => Ok(()),
    }
}
