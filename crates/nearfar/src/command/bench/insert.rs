//! `nearfar bench insert`.

use std::io::{self, Write};

use nearfar_bench::insert::{InsertBenchOptions, measure_inserts};
use nearfar_measure::results::Metric;
use nearfar_store::engine::EngineOptions;
use nearfar_topology::Topology;

use super::folder::OwnFolder;
use crate::args::BenchInsertArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension, range};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchInsertArgs) -> anyhow::Result<()> {
    let folder = OwnFolder::below(args.directory.as_deref())?;
    let options = InsertBenchOptions {
        rounds: args.rounds.get(),
        turn: args.seconds,
        directory: folder.path().to_owned(),
    };
    let engine = EngineOptions {
        threads: args.threads.count(),
        ..EngineOptions::new(Topology::this_machine()?)
    };
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(engine.threads)?;
        let with = |data| {
            let options = engine.clone();
            machine::one_of_several(EngineOptions { data, ..options })
        };
        let measured = measure_inserts(&options, with, |step| live.say(step));
        Ok(runtime.block_on(measured)?)
    })?;
    let header = figures::header(outcome.configuration());
    figures::print(args.figures.format, &header, &outcome.metrics(), table)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("log_sync", Align::Left),
        ("sessions", Align::Right),
        ("rows each", Align::Right),
        ("value", Align::Right),
        ("over the rounds", Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "rows/s" => format!("{value:.0} rows/s"),
            "commits" => format!("{value:.1}"),
            _ => format!("{value:.3}"),
        };
        let known = metric.value.get().map(text);
        grid.row([
            metric.metric.clone(),
            dimension(metric, "sync"),
            dimension(metric, "sessions"),
            dimension(metric, "rows_per_statement"),
            known.unwrap_or_else(|| "unavailable".to_owned()),
            range(metric, text),
        ]);
    }
    grid.write_page(out)
}
