//! `nearfar bench regulate`.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_model::simulation::Machine;
use nearfar_regulate::control::{Controller, Goal, Published, TierAware};
use nearfar_regulate::virtual_time::{Plant, Quality, Scenario, Slowing, rate};
use nearfar_topology::Profile;
use serde_json::json;

use super::figures_table::FiguresTable;
use crate::args::BenchRegulateArgs;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension};
use crate::output::grid::Align;

const TABLE: FiguresTable = FiguresTable {
    dimensions: &[
        ("scenario", Align::Left, |metric| {
            dimension(metric, "scenario")
        }),
        ("controller", Align::Left, |metric| {
            dimension(metric, "controller")
        }),
        ("knob", Align::Left, |metric| dimension(metric, "knob")),
    ],
    range_title: "range",
    text: |unit, value| format!("{value:.2} {unit}"),
};

/// Runs the command.
pub fn run(args: &BenchRegulateArgs) -> anyhow::Result<()> {
    let profile = Profile::resolve(&args.profile)?;
    let machine = Machine::new(&profile)?;
    let metrics = run_shown(move |live| {
        let mut metrics = Vec::new();
        for scenario in Scenario::ALL {
            live.say(format!("simulating {}", scenario.name()));
            let plant = Plant::simulate(&machine, scenario)?;
            let goal = Goal::default();
            let controllers: [(Box<dyn Controller>, Slowing); 3] = [
                (Box::new(TierAware::new(goal)), Slowing::Bandwidth),
                (Box::new(TierAware::new(goal)), Slowing::Quota),
                (Box::new(Published::new(goal)), Slowing::Quota),
            ];
            for (mut controller, slowing) in controllers {
                let quality = rate(&plant, controller.as_mut(), slowing);
                metrics.extend(figures_of(scenario, controller.name(), slowing, &quality));
            }
        }
        Ok(metrics)
    })?;
    let configuration = json!({ "profile": profile, "virtual": args.virtual_time });
    figures::print_measured(
        args.figures.format,
        configuration,
        &metrics,
        |metrics, out| TABLE.write(metrics, out),
    )
}

fn figures_of(
    scenario: Scenario,
    controller: &str,
    slowing: Slowing,
    quality: &Quality,
) -> Vec<Metric> {
    let knob = match slowing {
        Slowing::Quota => "quota",
        Slowing::Bandwidth => "bandwidth",
    };
    let label = |metric: Metric| {
        metric
            .with("scenario", scenario.name())
            .with("controller", controller)
            .with("knob", knob)
    };
    let modelled =
        |name: &str, value: f64, unit: &str| label(Metric::new(name, value, unit, Kind::Modelled));
    let reaction = match quality.reaction_ms {
        Some(ms) => Metric::new("reaction_ms", ms, "ms", Kind::Modelled),
        None => {
            let reason = "the victim never has nine tenths of its bandwidth for long";
            Metric::unavailable("reaction_ms", reason, "ms", Kind::Modelled)
        }
    };
    vec![
        modelled("recovered_percent", quality.recovered_percent, "%"),
        modelled("aggressor_cost_percent", quality.cost_percent, "%"),
        modelled(
            "aggressor_cost_ratio_to_published",
            quality.cost_ratio_to_published,
            "ratio",
        ),
        label(reaction),
    ]
}
