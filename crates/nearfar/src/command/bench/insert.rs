//! `nearfar bench insert`.

use nearfar_bench::insert::{InsertBenchOptions, measure_inserts};

use super::figures_table::FiguresTable;
use super::folder::OwnFolder;
use crate::args::BenchInsertArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchInsertArgs) -> anyhow::Result<()> {
    let folder = OwnFolder::below(args.directory.as_deref())?;
    let options = InsertBenchOptions {
        rounds: args.rounds.get(),
        turn: args.seconds,
        directory: folder.path().to_owned(),
    };
    let threads = args.threads.count();
    let engine = machine::engines(threads)?;
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(threads)?;
        let measured = measure_inserts(&options, engine, |step| live.say(step));
        Ok(runtime.block_on(measured)?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| TABLE.write(metrics, out),
    )
}

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[
        ("log_sync", Align::Left, |metric| dimension(metric, "sync")),
        ("sessions", Align::Right, |metric| {
            dimension(metric, "sessions")
        }),
        ("rows each", Align::Right, |metric| {
            dimension(metric, "rows_per_statement")
        }),
    ],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "rows/s" => format!("{value:.0} rows/s"),
        "commits" => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    },
};
