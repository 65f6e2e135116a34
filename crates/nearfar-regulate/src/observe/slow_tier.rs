//! Slow tiers of a machine, and counters of what goes to CXL devices (kernel documentation: perf/cxl, and
//! `events` and `format` of event sources; Intel's events of the uncore).

use std::fs;
use std::process::Command;

use nearfar_topology::{NodeId, TierKind, Topology};

use super::perf::{INTERVAL_MS, Interval, Perf};
use crate::error::RegulateError;
use crate::machine::MachineFiles;

const SOURCES: &str = "sys/bus/event_source/devices";
/// Bytes of a line.
pub(super) const LINE_BYTES: f64 = 64.0;

/// Tiers whose memory no processor has beside it.
#[derive(Debug, Clone)]
pub struct SlowTiers {
    tiers: Vec<(String, Vec<NodeId>)>,
}

impl SlowTiers {
    /// Those of a machine: nodes without processors, behind CXL or not.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where there is none.
    pub fn find(machine: &MachineFiles) -> Result<Self, RegulateError> {
        let unavailable = |reason: String| RegulateError::Unavailable {
            knob: "slow tier",
            reason,
        };
        let topology = Topology::discover(&machine.path("sys"))
            .map_err(|error| unavailable(error.to_string()))?;
        let is_slow = |kind| matches!(kind, TierKind::Cxl | TierKind::CpulessNode);
        let tiers = topology.tiers.into_iter();
        let tiers = tiers.filter(|tier| is_slow(tier.kind) && !tier.nodes.is_empty());
        let tiers: Vec<_> = tiers.map(|tier| (tier.name, tier.nodes)).collect();
        match tiers.is_empty() {
            true => Err(unavailable(
                "every node with memory has processors".to_owned(),
            )),
            false => Ok(Self { tiers }),
        }
    }

    /// Their names, such as `cxl` or `cpuless, cpuless-2`.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.tiers.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    }

    pub(super) fn has(&self, node: u32) -> bool {
        let mut nodes = self.tiers.iter().flat_map(|(_, nodes)| nodes);
        nodes.any(|one| one.0 == node)
    }
}

/// One kind of counter: source of events by how its name begins, and events of data to and from the device.
struct Kind {
    source: &'static str,
    events: &'static [&'static str],
    /// Whether the source names its events; else they are numbers of its format.
    is_named: bool,
}

/// Best first: the devices' own, then the processor's ports. Sapphire Rapids and its successors count what comes
/// from devices in one unit and what goes to them in another.
const KINDS: [&[Kind]; 2] = [
    &[Kind {
        source: "cxl_pmu_mem",
        events: &["s2m_drs_memdata", "m2s_rwd_memwr"],
        is_named: true,
    }],
    &[
        Kind {
            source: "uncore_cxlcm",
            events: &["event=0x41,umask=0x10"],
            is_named: false,
        },
        Kind {
            source: "uncore_cxldp",
            events: &["event=0x02,umask=0x20"],
            is_named: false,
        },
    ],
];

impl Kind {
    /// The events of a source, as `perf` wants them; what the source lacks is left out.
    fn events_of(&self, machine: &MachineFiles, source: &str) -> Vec<String> {
        let folder = machine.path(SOURCES).join(source);
        let has = |event: &&&str| match self.is_named {
            true => folder.join("events").join(event).exists(),
            false => ["event", "umask"]
                .iter()
                .all(|field| folder.join("format").join(field).exists()),
        };
        let events = self.events.iter().filter(has);
        events.map(|event| format!("{source}/{event}/")).collect()
    }
}

/// The events of CXL traffic that a machine has, as `perf` wants them.
///
/// # Errors
/// [`RegulateError::Unavailable`] where it has none.
pub fn cxl_events(machine: &MachineFiles) -> Result<Vec<String>, RegulateError> {
    let entries = fs::read_dir(machine.path(SOURCES));
    let names = entries.into_iter().flatten().flatten();
    let mut sources: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    sources.sort_unstable();
    for kinds in KINDS {
        let of = |kind: &Kind| -> Vec<String> {
            let sources = sources.iter().filter(|name| name.starts_with(kind.source));
            sources
                .flat_map(|source| kind.events_of(machine, source))
                .collect()
        };
        let events: Vec<String> = kinds.iter().flat_map(of).collect();
        if !events.is_empty() {
            return Ok(events);
        }
    }
    Err(RegulateError::Unavailable {
        knob: "counters of CXL traffic",
        reason: format!("/{SOURCES} has neither cxl_pmu_mem* nor uncore_cxlcm*"),
    })
}

/// Bytes to and from all CXL devices of the machine, whoever moves them.
#[derive(Debug)]
pub struct CxlTraffic {
    perf: Perf,
}

/// What went to and from CXL devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CxlSeen {
    /// Bytes in a second; no number where nothing was counted.
    pub bytes_per_s: f64,
    /// For how much of the time it was counted; the rest is scaled.
    pub counted_percent: f64,
}

impl CxlTraffic {
    /// Counts that of this machine.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without such counters, without `perf` or without the right to count, and
    /// for a captured machine.
    pub fn start(machine: &MachineFiles) -> Result<Self, RegulateError> {
        let events = cxl_events(machine)?;
        if !machine.is_this_one() {
            let reason = "perf counts on this machine only".to_owned();
            return Err(unavailable(reason));
        }
        let mut perf = Command::new("perf");
        perf.args(["stat", "-j", "-a", "-I", INTERVAL_MS]);
        for event in events {
            perf.args(["-e", &event]);
        }
        Self::counted_by(perf)
    }

    /// That which a command counts, which prints what `perf stat -j -I` does.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where it prints no counts.
    pub fn counted_by(command: Command) -> Result<Self, RegulateError> {
        let perf = Perf::start(command).map_err(unavailable)?;
        Ok(Self { perf })
    }

    /// What went there in the last interval.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where `perf` has ended.
    pub fn look(&mut self, now_ms: f64) -> Result<CxlSeen, RegulateError> {
        let nothing = CxlSeen {
            bytes_per_s: f64::NAN,
            counted_percent: 100.0,
        };
        let latest = self.perf.latest(now_ms).map_err(unavailable)?;
        Ok(latest.map_or(nothing, bytes_of))
    }
}

fn unavailable(reason: String) -> RegulateError {
    RegulateError::Unavailable {
        knob: "counters of CXL traffic",
        reason,
    }
}

/// Of an event that was not counted nothing is known, and so nothing of the sum.
fn bytes_of(interval: &Interval) -> CxlSeen {
    let lines = interval.counts.iter();
    let lines: f64 = lines
        .map(|count| count.value.get().unwrap_or(f64::NAN))
        .sum();
    CxlSeen {
        bytes_per_s: LINE_BYTES * lines / interval.seconds,
        counted_percent: interval.counted_percent(),
    }
}
