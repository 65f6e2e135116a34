//! `nearfar bench restart`.

use std::path::Path;

use anyhow::Context;
use nearfar_bench::restart::{RestartBenchOptions, RestartBenchOutcome, measure_restarts};
use tracing::info;

use super::figures_table::FiguresTable;
use super::folder::OwnFolder;
use crate::args::BenchRestartArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

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
        TABLE.write(metrics, out)?;
        match &outcome.absent {
            Some(reason) => writeln!(out, "\nDuckDB took no part: {reason}"),
            None => Ok(()),
        }
    })
}

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[
        ("scale factor", Align::Right, |metric| {
            dimension(metric, "scale_factor")
        }),
        ("of", Align::Left, |metric| {
            dimension(metric, "reload") + &dimension(metric, "start")
        }),
    ],
    range_title: "over the runs",
    text: |unit, value| match unit {
        "ms" => format!("{value:.1} ms"),
        _ => format!("{value:.4}"),
    },
};
