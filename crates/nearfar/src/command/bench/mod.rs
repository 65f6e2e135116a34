//! `nearfar bench`: comparisons with other engines.

mod cluster;
mod cooperative;
mod fairness;
mod figures_table;
mod folder;
mod heap;
mod htap;
mod index;
mod insert;
mod merge;
mod oltp;
mod operators;
pub mod regulate;
mod regulate_page;
mod restart;
mod scan;
mod table;
mod tpcc;

use std::io;

use anyhow::Context;
use nearfar_bench::bench::{
    BenchEvent, BenchObserver, BenchOptions, BenchOutcome, Processes, Turns, Who, compare, serve,
};
use nearfar_bench::tpch::Suite;
use tracing::info;

use self::folder::OwnFolder;
use crate::args::{BenchArea, BenchArgs, ComparisonArgs, IndexAction, IndexArgs};
use crate::exit::{Exit, Failed};
use crate::interrupt::run_until_interrupted;
use crate::output::figures;
use crate::progress::Live;

/// Runs the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.area {
        BenchArea::Tpch(args) => run_comparison(Suite::TpcH, &args.comparison),
        BenchArea::Tpcds(args) => run_comparison(Suite::TpcDs, &args.comparison),
        BenchArea::Scan(args) => scan::run(args),
        BenchArea::Operators(args) => operators::run(args),
        BenchArea::Heap(args) => heap::run(args),
        BenchArea::Cooperative(args) => cooperative::run(args),
        BenchArea::Merge(args) => merge::run(args),
        BenchArea::Insert(args) => insert::run(args),
        BenchArea::Restart(args) => restart::run(args),
        BenchArea::Fairness(args) => fairness::run(args),
        BenchArea::Cluster(args) => cluster::run(args),
        BenchArea::Oltp(args) => oltp::run(args),
        BenchArea::Tpcc(args) => tpcc::run(args),
        BenchArea::Htap(args) => htap::run(args),
        BenchArea::Regulate(args) => regulate::run(args),
        BenchArea::Index(args) => index::run(args),
        BenchArea::Start { order } => {
            Ok(nearfar_bench::restart::start(order, io::stdout().lock())?)
        }
        BenchArea::Contender { role } => Ok(serve(*role, io::stdin().lock(), io::stdout().lock())?),
    }
}

/// Runs what there is of tree indexes.
pub fn run_index(args: &IndexArgs) -> anyhow::Result<()> {
    match &args.action {
        IndexAction::Bench(args) => index::run(args),
    }
}

fn run_comparison(suite: Suite, args: &ComparisonArgs) -> anyhow::Result<()> {
    let folder = OwnFolder::below(args.directory.as_deref())?;
    let defaults = BenchOptions::of(suite);
    let options = BenchOptions {
        suite,
        scale_factor: args.scale.scale_factor,
        threads: args.threads.count(),
        queries: args
            .queries
            .as_ref()
            .map_or(defaults.queries, |list| list.0.clone()),
        runs: args.runs.get(),
        turns: if args.apart {
            Turns::Apart
        } else {
            Turns::Alternating
        },
        load_runs: args.load_runs.get(),
        memtable: !args.no_memtable,
        rivals: args.rivals.clone(),
        without: args.without.clone(),
        plan_anew: args.plan_anew,
        memory_limit_bytes: args.memory_limit.map(|limit| limit.0),
        directory: Some(folder.path().to_owned()),
    };
    let launcher = Processes {
        program: std::env::current_exe().context("cannot find this program's file")?,
        arguments: ["bench", "contender"].map(str::to_owned).to_vec(),
        python: args.python.clone(),
    };
    let follower = Follower::default();
    let spinner = follower.live.spinner();
    let outcome = run_until_interrupted(move || Ok(compare(&options, &launcher, &follower)?));
    drop(spinner);
    let outcome = outcome?;
    print(args, &outcome)?;
    match outcome.absent.first() {
        None => Ok(()),
        Some((rival, reason)) => {
            let message = format!("{} did not take part: {reason}", Who::Rival(*rival));
            Err(Failed::new(Exit::Unavailable, message).into())
        }
    }
}

fn print(args: &ComparisonArgs, outcome: &BenchOutcome) -> anyhow::Result<()> {
    let header = figures::header(outcome.configuration());
    let gaps = outcome.absent.iter();
    let header = gaps.fold(header, |header, (rival, reason)| {
        header.unavailable(rival.name(), reason)
    });
    let metrics = outcome.metrics();
    figures::print(args.figures.format, &header, &metrics, |_, out| {
        table::write(outcome, out)
    })
}

/// Shows what a comparison is doing: a line on a terminal, and each step with `--verbose`.
#[derive(Default)]
struct Follower {
    live: Live,
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
            BenchEvent::Missed { who, query } => format!("{who}: q{query} is left out"),
            BenchEvent::Ended { who, query } => format!("{who} ended in q{query}"),
            BenchEvent::Checking { who, query } => format!("checking q{query} on {who}"),
            BenchEvent::Timed {
                who,
                query,
                seconds,
            } => {
                format!("q{query}: {who} alone {:.1} ms", seconds * 1e3)
            }
            BenchEvent::Switched {
                query,
                on_seconds,
                off_seconds,
            } => format!(
                "q{query}: {:.1} ms with the setting, {:.1} ms without",
                on_seconds * 1e3,
                off_seconds * 1e3
            ),
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
