//! A machine's own points become a profile.

use std::sync::atomic::AtomicBool;

use nearfar_measure::calibrate::{
    Calibration, Options, Parameter, calibrate_until, measured_points, profile_text,
};
use nearfar_measure::reproduce::Points;
use nearfar_measure::results::{self, Metric};
use nearfar_topology::{Known, Profile};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::{json, wrong};
use crate::failure::Failure;
use crate::python::{raised, run_interruptibly};

/// Fits parameters of a profile to points: texts by name and format (`csv`, `jsonl`, or `figures` as JSON). The new
/// profile, its text in TOML, and figures, as JSON. Ctrl-C ends it.
#[pyfunction]
#[pyo3(signature = (points, profile, fit=None, hold_out=0.25, seed=0, rounds=200, name="calibrated"))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn calibrate(
    py: Python<'_>,
    points: Vec<(String, String, String)>,
    profile: &str,
    fit: Option<Vec<String>>,
    hold_out: f64,
    seed: u64,
    rounds: usize,
    name: &str,
) -> PyResult<String> {
    let prepare = || -> Result<_, Failure> {
        if !(0.01..=0.9).contains(&hold_out) {
            return Err(wrong("hold_out is a share of the points: 0.01 to 0.9"));
        }
        let profile = Profile::resolve(profile).map_err(wrong)?;
        let read = |(name, format, text): (String, String, String)| {
            let read = read(&name, &format, &text, &profile)?;
            Ok((name, read))
        };
        let files = points.into_iter().map(read);
        let files = files.collect::<Result<_, Failure>>()?;
        let options = Options {
            parameters: match fit {
                None => Parameter::DEFAULT.to_vec(),
                Some(keys) => {
                    let parameters = keys.iter().map(|key| key.parse());
                    parameters.collect::<Result<_, _>>().map_err(wrong)?
                }
            },
            held_out: hold_out,
            seed,
            rounds_max: rounds,
            name: name.to_owned(),
        };
        Ok((files, profile, options))
    };
    let (files, profile, options): (Vec<_>, _, _) = py.detach(prepare).map_err(raised)?;
    let fit = move |stop: &AtomicBool| {
        let found = calibrate_until(&files, &profile, &options, stop, |_, _| {});
        told(&found.map_err(wrong)?)
    };
    run_interruptibly(py, "a calibration", fit)
}

fn read(name: &str, format: &str, text: &str, profile: &Profile) -> Result<Points, Failure> {
    let metrics: Vec<Metric> = match format {
        "csv" => return Points::parse(name, text).map_err(wrong),
        "jsonl" => results::read(text.as_bytes()).map_err(wrong)?.1,
        _ => serde_json::from_str(text).map_err(|error| wrong(format!("{name}: {error}")))?,
    };
    let (devices, timer_ns) = match &profile.simulation {
        Known::Value(simulation) => (simulation.far.devices, simulation.core.timer_ns),
        Known::Unavailable(_) => (1, 0.0),
    };
    measured_points(name, &metrics, devices, timer_ns).map_err(wrong)
}

fn told(found: &Calibration) -> Result<String, Failure> {
    let text = profile_text(&found.profile);
    Profile::parse("the new profile", &text).map_err(wrong)?;
    let parameters = found.parameters.iter().map(|one| {
        let value = json!({
            "before_ns": one.before_ns,
            "value_ns": one.value_ns,
            "uncertainty_percent": one.uncertainty_percent,
        });
        (one.parameter.key().to_owned(), value)
    });
    json(&json!({
        "profile": found.profile,
        "text": text,
        "parameters": parameters.collect::<serde_json::Map<String, Value>>(),
        "figures": found.metrics(),
    }))
}
