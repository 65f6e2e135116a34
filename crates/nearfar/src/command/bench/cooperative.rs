//! `nearfar bench cooperative`.

use nearfar_bench::cooperative::{CooperativeBenchOptions, compare_cooperation};
use nearfar_sql::engine::EngineOptions;
use nearfar_topology::Topology;

use super::figures_table::FiguresTable;
use crate::args::BenchCooperativeArgs;
use crate::interrupt::run_shown;
use crate::machine;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchCooperativeArgs) -> anyhow::Result<()> {
    let options = CooperativeBenchOptions {
        scale_factor: args.scale.scale_factor,
        sessions: args.sessions.iter().map(|number| number.get()).collect(),
        turn: args.seconds,
        rounds: args.rounds.get(),
        far_bandwidth_bytes_per_s: args.far_bandwidth.map(|limit| limit.0),
    };
    let engine = machine::one_of_several(EngineOptions {
        threads: args.threads.count(),
        profile: machine::far_profile(args.profile.as_deref())?,
        whole_device: args.whole_device,
        ..EngineOptions::new(Topology::this_machine()?)
    })?;
    let outcome = run_shown(move |live| {
        let runtime = machine::many_threads(engine.threads())?;
        let compared = compare_cooperation(&engine, &options, |step| live.say(step));
        Ok(runtime.block_on(compared)?)
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
        ("sessions", Align::Right, |metric| {
            dimension(metric, "sessions")
        }),
        ("scans", Align::Left, |metric| dimension(metric, "scans")),
        ("kind", Align::Left, |metric| metric.kind.name().to_owned()),
    ],
    range_title: "over the rounds",
    text: |unit, value| match unit {
        "B" => format!("{:.2} MB", value / 1e6),
        "queries/s" => format!("{value:.1}/s"),
        _ => format!("{value:.2}"),
    },
};
