//! `nearfar calibrate`: a machine's own points become a profile.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use nearfar_measure::calibrate::{
    Calibration, Options, Parameter, calibrate, measured_points, profile_text,
};
use nearfar_measure::reproduce::Points;
use nearfar_topology::{Known, Profile};
use serde_json::json;

use super::measure::open;
use super::reproduce::read_points;
use crate::args::CalibrateArgs;
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures;
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<()> {
    let profile = Profile::resolve(&args.profile)?;
    let options = Options {
        parameters: match args.fit.as_slice() {
            [] => Parameter::DEFAULT.to_vec(),
            fit => fit.to_vec(),
        },
        held_out: f64::from(args.hold_out) / 100.0,
        seed: args.seed,
        rounds_max: args.rounds,
        name: args.name.clone(),
    };
    let mut files = Vec::new();
    for path in &args.points {
        files.push((path.display().to_string(), read(path, &profile)?));
    }
    let configuration = json!({
        "points": args.points,
        "profile": profile,
        "fit": options.parameters.iter().map(|one| one.key()).collect::<Vec<_>>(),
        "hold_out_percent": args.hold_out,
        "seed": args.seed,
        "rounds": args.rounds,
    });
    let found = run_shown(move |live| {
        let found = calibrate(&files, &profile, &options, |round, mean_square| {
            live.say(format!(
                "round {round}: {:.1} %",
                mean_square.sqrt() * 100.0
            ));
        });
        Ok(found?)
    })?;
    let text = profile_text(&found.profile);
    Profile::parse("the new profile", &text)?;
    figures::print_measured(
        args.figures.format,
        configuration,
        &found.metrics(),
        |_, out| write(&found, out),
    )?;
    if let Some(path) = &args.output {
        let told = |error| format!("cannot write {}: {error}", path.display());
        fs::write(path, text).map_err(|error| Failed::new(Exit::Output, told(error)))?;
        message::print(&format!("The profile is in {}.", path.display()));
    }
    Ok(())
}

fn read(path: &Path, profile: &Profile) -> anyhow::Result<Points> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("jsonl" | "parquet")) {
        return read_points(path);
    }
    let (_, metrics) = open(path)?;
    let (devices, timer_ns) = match &profile.simulation {
        Known::Value(simulation) => (simulation.far.devices, simulation.core.timer_ns),
        Known::Unavailable(_) => (1, 0.0),
    };
    let name = path.display().to_string();
    Ok(measured_points(&name, &metrics, devices, timer_ns)?)
}

fn write(found: &Calibration, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("parameter", Align::Left),
        ("before", Align::Right),
        ("fitted", Align::Right),
        ("standard error", Align::Right),
    ]);
    for one in &found.parameters {
        grid.row([
            one.parameter.key().to_owned(),
            format!("{:.3} ns", one.before_ns),
            format!("{:.3} ns", one.value_ns),
            format!("{:.1} %", one.uncertainty_percent),
        ]);
    }
    grid.write_page(out)?;
    let count = |held_out| {
        let of = found
            .points
            .iter()
            .filter(|one| one.is_held_out == held_out);
        of.count()
    };
    writeln!(
        out,
        "\nmean absolute error: {:.1} % over {} fitted points, {:.1} % over {} held out",
        found.fitted_error_percent(),
        count(false),
        found.held_out_error_percent(),
        count(true)
    )
}
