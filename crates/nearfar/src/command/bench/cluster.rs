//! `nearfar bench cluster`.

use std::io::{self, Write};

use anyhow::Context;
use nearfar_bench::cluster::{
    ClusterOptions, Machine, measure_cluster, simulated, simulated_configuration,
};
use nearfar_measure::results::Metric;

use super::folder::OwnFolder;
use crate::args::BenchClusterArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchClusterArgs) -> anyhow::Result<()> {
    if !args.simulate.is_empty() {
        return simulate(args);
    }
    let folder = OwnFolder::below(args.directory.as_deref())?;
    let options = ClusterOptions {
        program: std::env::current_exe().context("cannot find this program's file")?,
        folder: folder.path().to_owned(),
        scale_factor: args.scale.scale_factor,
        threads: args.threads.count(),
        workers: args.workers.iter().map(|workers| workers.get()).collect(),
        suite: args.suite,
        queries: match &args.queries {
            Some(queries) => queries.0.clone(),
            None => args.suite.numbers().collect(),
        },
        runs: args.runs.get(),
    };
    let outcome = run_shown(move |live| {
        let follow = |next: String| live.say(next);
        Ok(measure_cluster(&options, follow)?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)?;
    let rounds = outcome.rounds.iter();
    let failed = rounds.flat_map(|round| {
        let queries = round.queries.iter();
        queries
            .filter_map(|query| Some((round.workers, query.query, query.outcome.as_ref().err()?)))
    });
    let failed =
        failed.map(|(workers, query, reason)| format!("q{query} with {workers} nodes: {reason}"));
    let failed: Vec<String> = failed.collect();
    anyhow::ensure!(
        failed.is_empty(),
        "the cluster does not answer as one process does:\n{}",
        failed.join("\n")
    );
    Ok(())
}

fn simulate(args: &BenchClusterArgs) -> anyhow::Result<()> {
    let nodes: Vec<usize> = args.simulate.iter().map(|nodes| nodes.get()).collect();
    let machine = Machine::assumed();
    let metrics = simulated(&machine, &nodes);
    let header = figures::header(simulated_configuration(&machine, &nodes));
    figures::print(args.figures.format, &header, &metrics, simulated_table)
}

fn simulated_table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("join", Align::Left),
        ("nodes", Align::Right),
        ("figure (modelled)", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
    ]);
    for metric in metrics {
        let digits = if metric.unit == "bytes" { 0 } else { 3 };
        let known = metric.value.get();
        grid.row([
            dimension(metric, "join"),
            dimension(metric, "nodes"),
            metric.metric.clone(),
            known.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}")),
            metric.unit.clone(),
        ]);
    }
    grid.write_page(out)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("workers", Align::Right),
        ("figure", Align::Left),
        ("query", Align::Right),
        ("value", Align::Right),
    ]);
    for metric in metrics {
        let digits = if metric.unit == "ratio" { 2 } else { 0 };
        let known = metric.value.get();
        grid.row([
            dimension(metric, "workers"),
            metric.metric.clone(),
            dimension(metric, "query"),
            known.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}")),
        ]);
    }
    grid.write_page(out)
}
