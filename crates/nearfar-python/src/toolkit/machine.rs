//! Tiers and profiles.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use nearfar_measure::Kind;
use nearfar_measure::probe::{ProbeOptions, probe_tier};
use nearfar_measure::results::Metric;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Topology};
use pyo3::prelude::*;
use serde_json::json;

use super::{json, wrong};
use crate::failure::Failure;
use crate::python::raised;

/// The machine's tiers, as JSON: `topology`, and `metrics` of a probe if one is asked for.
#[pyfunction]
#[pyo3(signature = (profile=None, probe=false, sysfs=None, threads=None))]
pub fn tiers(
    py: Python<'_>,
    profile: Option<&str>,
    probe: bool,
    sysfs: Option<PathBuf>,
    threads: Option<u32>,
) -> PyResult<String> {
    let find = || -> Result<String, Failure> {
        let root = sysfs.as_deref().unwrap_or(Path::new("/sys"));
        let profile = profile.map(Profile::resolve).transpose().map_err(wrong)?;
        let mut topology = Topology::discover(root).map_err(wrong)?;
        if let Some(profile) = &profile {
            topology = topology.with_profile(profile);
        }
        let metrics = match probe {
            true => probed(&topology, profile.as_ref(), threads)?,
            false => Vec::new(),
        };
        json(&json!({ "topology": topology, "metrics": metrics }))
    };
    py.detach(find).map_err(raised)
}

/// Figures of each tier; unavailable, with the reason, where it gives no memory.
fn probed(
    topology: &Topology,
    profile: Option<&Profile>,
    threads: Option<u32>,
) -> Result<Vec<Metric>, Failure> {
    let system = MemorySystem::new(topology, &Budgets::new()).map_err(wrong)?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = NonZeroU32::new(threads.unwrap_or(available as u32));
    let threads = threads.ok_or_else(|| wrong("threads must be at least 1"))?;
    let options = ProbeOptions::for_cache(topology.last_level_cache_bytes.get(), threads);
    let mut metrics = Vec::new();
    for tier in &topology.tiers {
        let unavailable = |reason: &str| {
            Metric::unavailable("idle_latency_ns", reason, "ns", Kind::Measured)
                .with("tier", tier.name.as_str())
        };
        if !tier.allocatable {
            metrics.push(unavailable(
                "no memory can be taken from it without overwriting",
            ));
            continue;
        }
        let mut modelled = profile.into_iter().flat_map(|profile| {
            let tiers = topology.modelled(profile);
            tiers.map(move |(tier, modelled)| (profile, tier, modelled))
        });
        let model = modelled.find(|(_, modelled, _)| modelled.name == tier.name);
        let model = model.map(|(profile, _, modelled)| {
            EmulatedTier::of_tier(profile, modelled, BandwidthShare::Threads(threads.get()))
        });
        let model = model.transpose().map_err(wrong)?;
        let id = system.tier(&tier.name).map_err(wrong)?;
        match probe_tier(&system, id, model.as_deref(), &options) {
            Ok(result) => metrics.extend(result.metrics(&tier.name)),
            Err(error) => metrics.push(unavailable(&error.to_string())),
        }
    }
    Ok(metrics)
}

/// The names of the built-in profiles.
#[pyfunction]
pub fn builtin_profiles() -> Vec<&'static str> {
    Profile::builtin_names().collect()
}

/// A profile, as JSON.
#[pyfunction]
pub fn profile(name: &str) -> PyResult<String> {
    let profile = Profile::resolve(name).map_err(wrong);
    profile.and_then(|profile| json(&profile)).map_err(raised)
}
