//! `nearfar bench operators`.

use std::io::{self, Write};

use nearfar_bench::operators::{OperatorsBenchOptions, bench_operators};
use nearfar_measure::results::Metric;
use nearfar_topology::Profile;

use super::figures_table::FiguresTable;
use crate::args::BenchOperatorsArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchOperatorsArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    let outcome = run_shown(move |live| Ok(bench_operators(&options, |step| live.say(step))?))?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn options(args: &BenchOperatorsArgs) -> anyhow::Result<OperatorsBenchOptions> {
    let mut options = OperatorsBenchOptions::new(Profile::resolve(&args.profile)?);
    if let Some(size) = args.column {
        options.column_bytes = usize::try_from(size.0)?;
    }
    if !args.build.is_empty() {
        let sizes = args.build.iter().map(|size| usize::try_from(size.0));
        options.build_bytes = sizes.collect::<Result<_, _>>()?;
    }
    if let Some(rows) = args.probe_rows {
        options.probe_rows = usize::try_from(rows.get())?;
    }
    options.rounds = args.rounds.unwrap_or(options.rounds);
    options.virtual_joins = args.is_virtual.then(|| args.joins.clone());
    Ok(options)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let table = FiguresTable {
        dimensions: &[
            ("kind", Align::Left, |metric| metric.kind.name().to_owned()),
            ("build side, B", Align::Right, |metric| {
                dimension(metric, "build_bytes")
            }),
            ("strategy", Align::Left, |metric| {
                dimension(metric, "strategy")
            }),
            ("tier", Align::Left, |metric| dimension(metric, "tier")),
            ("joins", Align::Right, |metric| dimension(metric, "joins")),
            ("placement", Align::Left, |metric| {
                dimension(metric, "placement")
            }),
        ],
        range_title: "over the rounds",
        text: |unit, value| match unit {
            "1/s" => format!("{:.1} M/s", value * 1e-6),
            _ => format!("{value:.2}"),
        },
    };
    table.write(metrics, out)
}
