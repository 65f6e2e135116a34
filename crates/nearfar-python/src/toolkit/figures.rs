//! Access benchmarks, in memory or in virtual time.

use std::collections::BTreeMap;
use std::io;

use nearfar_measure::access::{
    Document, Flag, Observer, Outcome, Plan, PlannedRun, Preset, execute,
};
use nearfar_measure::results::Metric;
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Topology};
use pyo3::prelude::*;

use super::{json, wrong};
use crate::failure::Failure;
use crate::python::{raised, run_interruptibly};

/// Names and purposes of the specifications that come with Nearfar.
#[pyfunction]
pub fn presets() -> Vec<(&'static str, &'static str)> {
    Preset::ALL
        .iter()
        .map(|preset| (preset.name, preset.about))
        .collect()
}

/// Runs a specification, given by its name and text, or a preset, with settings in place of its own; in virtual time
/// on the profile's machine if that is wanted. The figures, as JSON. Ctrl-C ends it. It is YAML where the name ends
/// in `.yaml` or `.yml`, else TOML.
#[pyfunction]
#[pyo3(signature = (specification=None, preset=None, settings=None, profile=None, virtual_time=false, lines=None))]
pub fn measure(
    py: Python<'_>,
    specification: Option<(String, String)>,
    preset: Option<&str>,
    settings: Option<BTreeMap<String, Vec<String>>>,
    profile: Option<&str>,
    virtual_time: bool,
    lines: Option<u64>,
) -> PyResult<String> {
    let make = || -> Result<Plan, Failure> {
        let document = document(specification.as_ref(), preset, settings.unwrap_or_default())?;
        let profile = profile.map(Profile::resolve).transpose().map_err(wrong)?;
        match (&profile, virtual_time) {
            (Some(profile), true) => Plan::simulated(&document, profile, lines).map_err(wrong),
            (None, true) => Err(wrong("virtual time is that of a profile: name one")),
            (profile, false) => in_memory(&document, profile.as_ref()),
        }
    };
    let plan = py.detach(make).map_err(raised)?;
    run_interruptibly(py, "a benchmark", move |stop| {
        let mut figures = Figures::default();
        execute(&plan, stop, &mut figures).map_err(wrong)?;
        json(&figures.0)
    })
}

fn document(
    specification: Option<&(String, String)>,
    preset: Option<&str>,
    settings: BTreeMap<String, Vec<String>>,
) -> Result<Document, Failure> {
    let mut document = match (specification, preset) {
        (Some(_), Some(_)) => return Err(wrong("give a specification or a preset, and not both")),
        (Some((name, text)), None) => Document::parse(name, text).map_err(wrong)?,
        (None, Some(name)) => {
            let preset = Preset::named(name).ok_or_else(|| {
                let names = Preset::ALL.map(|preset| preset.name).join(", ");
                wrong(format!("there is no preset {name:?}; there are: {names}"))
            })?;
            Document::parse(&format!("preset {name}"), preset.text).map_err(wrong)?
        }
        (None, None) => Document::default(),
    };
    let flags = settings.into_iter().map(|(path, values)| Flag {
        flag: path.clone(),
        path,
        values,
    });
    document.apply(&flags.collect::<Vec<_>>()).map_err(wrong)?;
    Ok(document)
}

fn in_memory(document: &Document, profile: Option<&Profile>) -> Result<Plan, Failure> {
    let mut topology = Topology::this_machine().map_err(wrong)?;
    let mut models = Vec::new();
    if let Some(profile) = profile {
        topology = topology.with_profile(profile);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = BandwidthShare::Threads(threads as u32);
        for (tier, modelled) in topology.modelled(profile) {
            let model = EmulatedTier::of_tier(profile, modelled, share).map_err(wrong)?;
            models.push((tier.name.clone(), model));
        }
    }
    Plan::new(document, &topology, models).map_err(wrong)
}

#[derive(Default)]
struct Figures(Vec<Metric>);

impl Observer for Figures {
    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> io::Result<()> {
        self.0.extend(outcome.metrics(run));
        Ok(())
    }
}
