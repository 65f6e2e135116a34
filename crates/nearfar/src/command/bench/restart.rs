//! `nearfar bench restart`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use nearfar_bench::restart::{RestartBenchOptions, RestartBenchOutcome, measure_restarts};
use nearfar_measure::results::Metric;
use tracing::info;

use super::folder::OwnFolder;
use crate::args::BenchRestartArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension, range};
use crate::output::grid::{Align, Grid};

/// Where memory is that outlives a process, on most machines.
const TMPFS: &str = "/dev/shm";

/// Runs the command.
pub fn run(args: &BenchRestartArgs) -> anyhow::Result<()> {
    let tmpfs = Path::new(TMPFS);
    let pools = OwnFolder::below(Some(args.pool_dir.as_deref().unwrap_or(tmpfs)))?;
    let files = OwnFolder::below(args.directory.as_deref())?;
    let options = RestartBenchOptions {
        scale_factor: args.scale.scale_factor,
        runs: args.runs.get(),
        warm_up_runs: args.warmup,
        threads: args.threads.count(),
        pool_directory: pools.path().to_owned(),
        directory: files.path().to_owned(),
        program: std::env::current_exe().context("cannot find this program's file")?,
        arguments: ["bench", "start"].map(str::to_owned).to_vec(),
        python: args.python.clone(),
    };
    let outcome = run_shown(move |live| {
        let progress = |step: String| {
            info!("{step}");
            live.say(step);
        };
        Ok(measure_restarts(&options, progress)?)
    })?;
    print(args, &outcome)
}

fn print(args: &BenchRestartArgs, outcome: &RestartBenchOutcome) -> anyhow::Result<()> {
    let mut header = figures::header(outcome.configuration());
    if let Some(reason) = &outcome.absent {
        header = header.unavailable("duckdb", reason);
    }
    let metrics = outcome.metrics();
    figures::print(args.figures.format, &header, &metrics, |metrics, out| {
        table(metrics, out)?;
        match &outcome.absent {
            Some(reason) => writeln!(out, "\nDuckDB took no part: {reason}"),
            None => Ok(()),
        }
    })
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("scale factor", Align::Right),
        ("of", Align::Left),
        ("value", Align::Right),
        ("over the runs", Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "ms" => format!("{value:.1} ms"),
            _ => format!("{value:.4}"),
        };
        let known = metric.value.get().map(text);
        grid.row([
            metric.metric.clone(),
            dimension(metric, "scale_factor"),
            dimension(metric, "reload") + &dimension(metric, "start"),
            known.unwrap_or_else(|| "unavailable".to_owned()),
            range(metric, text),
        ]);
    }
    grid.write_page(out)
}
