//! `nearfar bench regulate`.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_model::simulation::Machine;
use nearfar_regulate::control::{Controller, Goal, Published, TierAware};
use nearfar_regulate::virtual_time::{
    GroupsPlant, GroupsQuality, Innocent, Plant, Quality, Scenario, Slowing, Telling, rate,
    rate_groups,
};
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
        ("innocent", Align::Left, |metric| {
            dimension(metric, "innocent")
        }),
        ("told by", Align::Left, |metric| {
            dimension(metric, "told_by")
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
            for (mut controller, slowing) in controllers() {
                let quality = rate(&plant, controller.as_mut(), slowing);
                let of = [("scenario", scenario.name())];
                metrics.extend(figures_of(&of, controller.name(), slowing, &quality));
            }
        }
        for innocent in Innocent::ALL {
            live.say(format!("simulating an innocent group: {}", innocent.name()));
            metrics.extend(of_groups(
                &GroupsPlant::simulate(&machine, innocent)?,
                innocent,
            ));
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

/// Ours and the published one, each with a knob.
fn controllers() -> [(Box<dyn Controller>, Slowing); 3] {
    let goal = Goal::default();
    [
        (Box::new(TierAware::new(goal)), Slowing::Bandwidth),
        (Box::new(TierAware::new(goal)), Slowing::Quota),
        (Box::new(Published::new(goal)), Slowing::Quota),
    ]
}

fn of_groups(plant: &GroupsPlant, innocent: Innocent) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for telling in Telling::ALL {
        for (mut controller, slowing) in controllers() {
            let quality = rate_groups(plant, controller.as_mut(), slowing, telling);
            let of = [
                ("scenario", "near-ld"),
                ("innocent", innocent.name()),
                ("told_by", telling.name()),
            ];
            metrics.extend(figures_of_groups(&of, controller.name(), slowing, &quality));
        }
    }
    metrics
}

/// What a figure belongs to.
fn label(metric: Metric, of: &[(&str, &str)], controller: &str, slowing: Slowing) -> Metric {
    let knob = match slowing {
        Slowing::Quota => "quota",
        Slowing::Bandwidth => "bandwidth",
    };
    let metric = metric.with("controller", controller).with("knob", knob);
    of.iter()
        .fold(metric, |metric, (name, value)| metric.with(name, *value))
}

fn reaction(ms: Option<f64>) -> Metric {
    match ms {
        Some(ms) => Metric::new("reaction_ms", ms, "ms", Kind::Modelled),
        None => {
            let reason = "the victim never has nine tenths of its bandwidth for long";
            Metric::unavailable("reaction_ms", reason, "ms", Kind::Modelled)
        }
    }
}

fn percent(name: &str, value: f64) -> Metric {
    Metric::new(name, value, "%", Kind::Modelled)
}

fn figures_of(
    of: &[(&str, &str)],
    controller: &str,
    slowing: Slowing,
    quality: &Quality,
) -> Vec<Metric> {
    let name = "aggressor_cost_ratio_to_published";
    let ratio = quality.cost_ratio_to_published;
    let metrics = [
        percent("recovered_percent", quality.recovered_percent),
        percent("aggressor_cost_percent", quality.cost_percent),
        Metric::new(name, ratio, "ratio", Kind::Modelled),
        reaction(quality.reaction_ms),
    ];
    metrics
        .map(|metric| label(metric, of, controller, slowing))
        .into()
}

fn figures_of_groups(
    of: &[(&str, &str)],
    controller: &str,
    slowing: Slowing,
    quality: &GroupsQuality,
) -> Vec<Metric> {
    let granted = quality.innocent_granted_percent;
    let metrics = [
        percent("recovered_percent", quality.recovered_percent),
        percent("aggressor_cost_percent", quality.cost_percent),
        percent("innocent_percent", quality.innocent_percent),
        percent("innocent_granted_percent", granted),
        reaction(quality.reaction_ms),
    ];
    metrics
        .map(|metric| label(metric, of, controller, slowing))
        .into()
}
