//! What can be fitted.

use std::fmt;
use std::str::FromStr;

use nearfar_topology::SimulationProfile;

/// A parameter of the simulator that points of accesses can determine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `near.read_latency_ns`.
    NearReadLatency,
    /// `near.read_service_ns`.
    NearReadService,
    /// `near.write_service_ns`.
    NearWriteService,
    /// `far.read_latency_ns`.
    FarReadLatency,
    /// `far.ownership_ns`.
    FarOwnership,
    /// `far.write_latency_ns`.
    FarWriteLatency,
    /// `far.read_service_ns`.
    FarReadService,
    /// `far.write_service_ns`.
    FarWriteService,
    /// `core.fill_turnaround_ns`.
    FillTurnaround,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NearReadLatency,
        Self::NearReadService,
        Self::NearWriteService,
        Self::FarReadLatency,
        Self::FarOwnership,
        Self::FarWriteLatency,
        Self::FarReadService,
        Self::FarWriteService,
        Self::FillTurnaround,
    ];

    /// Those of the far memory's latency and rates: what differs most between machines.
    pub const DEFAULT: [Self; 4] = [
        Self::FarReadLatency,
        Self::FarOwnership,
        Self::FarReadService,
        Self::FarWriteService,
    ];

    /// Its key in a profile, below `simulation`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::NearReadLatency => "near.read_latency_ns",
            Self::NearReadService => "near.read_service_ns",
            Self::NearWriteService => "near.write_service_ns",
            Self::FarReadLatency => "far.read_latency_ns",
            Self::FarOwnership => "far.ownership_ns",
            Self::FarWriteLatency => "far.write_latency_ns",
            Self::FarReadService => "far.read_service_ns",
            Self::FarWriteService => "far.write_service_ns",
            Self::FillTurnaround => "core.fill_turnaround_ns",
        }
    }

    /// Which points determine it.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NearReadLatency => "latency of random reads of near memory",
            Self::NearReadService => "reads of near memory by many threads",
            Self::NearWriteService => "writes to near memory by many threads",
            Self::FarReadLatency => "latency of random reads of far memory",
            Self::FarOwnership => "random writes of 64 B to far memory by one thread",
            Self::FarWriteLatency => "latency of writes with write-back to far memory",
            Self::FarReadService => "reads of far memory by many threads",
            Self::FarWriteService => "writes to far memory by many threads",
            Self::FillTurnaround => "random reads of 64 B by one thread",
        }
    }

    /// Its value.
    pub fn get(self, simulation: &SimulationProfile) -> f64 {
        let mut copy = simulation.clone();
        *self.of(&mut copy)
    }

    /// Gives it a value.
    pub fn set(self, simulation: &mut SimulationProfile, value: f64) {
        *self.of(simulation) = value;
    }

    fn of(self, simulation: &mut SimulationProfile) -> &mut f64 {
        let SimulationProfile {
            core, near, far, ..
        } = simulation;
        match self {
            Self::NearReadLatency => &mut near.read_latency_ns,
            Self::NearReadService => &mut near.read_service_ns,
            Self::NearWriteService => &mut near.write_service_ns,
            Self::FarReadLatency => &mut far.read_latency_ns,
            Self::FarOwnership => &mut far.ownership_ns,
            Self::FarWriteLatency => &mut far.write_latency_ns,
            Self::FarReadService => &mut far.read_service_ns,
            Self::FarWriteService => &mut far.write_service_ns,
            Self::FillTurnaround => &mut core.fill_turnaround_ns,
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.key() == text);
        found.ok_or_else(|| {
            let keys = Self::ALL.map(Self::key).join(", ");
            format!("{text:?} cannot be fitted; there are {keys}")
        })
    }
}
