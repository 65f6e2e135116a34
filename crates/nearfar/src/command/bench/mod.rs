//! `nearfar bench`: comparisons with other engines.

mod scan;
mod table;

use std::io;

use anyhow::Context;
use nearfar_bench::bench::{
    BenchEvent, BenchObserver, BenchOptions, BenchOutcome, Processes, Who, compare, serve,
};
use nearfar_measure::results::{Header, ResultsWriter};
use tracing::info;

use crate::args::{BenchArea, BenchArgs, BenchTpchArgs, FigureFormat};
use crate::exit::{Exit, Failed};
use crate::output::file::Output;
use crate::progress::{Live, Spinner};

/// Runs the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.area {
        BenchArea::Tpch(args) => run_tpch(args),
        BenchArea::Scan(args) => scan::run(args),
        BenchArea::Contender { role } => Ok(serve(*role, io::stdin().lock(), io::stdout().lock())?),
    }
}

fn run_tpch(args: &BenchTpchArgs) -> anyhow::Result<()> {
    let defaults = BenchOptions::default();
    let options = BenchOptions {
        scale_factor: args.scale_factor,
        threads: args
            .threads
            .map_or(defaults.threads, std::num::NonZeroUsize::get),
        queries: args
            .queries
            .as_ref()
            .map_or(defaults.queries, |list| list.0.clone()),
        runs: args.runs.get(),
        load_runs: args.load_runs.get(),
        rivals: args.rivals.clone(),
        directory: args.directory.clone(),
    };
    let launcher = Processes {
        program: std::env::current_exe().context("cannot find this program's file")?,
        arguments: ["bench", "contender"].map(str::to_owned).to_vec(),
        python: args.python.clone(),
    };
    let follower = Follower::new();
    let outcome = compare(&options, &launcher, &follower);
    drop(follower);
    let outcome = outcome?;
    print(args.format, &outcome)?;
    match outcome.absent.first() {
        None => Ok(()),
        Some((rival, reason)) => {
            let message = format!("{} did not take part: {reason}", Who::Rival(*rival));
            Err(Failed::new(Exit::Unavailable, message).into())
        }
    }
}

fn print(format: FigureFormat, outcome: &BenchOutcome) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    match format {
        FigureFormat::Table => output.with(|out| table::write(outcome, out))?,
        FigureFormat::Json => {
            let version = env!("CARGO_PKG_VERSION");
            let header = Header::new(version, crate::command_line(), outcome.configuration());
            let gaps = outcome.absent.iter();
            let header = gaps.fold(header, |header, (rival, reason)| {
                header.unavailable(rival.name(), reason)
            });
            output.with(|out| {
                let mut results = ResultsWriter::new(out, &header)?;
                outcome
                    .metrics()
                    .iter()
                    .try_for_each(|metric| results.metric(metric))
            })?;
        }
    }
    output.finish()
}

/// Shows what a comparison is doing: a line on a terminal, and each step with `--verbose`.
struct Follower {
    live: Live,
    _spinner: Spinner,
}

impl Follower {
    fn new() -> Self {
        let live = Live::default();
        let shown = live.clone();
        let _spinner = Spinner::new(move || shown.text());
        Self { live, _spinner }
    }
}

impl BenchObserver for Follower {
    fn on(&self, event: &BenchEvent) {
        let step = match *event {
            BenchEvent::Writing { table } => format!("writing {table} to Parquet files"),
            BenchEvent::Loading { who, run } => format!("{who} loads, run {run}"),
            BenchEvent::Loaded { who, run, seconds } => {
                format!("{who} loaded in {seconds:.2} s, run {run}")
            }
            BenchEvent::Absent { rival } => format!("{} does not take part", Who::Rival(rival)),
            BenchEvent::Checking { who, query } => format!("checking q{query} on {who}"),
            BenchEvent::Timed {
                who,
                query,
                seconds,
            } => {
                format!("q{query}: {who} alone {:.1} ms", seconds * 1e3)
            }
            BenchEvent::Compared {
                who,
                query,
                nearfar_seconds,
                rival_seconds,
            } => format!(
                "q{query}: {:.1} ms, {who} {:.1} ms",
                nearfar_seconds * 1e3,
                rival_seconds * 1e3
            ),
            _ => return,
        };
        info!("{step}");
        self.live.say(step);
    }
}
