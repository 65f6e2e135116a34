//! `nearfar bench fairness`.

use std::io::{self, Write};

use anyhow::Context;
use nearfar_bench::fairness::{FairnessOptions, Hostile, measure_fairness};
use nearfar_measure::results::Metric;

use crate::args::BenchFairnessArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchFairnessArgs) -> anyhow::Result<()> {
    let options = FairnessOptions {
        program: std::env::current_exe().context("cannot find this program's file")?,
        threads: args.threads.count(),
        sessions: args.sessions.get(),
        limit: args.limit,
        turn: args.seconds,
        statements: Hostile::ALL.to_vec(),
        profile: args.profile.clone(),
        far_bytes_per_s: args.far_bandwidth.0,
    };
    let outcome = run_shown(move |live| {
        let follow = |statement: Hostile| live.say(format!("beside {}", statement.name()));
        Ok(measure_fairness(&options, follow)?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("beside", Align::Left),
        ("figure", Align::Left),
        ("question", Align::Left),
        ("value", Align::Right),
    ]);
    for metric in metrics {
        let known = metric.value.get();
        grid.row([
            dimension(metric, "statement"),
            metric.metric.clone(),
            dimension(metric, "question"),
            known.map_or_else(
                || "-".to_owned(),
                |value| match metric.unit.as_str() {
                    "s" => format!("{:.1} ms", value * 1e3),
                    _ => format!("{value:.0}"),
                },
            ),
        ]);
    }
    grid.write_page(out)
}
