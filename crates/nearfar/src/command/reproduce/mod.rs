//! `nearfar reproduce`: the model against published points.

mod geyer;
mod interplay;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nearfar_index_bench::reproduce::BPlusTrees;
use nearfar_measure::Kind;
use nearfar_measure::report::Report;
use nearfar_measure::reproduce::{POINTS_BYTES_MAX, Points, Reproduction, reproduce_with};
use nearfar_measure::results::{Header, Metric};
use nearfar_topology::Profile;
use serde_json::json;

use crate::args::{FigureName, ReproduceArgs};
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures;
use crate::output::file::save_page;

/// The machine of weisgut-2025.
const DEFAULT_PROFILE: &str = "cxl-blades-4";

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    if let Some(figure) = args.figure.and_then(FigureName::interplay) {
        return interplay::run(args, figure);
    }
    let geyer = args.figure.map(FigureName::geyer).unwrap_or_default();
    if !geyer.is_empty() {
        return geyer::run(args, geyer);
    }
    let profile = Profile::resolve(args.profile.as_deref().unwrap_or(DEFAULT_PROFILE))?;
    let experiments = experiments(args, &profile)?;
    let header = header(args, &profile);
    let outcomes = run_shown(move |live| {
        let mut outcomes = Vec::new();
        for (name, title, points, profile) in &experiments {
            let mut trees = BPlusTrees::default();
            let outcome = reproduce_with(name, points, profile, Some(&mut trees), |done, of| {
                live.say(format!("{name}: {done} of {of} points"));
            })?;
            outcomes.push((title.clone(), outcome));
        }
        Ok(outcomes)
    })?;
    let figures = outcomes.iter().flat_map(|(_, outcome)| outcome.metrics());
    let figures: Vec<Metric> = figures.collect();
    figures::print(args.figures.format, &header, &figures, |_, out| {
        let mut all = outcomes.iter();
        all.try_for_each(|(title, outcome)| table::write(title, outcome, out))
    })?;
    if let Some(path) = &args.report {
        save_page(&page(&header, &outcomes), path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    match outcomes
        .iter()
        .any(|(_, outcome)| outcome.mape_percent().is_some())
    {
        true => Ok(()),
        false => Err(Failed::new(Exit::Unavailable, "none of these points can be modelled").into()),
    }
}

/// What is to be run: name, title, points and machine.
type Experiment = (String, String, Points, Profile);

fn experiments(args: &ReproduceArgs, profile: &Profile) -> anyhow::Result<Vec<Experiment>> {
    if let Some(path) = &args.points {
        let name = path.display().to_string();
        let points = read_points(path)?;
        return Ok(vec![(name.clone(), name, points, profile.clone())]);
    }
    let figures = args.figure.unwrap_or(FigureName::All).figures();
    let experiment = |figure: &nearfar_measure::reproduce::Figure| {
        (
            figure.name().to_owned(),
            figure.title().to_owned(),
            figure.points(),
            figure.machine(profile.clone()),
        )
    };
    Ok(figures.iter().map(experiment).collect())
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

fn header(args: &ReproduceArgs, profile: &Profile) -> Header {
    let configuration = json!({
        "figure": args.figure.map(|figure| format!("{figure:?}").to_lowercase()),
        "points": args.points,
        "profile": profile,
    });
    figures::header(configuration)
}

fn page(header: &Header, outcomes: &[(String, Reproduction)]) -> Report {
    let mut report = Report::new("The model against published points");
    report.legend([Kind::Published, Kind::Modelled]);
    for (title, outcome) in outcomes {
        outcome.add_to(&mut report, title);
    }
    report.heading("Machine and configuration").header(header);
    report
}
