//! `nearfar measure pagerank`.

use std::sync::atomic::AtomicBool;

use nearfar_measure::graph::{KroneckerGraph, PlacedGraph, trial_metrics};
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;
use serde_json::json;

use super::repeated;
use crate::args::PagerankArgs;
use crate::interrupt::run_shown;
use crate::output::figures;

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
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| repeated::write(metrics, "over the trials", out),
    )
}
