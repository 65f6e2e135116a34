//! `nearfar bench merge`.

use nearfar_bench::merge::{MergeBenchOptions, measure_merges};

use super::figures_table::FiguresTable;
use crate::args::BenchMergeArgs;
use crate::interrupt::run_shown;
use crate::machine::{self, Kept};
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

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
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| TABLE.write(metrics, out),
    )
}

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[("phase", Align::Left, |metric| dimension(metric, "phase"))],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "s" => format!("{:.2} ms", value * 1e3),
        "B/s" => format!("{:.1} MB/s", value / 1e6),
        "rows/s" => format!("{value:.0} rows/s"),
        _ => format!("{value:.2}"),
    },
};
