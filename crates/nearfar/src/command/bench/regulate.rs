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
use super::regulate_page::{Course, page};
use crate::args::BenchRegulateArgs;
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures::{self, dimension};
use crate::output::file::save_page;
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
        ("kind", Align::Left, |metric| metric.kind.name().to_owned()),
    ],
    range_title: "range",
    text: |unit, value| format!("{value:.2} {unit}"),
};

/// Runs the command.
pub fn run(args: &BenchRegulateArgs) -> anyhow::Result<()> {
    let profile = Profile::resolve(&args.profile)?;
    let machine = Machine::new(&profile)?;
    let (metrics, courses) = run_shown(move |live| {
        let (mut metrics, mut courses) = (Vec::new(), Vec::new());
        for scenario in Scenario::ALL {
            let plant = plant(&machine, scenario, &|text| live.say(text))?;
            for (controller, slowing) in controllers() {
                let name = controller.name();
                let rated = rate(&plant, controller, slowing)?;
                let of = [("scenario", scenario.name())];
                metrics.extend(figures_of(&of, name, slowing, &rated.quality));
                courses.push(Course {
                    scenario: scenario.name(),
                    controller: name,
                    knob: slowing.name(),
                    full_gb_per_s: plant.full_gb_per_s(),
                    rated,
                    published_percent: published_percent(scenario, slowing),
                });
            }
            metrics.extend(published(scenario));
        }
        for innocent in Innocent::ALL {
            live.say(format!("simulating an innocent group: {}", innocent.name()));
            metrics.extend(of_groups(
                &GroupsPlant::simulate(&machine, innocent)?,
                innocent,
            )?);
        }
        Ok((metrics, courses))
    })?;
    let configuration = json!({ "profile": profile, "virtual": args.virtual_time });
    let header = figures::header(configuration);
    figures::print(args.figures.format, &header, &metrics, |metrics, out| {
        TABLE.write(metrics, out)
    })?;
    if let Some(path) = &args.report {
        save_page(&page(&header, &courses), path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    Ok(())
}

/// The steady states of a scenario, whoever simulates them.
pub fn plant(machine: &Machine, scenario: Scenario, say: &dyn Fn(String)) -> anyhow::Result<Plant> {
    say(format!("simulating {}", scenario.name()));
    Ok(Plant::simulate(machine, scenario)?)
}

/// Ours and the published one, each with the knobs that a group can have.
fn controllers() -> impl Iterator<Item = (Box<dyn Controller>, Slowing)> {
    let goal = Goal::default();
    let of = move |slowing| {
        let ours: Box<dyn Controller> = Box::new(TierAware::new(goal));
        let published: Box<dyn Controller> = Box::new(Published::new(goal));
        [(ours, slowing), (published, slowing)]
    };
    [Slowing::Bandwidth, Slowing::Quota, Slowing::Frequency]
        .into_iter()
        .flat_map(of)
}

/// What the paper gives back to a victim with each knob, lowest and highest in per cent (mao-2025, section V). Of quota and
/// frequency it says that the three victims have the same.
fn published_percent(scenario: Scenario, slowing: Slowing) -> Option<(f64, f64)> {
    let allocation = match scenario {
        Scenario::NearLoads => 99.0,
        Scenario::SmallFiles => 98.0,
        Scenario::NearStores | Scenario::NearNonTemporalStores => return None,
    };
    Some(match slowing {
        Slowing::Quota => (92.0, 92.0),
        Slowing::Frequency => (30.0, 52.0),
        Slowing::Bandwidth => (allocation, allocation),
    })
}

fn published(scenario: Scenario) -> Vec<Metric> {
    let of = |slowing: Slowing, percent: f64| {
        let name = "recovered_percent";
        let metric = Metric::new(name, percent, "%", Kind::Published);
        label(metric, &[("scenario", scenario.name())], "paper", slowing)
    };
    let all = [Slowing::Quota, Slowing::Frequency, Slowing::Bandwidth];
    let both = |slowing| match published_percent(scenario, slowing) {
        None => Vec::new(),
        Some((lowest, highest)) if lowest < highest => vec![
            of(slowing, lowest).with("bound", "lowest"),
            of(slowing, highest).with("bound", "highest"),
        ],
        Some((percent, _)) => vec![of(slowing, percent)],
    };
    all.into_iter().flat_map(both).collect()
}

fn of_groups(plant: &GroupsPlant, innocent: Innocent) -> anyhow::Result<Vec<Metric>> {
    let mut metrics = Vec::new();
    let of_group = |(_, slowing): &(_, Slowing)| *slowing != Slowing::Frequency;
    for telling in Telling::ALL {
        for (controller, slowing) in controllers().filter(of_group) {
            let name = controller.name();
            let quality = rate_groups(plant, controller, slowing, telling)?;
            let of = [
                ("scenario", "near-ld"),
                ("innocent", innocent.name()),
                ("told_by", telling.name()),
            ];
            metrics.extend(figures_of_groups(&of, name, slowing, &quality));
        }
    }
    Ok(metrics)
}

/// What a figure belongs to.
fn label(metric: Metric, of: &[(&str, &str)], controller: &str, slowing: Slowing) -> Metric {
    let metric = metric.with("controller", controller);
    let metric = metric.with("knob", slowing.name());
    of.iter()
        .fold(metric, |metric, (name, value)| metric.with(name, *value))
}

/// The time of a reaction, where there was one.
pub fn reaction(ms: Option<f64>) -> Metric {
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
