//! `nearfar measure pagerank`.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use nearfar_measure::graph::{KroneckerGraph, PlacedGraph, trial_metrics};
use nearfar_measure::results::Metric;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;
use nearfar_topology::units::Bytes;
use serde_json::json;

use crate::args::PagerankArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, range};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &PagerankArgs) -> anyhow::Result<()> {
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let placement = args.placement.resolve(&system)?;
    let configuration = json!({
        "scale": args.scale,
        "degree": args.degree,
        "seed": args.seed,
        "placement": args.placement.to_string(),
    });
    let (scale, degree, seed) = (args.scale, args.degree, args.seed);
    let (threads, trials) = (args.threads.count(), args.trials);
    let metrics = run_shown(move |live| {
        live.say("drawing the graph".to_owned());
        let graph = KroneckerGraph::draw(scale, degree, seed)?;
        live.say("placing it".to_owned());
        let mut placed = PlacedGraph::new(&system, &graph, &placement)?;
        drop(graph);
        let mut done = Vec::new();
        for trial in 1..=trials {
            live.say(format!("trial {trial} of {trials}"));
            // After Ctrl-C it goes on unheeded, until the process ends.
            done.extend(placed.trial(threads, &AtomicBool::new(false))?);
        }
        Ok(trial_metrics(&placed, threads, &done))
    })?;
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("value", Align::Right),
        ("over the trials", Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "s" => format!("{value:.4} s"),
            "1/s" => format!("{:.1} M/s", value * 1e-6),
            "B" => Bytes(value as u64).to_string(),
            _ => format!("{value}"),
        };
        let value = metric.value.get().map(text).unwrap_or_default();
        grid.row([metric.metric.clone(), value, range(metric, text)]);
    }
    grid.write_page(out)
}
