//! `nearfar bench tpcc`.

use nearfar_bench::tpcc::{TpccOptions, measure_tpcc};
use nearfar_measure::results::Metric;

use super::figures_table::FiguresTable;
use crate::args::BenchTpccArgs;
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchTpccArgs) -> anyhow::Result<()> {
    let options = TpccOptions {
        warmup: args.warmup,
        thinks: args.think_times,
        kills: args.kills,
        ..args.terminals.options()?
    };
    let engine = machine::engines(options.threads)?;
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(options.threads)?;
        let measured = measure_tpcc(&options, engine, |step| live.say(step));
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
                "{count} consistency conditions do not hold, or orders that were acknowledged are lost"
            );
            Err(Failed::new(Exit::WrongResult, message).into())
        }
    }
}

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[
        ("system", Align::Left, |metric| dimension(metric, "system")),
        ("way", Align::Left, |metric| dimension(metric, "way")),
        ("of", Align::Left, detail),
    ],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "s" => format!("{:.2} ms", value * 1e3),
        "1/min" => format!("{value:.0}/min"),
        "%" => format!("{value:.2} %"),
        "ratio" => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    },
};

/// The transaction, and why it was given up.
fn detail(metric: &Metric) -> String {
    let parts = [
        dimension(metric, "transaction"),
        dimension(metric, "reason"),
    ];
    parts.join(" ").trim().to_owned()
}
