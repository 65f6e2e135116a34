//! `nearfar bench oltp`.

use anyhow::Context;
use nearfar_bench::oltp::{OltpOptions, measure_in_process, measure_oltp};

use super::figures_table::FiguresTable;
use crate::args::BenchOltpArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchOltpArgs) -> anyhow::Result<()> {
    let directory = args.directory.clone();
    let options = OltpOptions {
        program: std::env::current_exe().context("cannot find this program's file")?,
        threads: args.threads.count(),
        scale: args.scale.get(),
        clients: args.clients.iter().map(|clients| clients.get()).collect(),
        rounds: args.rounds.get(),
        turn: args.seconds,
        beside_postgres: args.rival.is_some(),
        with_ceiling: args.ceiling,
        durable: args.durable,
        directory: directory.unwrap_or_else(std::env::temp_dir),
    };
    let engine = machine::engines(options.threads)?;
    let outcome = run_shown(move |live| {
        live.say("statements in this process".to_owned());
        let runtime = machine::many_threads(options.threads)?;
        let in_process = runtime.block_on(measure_in_process(&options, engine))?;
        Ok(measure_oltp(&options, in_process, |step| live.say(step))?)
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
    dimensions: &[("clients", Align::Right, |metric| {
        dimension(metric, "clients")
    })],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "1/s" => format!("{value:.0}/s"),
        _ => format!("{value:.2}"),
    },
};
