//! What the simulator in virtual time needs of a machine beyond a profile's published figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::{ProfileError, ProfileProblem};
use super::raw::RawNumber;
use super::validate::{Range, Reader};
use crate::known::Known;

/// Built-in parameter sets: name and file.
const BUILTIN: [(&str, &str); 8] = [
    (
        "emerald-rapids-cma",
        include_str!("../../profiles/simulation/emerald-rapids-cma.toml"),
    ),
    (
        "emerald-rapids-cmm",
        include_str!("../../profiles/simulation/emerald-rapids-cmm.toml"),
    ),
    (
        "emerald-rapids-upi",
        include_str!("../../profiles/simulation/emerald-rapids-upi.toml"),
    ),
    (
        "sapphire-rapids-agilex",
        include_str!("../../profiles/simulation/sapphire-rapids-agilex.toml"),
    ),
    (
        "sapphire-rapids-card",
        include_str!("../../profiles/simulation/sapphire-rapids-card.toml"),
    ),
    (
        "sapphire-rapids-asic",
        include_str!("../../profiles/simulation/sapphire-rapids-asic.toml"),
    ),
    (
        "sapphire-rapids-fpga",
        include_str!("../../profiles/simulation/sapphire-rapids-fpga.toml"),
    ),
    (
        "sapphire-rapids-upi",
        include_str!("../../profiles/simulation/sapphire-rapids-upi.toml"),
    ),
];

/// Cores, their queues, caches and prefetchers, and the request table that they share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedCores {
    /// Hardware threads of one core.
    pub threads_per_core: u32,
    /// L1 fill buffers: demand misses that one core keeps in flight.
    pub fill_buffers: u32,
    /// Time from the arrival of a line until its fill buffer serves the next miss.
    pub fill_turnaround_ns: f64,
    /// Misses of one core that L2 keeps in flight, prefetches included.
    pub l2_queue_entries: u32,
    /// Lines of loads that the instruction window shows to the prefetchers beyond the last line
    /// that has a fill buffer.
    pub window_lines: u32,
    /// Consecutive lines of a page after which the streamer prefetches.
    pub stream_trigger_lines: u32,
    /// Lines that the streamer runs ahead within a page.
    pub streamer_distance_lines: u32,
    /// Time of the core per operation, whatever its length.
    pub access_ns: f64,
    /// Time of the core per line.
    pub line_ns: f64,
    /// Size of L1.
    pub l1_bytes: u64,
    /// Associativity of L1.
    pub l1_ways: u32,
    /// Time of a load that hits L1.
    pub l1_hit_ns: f64,
    /// Size of L2.
    pub l2_bytes: u64,
    /// Associativity of L2.
    pub l2_ways: u32,
    /// Time of a load that hits L2.
    pub l2_hit_ns: f64,
    /// Associativity of L3, whose size is the profile's `cache_bytes`.
    pub l3_ways: u32,
    /// Time of a load that hits L3.
    pub l3_hit_ns: f64,
    /// Entries of the request table between all cores and memory (mao-2025, section III-C).
    pub request_table_entries: u32,
    /// Whether a modified line that leaves the caches has an entry of the request table while it waits
    /// for memory. Where not, it waits in the last level, and keeps its core's place in the L2 queue.
    pub write_backs_in_table: bool,
    /// What a latency benchmark's timer and fence add to every sample.
    pub timer_ns: f64,
}

/// Memory of one tier, as the simulator serves it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedTier {
    /// Devices over which pages can be interleaved.
    pub devices: u32,
    /// Servers of one device; consecutive 256 bytes share one.
    pub channels: u32,
    /// Idle latency of a read.
    pub read_latency_ns: f64,
    /// What a read takes longer that asks for ownership, for a store.
    pub ownership_ns: f64,
    /// Idle latency of a write, until it is acknowledged.
    pub write_latency_ns: f64,
    /// Width of the latency's spread: lines are hashed over caching agents near and far.
    pub latency_spread_ns: f64,
    /// Time that one device takes per line read.
    pub read_service_ns: f64,
    /// Time that one device takes per line written.
    pub write_service_ns: f64,
    /// Spread of service times about their mean, as a part of it.
    pub service_variation: f64,
    /// Relative growth of the service time per microsecond of backlog.
    pub backlog_slowdown_per_us: f64,
    /// Time between two refreshes.
    pub refresh_interval_ns: f64,
    /// Time that a refresh closes a channel.
    pub refresh_ns: f64,
}

/// Parameters of the simulator in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulationProfile {
    /// Cores and what they share.
    pub core: SimulatedCores,
    /// Local memory.
    pub near: SimulatedTier,
    /// Far memory; service times are those of one device.
    pub far: SimulatedTier,
    /// Memory of the other socket, where the machine has one.
    pub remote: Option<SimulatedTier>,
    /// Where each number comes from, by its key (`core.fill_buffers`).
    pub sources: BTreeMap<String, String>,
}

/// The name of a built-in parameter set, why there are no parameters, or the parameters themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawSimulation {
    Name(String),
    Unknown(RawUnknown),
    Sections(RawSections),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUnknown {
    unknown: String,
}

type Section = BTreeMap<String, RawNumber>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSections {
    core: Section,
    near: Section,
    far: Section,
    remote: Option<Section>,
}

const COUNT: Range = Range::whole(1.0, 65_536.0, "entries");
const WINDOW: Range = Range::whole(1.0, 128.0, "lines");
const YES_OR_NO: Range = Range::whole(0.0, 1.0, "1 for yes");
const BYTES: Range = Range::whole(1_024.0, 68_719_476_736.0, "bytes");
const TIME: Range = Range::real(0.0, 1_000_000.0, "ns");
const LATENCY: Range = Range::real(1.0, 1_000_000.0, "ns");
const SERVICE: Range = Range::real(0.001, 10_000.0, "ns");
const SHARE: Range = Range::real(0.0, 1.0, "of the mean");
const SLOWDOWN: Range = Range::real(0.0, 10.0, "per us");

struct Sections<'a, 'b> {
    reader: &'a mut Reader<'b>,
    name: &'static str,
    numbers: Section,
}

impl Sections<'_, '_> {
    fn real(&mut self, key: &str, range: &Range) -> Result<f64, ProfileError> {
        let raw = self.numbers.remove(key);
        let key = format!("{}.{key}", self.name);
        self.reader
            .needed(&key, raw, range, "the simulation is computed from it")
    }

    fn count(&mut self, key: &str, range: &Range) -> Result<u32, ProfileError> {
        Ok(self.real(key, range)? as u32)
    }

    /// Keys that nothing has asked for are slips of the pen.
    fn finish(self) -> Result<(), ProfileError> {
        match self.numbers.into_keys().next() {
            Some(key) => Err(self
                .reader
                .invalid(&format!("{}.{key}", self.name), ProfileProblem::UnknownKey)),
            None => Ok(()),
        }
    }
}

fn cores(reader: &mut Reader<'_>, numbers: Section) -> Result<SimulatedCores, ProfileError> {
    let mut section = Sections {
        reader,
        name: "simulation.core",
        numbers,
    };
    let cores = SimulatedCores {
        threads_per_core: section.count("threads_per_core", &Range::whole(1.0, 8.0, "threads"))?,
        fill_buffers: section.count("fill_buffers", &COUNT)?,
        fill_turnaround_ns: section.real("fill_turnaround_ns", &TIME)?,
        l2_queue_entries: section.count("l2_queue_entries", &COUNT)?,
        window_lines: section.count("window_lines", &WINDOW)?,
        stream_trigger_lines: section.count("stream_trigger_lines", &COUNT)?,
        streamer_distance_lines: section.count("streamer_distance_lines", &COUNT)?,
        access_ns: section.real("access_ns", &TIME)?,
        line_ns: section.real("line_ns", &TIME)?,
        l1_bytes: section.real("l1_bytes", &BYTES)? as u64,
        l1_ways: section.count("l1_ways", &COUNT)?,
        l1_hit_ns: section.real("l1_hit_ns", &TIME)?,
        l2_bytes: section.real("l2_bytes", &BYTES)? as u64,
        l2_ways: section.count("l2_ways", &COUNT)?,
        l2_hit_ns: section.real("l2_hit_ns", &TIME)?,
        l3_ways: section.count("l3_ways", &COUNT)?,
        l3_hit_ns: section.real("l3_hit_ns", &TIME)?,
        request_table_entries: section.count("request_table_entries", &COUNT)?,
        write_backs_in_table: section.count("write_backs_in_table", &YES_OR_NO)? == 1,
        timer_ns: section.real("timer_ns", &TIME)?,
    };
    section.finish()?;
    Ok(cores)
}

fn tier(
    reader: &mut Reader<'_>,
    name: &'static str,
    numbers: Section,
) -> Result<SimulatedTier, ProfileError> {
    let mut section = Sections {
        reader,
        name,
        numbers,
    };
    let channels = Range::whole(1.0, 64.0, "channels");
    let tier = SimulatedTier {
        devices: section.count("devices", &Range::whole(1.0, 64.0, "devices"))?,
        channels: section.count("channels", &channels)?,
        read_latency_ns: section.real("read_latency_ns", &LATENCY)?,
        ownership_ns: section.real("ownership_ns", &TIME)?,
        write_latency_ns: section.real("write_latency_ns", &LATENCY)?,
        latency_spread_ns: section.real("latency_spread_ns", &TIME)?,
        read_service_ns: section.real("read_service_ns", &SERVICE)?,
        write_service_ns: section.real("write_service_ns", &SERVICE)?,
        service_variation: section.real("service_variation", &SHARE)?,
        backlog_slowdown_per_us: section.real("backlog_slowdown_per_us", &SLOWDOWN)?,
        refresh_interval_ns: section.real("refresh_interval_ns", &LATENCY)?,
        refresh_ns: section.real("refresh_ns", &TIME)?,
    };
    section.finish()?;
    if tier.refresh_ns * 2.0 > tier.refresh_interval_ns {
        let problem = ProfileProblem::OutOfRange {
            value: tier.refresh_ns,
            allowed: "at most half of refresh_interval_ns".to_owned(),
        };
        return Err(reader.invalid(&format!("{name}.refresh_ns"), problem));
    }
    Ok(tier)
}

/// The parameters, or why the profile has none.
pub(super) fn simulation(
    file: &str,
    raw: RawSimulation,
) -> Result<Known<SimulationProfile>, ProfileError> {
    let mut reader = Reader::new(file);
    let sections = match raw {
        RawSimulation::Sections(sections) => sections,
        RawSimulation::Name(name) => builtin(file, &name)?,
        RawSimulation::Unknown(RawUnknown { unknown }) => {
            reader.not_empty("simulation", &unknown)?;
            return Ok(Known::unavailable(unknown));
        }
    };
    let core = cores(&mut reader, sections.core)?;
    let near = tier(&mut reader, "simulation.near", sections.near)?;
    let far = tier(&mut reader, "simulation.far", sections.far)?;
    let remote = sections
        .remote
        .map(|remote| tier(&mut reader, "simulation.remote", remote))
        .transpose()?;
    Ok(Known::Value(SimulationProfile {
        core,
        near,
        far,
        remote,
        sources: reader.into_sources(),
    }))
}

fn builtin(file: &str, name: &str) -> Result<RawSections, ProfileError> {
    let found = BUILTIN.iter().find(|(builtin, _)| *builtin == name);
    let Some((_, text)) = found else {
        let known = BUILTIN.map(|(name, _)| name).join(", ");
        return Err(Reader::new(file).invalid(
            "simulation",
            ProfileProblem::UnknownSimulation {
                name: name.to_owned(),
                known,
            },
        ));
    };
    toml::from_str(text).map_err(|source| ProfileError::Syntax {
        file: format!("built-in simulation {name}"),
        source,
    })
}
