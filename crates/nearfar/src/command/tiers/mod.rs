//! `nearfar tiers`: the memory of the machine, as declared and as measured.

mod json;
mod table;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use nearfar_measure::probe::{ProbeOptions, ProbeResult, probe_tier};
use nearfar_measure::results::Header;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Tier, Topology};
use serde_json::json;

use crate::args::TiersArgs;
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures;
use crate::progress::Live;

/// A tier's probe, or why there is none.
pub type Probed = Result<ProbeResult, String>;

/// Runs the command.
pub fn run(args: &TiersArgs) -> anyhow::Result<()> {
    let mut topology = match &args.sysfs {
        Some(root) => Topology::discover(root)?,
        None => Topology::discover(Path::new("/sys"))?,
    };
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    if let Some(profile) = &profile {
        topology = topology.with_profile(profile);
    }
    let probed = if args.probe {
        probe_until_interrupted(args, &topology, profile.as_ref())?
    } else {
        Vec::new()
    };
    let header = header(args, &topology, profile.as_ref());
    let metrics = json::metrics(&topology, &probed);
    figures::print(args.figures.format, &header, &metrics, |_, out| {
        table::write(&topology, &probed, out)
    })
}

fn header(args: &TiersArgs, topology: &Topology, profile: Option<&Profile>) -> Header {
    let configuration = json!({
        "sysfs": args.sysfs.as_deref().unwrap_or(Path::new("/sys")),
        "profile": profile,
        "probe": args.probe,
        "whole_device": args.whole_device,
        "topology": topology,
    });
    let header = figures::header(configuration);
    let gaps = topology.unavailable.iter();
    gaps.fold(header, |header, gap| {
        header.unavailable(&gap.what, &gap.reason)
    })
}

fn probe_until_interrupted(
    args: &TiersArgs,
    topology: &Topology,
    profile: Option<&Profile>,
) -> anyhow::Result<Vec<Probed>> {
    let (args, topology, profile) = (args.clone(), topology.clone(), profile.cloned());
    run_shown(move |live| probe_all(&args, &topology, profile.as_ref(), &live))
}

/// Probes every tier that memory can be taken from.
fn probe_all(
    args: &TiersArgs,
    topology: &Topology,
    profile: Option<&Profile>,
    live: &Live,
) -> anyhow::Result<Vec<Probed>> {
    let system = MemorySystem::new(topology, &Budgets::new())?;
    let threads = args.threads.unwrap_or_else(available_threads);
    let share = if args.whole_device {
        BandwidthShare::WholeDevice
    } else {
        BandwidthShare::Threads(threads.get())
    };
    let options = ProbeOptions::for_cache(topology.last_level_cache_bytes.get(), threads);
    let probe = |tier: &Tier| -> anyhow::Result<Probed> {
        if !tier.allocatable {
            let reason = match tier.mappable_device() {
                Some(_) => "a probe would overwrite what is on its device",
                None => "no memory can be taken from it",
            };
            return Ok(Err(reason.to_owned()));
        }
        live.say(format!("probing tier {}", tier.name));
        let emulated = match profile {
            Some(profile) => emulated(tier, topology, profile, share)?,
            None => None,
        };
        let id = system.tier(&tier.name)?;
        Ok(probe_one(&system, id, emulated.as_deref(), &options))
    };
    topology.tiers.iter().map(probe).collect()
}

/// The model of a tier, if it is modelled.
fn emulated(
    tier: &Tier,
    topology: &Topology,
    profile: &Profile,
    share: BandwidthShare,
) -> anyhow::Result<Option<Arc<EmulatedTier>>> {
    let mut modelled = topology.modelled(profile);
    let found = modelled.find(|(modelled, _)| modelled.name == tier.name);
    let model = found.map(|(_, modelled)| EmulatedTier::of_tier(profile, modelled, share));
    Ok(model.transpose()?)
}

/// One tier that gives no memory does not keep the others from being probed.
fn probe_one(
    system: &Arc<MemorySystem>,
    tier: nearfar_memory::TierId,
    emulated: Option<&EmulatedTier>,
    options: &ProbeOptions,
) -> Probed {
    probe_tier(system, tier, emulated, options).map_err(|error| message::of(&error.into()))
}

fn available_threads() -> NonZeroU32 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(threads)
        .ok()
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN)
}
