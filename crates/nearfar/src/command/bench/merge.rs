//! `nearfar bench merge`.

use std::io::{self, Write};

use nearfar_bench::merge::{MergeBenchOptions, measure_merges};
use nearfar_measure::results::Metric;

use crate::args::BenchMergeArgs;
use crate::interrupt::run_shown;
use crate::machine::{self, Kept};
use crate::output::figures::{self, dimension, range};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchMergeArgs) -> anyhow::Result<()> {
    let options = MergeBenchOptions {
        rows: args.rows,
        written_rows: args.written_rows,
        rounds: args.rounds.get(),
        queries: args.queries.get(),
    };
    let engine = machine::engine(&args.machine, None, Kept::default())?;
    let outcome = run_shown(move |live| {
        live.say("filling the table".to_owned());
        let runtime = machine::many_threads(engine.threads())?;
        let measured = measure_merges(&engine, &options, |done, rounds| {
            live.say(format!("round {} of {rounds}", done + 1));
        });
        Ok(runtime.block_on(measured)?)
    })?;
    let header = figures::header(outcome.configuration());
    figures::print(args.figures.format, &header, &outcome.metrics(), table)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("phase", Align::Left),
        ("value", Align::Right),
        ("over the rounds", Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "s" => format!("{:.2} ms", value * 1e3),
            "B/s" => format!("{:.1} MB/s", value / 1e6),
            "rows/s" => format!("{:.0} rows/s", value),
            _ => format!("{value:.2}"),
        };
        grid.row([
            metric.metric.clone(),
            dimension(metric, "phase"),
            metric.value.get().map(text).unwrap_or_default(),
            range(metric, text),
        ]);
    }
    grid.write_page(out)
}
