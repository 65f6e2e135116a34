//! `nearfar reproduce`: the model against published points.

mod ahn;
mod geyer;
mod interplay;
mod outcomes;
mod shown;
mod table;
mod zhao;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nearfar_index_bench::reproduce::BPlusTrees;
use nearfar_measure::operators::GeyerFigure;
use nearfar_measure::reproduce::{
    Experiment, Figure, POINTS_BYTES_MAX, Points, Reproduction, reproduce_with,
};
use nearfar_measure::results::Metric;
use nearfar_topology::Profile;
use serde_json::json;

use self::outcomes::Outcomes;
use self::shown::Shown;
use crate::args::ReproduceArgs;
use crate::args::figure::{AhnFigure, Entry, Runner, Selection};
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures;
use crate::output::file::save_page;
use crate::progress::Live;

/// The machine of weisgut-2025.
const DEFAULT_PROFILE: &str = "cxl-blades-4";

/// What is run where nothing is asked for.
const DEFAULT_FIGURES: &str = "weisgut";

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    let profile = Profile::resolve(args.profile.as_deref().unwrap_or(DEFAULT_PROFILE))?;
    let asked = Asked::new(args)?;
    let header = figures::header(json!({
        "figure": asked.word(),
        "points": args.points,
        "profile": asked.uses_profile().then_some(&profile),
    }));
    let outcomes = run_shown(move |live| asked.run(&profile, &live))?;
    if outcomes.ran.is_empty() {
        return outcomes.ended();
    }
    let header = outcomes.failed.iter().fold(header, |header, failure| {
        header.unavailable(failure.name.as_str(), message::of(&failure.why))
    });
    let metrics: Vec<Metric> = outcomes.ran.iter().flat_map(|one| one.metrics()).collect();
    figures::print(args.figures.format, &header, &metrics, |_, out| {
        outcomes.write(out)
    })?;
    if let Some(path) = &args.report {
        save_page(&outcomes.page(&header), path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    outcomes.ended()
}

/// What is to be run.
enum Asked {
    /// Points of the user's, and the name of their file.
    Points(String, Points),
    Figures(Selection),
}

impl Asked {
    fn new(args: &ReproduceArgs) -> anyhow::Result<Self> {
        let asked = match &args.points {
            Some(path) => Self::Points(path.display().to_string(), read_points(path)?),
            None => {
                let selection = args.figure.clone();
                Self::Figures(selection.unwrap_or_else(|| Selection::named(DEFAULT_FIGURES)))
            }
        };
        match asked.with_own_profiles() {
            Some(name) if args.profile.is_some() => {
                let message = format!("{name} runs on profiles of its own: leave --profile out");
                Err(Failed::new(Exit::Usage, message).into())
            }
            _ => Ok(asked),
        }
    }

    /// The first that runs on the machine of no profile but its own.
    fn with_own_profiles(&self) -> Option<String> {
        match self {
            Self::Points(name, points) => are_interference(points).then(|| name.clone()),
            Self::Figures(selection) => {
                let mut figures = selection.figures.iter();
                let own = figures.find(|entry| !matches!(entry.runner, Runner::Points(_)));
                own.map(|entry| entry.name.to_owned())
            }
        }
    }

    /// What results call it: a single figure has one name, by whichever word it was asked for.
    fn word(&self) -> Option<&str> {
        match self {
            Self::Points(..) => None,
            Self::Figures(selection) => match selection.figures[..] {
                [figure] => Some(figure.name),
                _ => Some(selection.word.as_str()),
            },
        }
    }

    /// Whether anything runs on the machine of the profile, and not on one of its own.
    fn uses_profile(&self) -> bool {
        match self {
            Self::Points(_, points) => !are_interference(points),
            Self::Figures(selection) => {
                let mut figures = selection.figures.iter();
                figures.any(|entry| matches!(entry.runner, Runner::Points(_)))
            }
        }
    }

    fn run(&self, profile: &Profile, live: &Live) -> anyhow::Result<Outcomes> {
        match self {
            Self::Points(name, points) => {
                let outcome = reproduced(name, points, profile, live)?;
                let mut outcomes = Outcomes::default();
                outcomes.ran.push(Box::new(outcome));
                Ok(outcomes)
            }
            Self::Figures(selection) => Ok(run_all(&selection.figures, profile, live)),
        }
    }
}

/// A file's points are all of one kind, and it has one at least.
fn are_interference(points: &Points) -> bool {
    matches!(points.points[0].experiment, Experiment::Interference(_))
}

/// Runs figures in their order; those of geyer-2023 together. One that fails keeps none of the others from running.
fn run_all(entries: &[&Entry], profile: &Profile, live: &Live) -> Outcomes {
    let geyer = entries.iter().filter_map(|entry| match entry.runner {
        Runner::Geyer(figure) => Some(figure),
        _ => None,
    });
    let geyer: Vec<_> = geyer.collect();
    let mut outcomes = Outcomes::default();
    for entry in entries {
        let outcome = match entry.runner {
            Runner::Points(figure) => points_of(figure, profile, live),
            Runner::Interplay(figure) => interplay::run(figure, live),
            Runner::Geyer(figure) if figure == geyer[0] => geyer::run(&geyer),
            Runner::Geyer(_) => continue,
            Runner::Ahn(AhnFigure::Losses) => ahn::losses(live),
            Runner::Ahn(AhnFigure::Rest) => Ok(ahn::rest()),
            Runner::Zhao(figure) => zhao::run(figure, live),
        };
        let name = match entry.runner {
            Runner::Geyer(_) => geyer_names(&geyer),
            _ => entry.name.to_owned(),
        };
        outcomes.add(name, outcome);
    }
    outcomes
}

fn geyer_names(figures: &[GeyerFigure]) -> String {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name()).collect();
    names.join(", ")
}

fn points_of(figure: Figure, profile: &Profile, live: &Live) -> anyhow::Result<Box<dyn Shown>> {
    let machine = figure.machine(profile.clone());
    let outcome = reproduced(figure.name(), &figure.points(), &machine, live)?;
    Ok(Box::new(outcome.titled(figure.title())))
}

fn reproduced(
    name: &str,
    points: &Points,
    profile: &Profile,
    live: &Live,
) -> anyhow::Result<Reproduction> {
    let mut trees = BPlusTrees::default();
    Ok(reproduce_with(
        name,
        points,
        profile,
        Some(&mut trees),
        |done, of| live.say(format!("{name}: {done} of {of} points")),
    )?)
}

/// Points in a file of CSV.
pub fn read_points(path: &Path) -> anyhow::Result<Points> {
    let name = path.display().to_string();
    let text = read(path)
        .map_err(|error| Failed::new(Exit::Input, format!("cannot read points {name}: {error}")))?;
    Ok(Points::parse(&name, &text)?)
}

/// A file of points, at most a byte more than is allowed, so that its parser refuses it.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(POINTS_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}
