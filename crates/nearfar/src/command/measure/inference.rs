//! `nearfar measure inference`.

use std::sync::atomic::AtomicBool;

use nearfar_measure::inference::{MATRIX_BYTES, PlacedWeights, first_token, token_metrics};
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;
use serde_json::json;

use super::repeated;
use crate::args::InferenceArgs;
use crate::interrupt::run_shown;
use crate::output::figures;

/// Runs the command.
pub fn run(args: &InferenceArgs) -> anyhow::Result<()> {
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let placement = args.placement.resolve(&system)?;
    let matrices = usize::try_from(args.weights.0)?
        .div_ceil(MATRIX_BYTES)
        .max(1);
    let configuration = json!({
        "matrices": matrices,
        "seed": args.seed,
        "placement": args.placement.to_string(),
    });
    let (threads, tokens, seed) = (args.threads.count(), args.tokens.get(), args.seed);
    let metrics = run_shown(move |live| {
        live.say("placing the weights".to_owned());
        let weights = PlacedWeights::new(&system, matrices, seed, &placement)?;
        let (mut token, mut seconds) = (first_token(), Vec::new());
        for number in 1..=tokens {
            live.say(format!("token {number} of {tokens}"));
            // After Ctrl-C it goes on unheeded, until the process ends.
            seconds.extend(weights.token(&mut token, threads, &AtomicBool::new(false))?);
        }
        Ok(token_metrics(&weights, threads, &seconds))
    })?;
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| repeated::write(metrics, "over the tokens", out),
    )
}
