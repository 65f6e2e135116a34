//! `nearfar bench htap`.

use nearfar_bench::htap::{HtapOptions, measure_htap};

use super::figures_table::FiguresTable;
use crate::args::BenchHtapArgs;
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchHtapArgs) -> anyhow::Result<()> {
    let options = HtapOptions {
        tpcc: args.terminals.options()?,
        analysts: args.analysts.get(),
    };
    let threads = options.tpcc.threads;
    let engine = machine::engines(threads)?;
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(threads)?;
        let measured = measure_htap(&options, engine, |step| live.say(step));
        Ok(runtime.block_on(measured)?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| TABLE.write(metrics, out),
    )?;
    match outcome.failures() {
        0 => Ok(()),
        count => {
            let message = format!(
                "{count} consistency conditions do not hold, queries have read more than one state, or answers differ"
            );
            Err(Failed::new(Exit::WrongResult, message).into())
        }
    }
}

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[
        ("system", Align::Left, |metric| dimension(metric, "system")),
        ("way", Align::Left, |metric| dimension(metric, "way")),
        ("beside", Align::Left, |metric| dimension(metric, "beside")),
        ("query", Align::Left, |metric| dimension(metric, "query")),
    ],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "s" => format!("{:.2} ms", value * 1e3),
        "1/min" => format!("{value:.0}/min"),
        "ratio" => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    },
};
