//! Profiles: machines one does not own, with a source for every number.
//!
//! A profile describes the far memory of one published machine, and as much of
//! its near side as a model needs. It is a TOML file; see `profiles/` in this
//! crate for the built-in ones. Each number is a table that says where it comes
//! from, or why it is not known:
//!
//! ```toml
//! [far]
//! idle_latency_ns = { value = 507, source = "weisgut-2025, figure 5" }
//! capacity_bytes = { unknown = "the paper does not give it" }
//! ```
//!
//! A machine with more tiers than `near` and `far` has a `[tier.NAME]` for each of the others, with the keys of
//! `[far]`.

mod error;
mod raw;
mod simulation;
mod validate;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

pub use self::error::{ProfileError, ProfileProblem};
pub use self::simulation::{SimulatedCores, SimulatedTier, SimulationProfile};
use crate::known::Known;
use crate::names::FAR;
use crate::topology::Performance;

/// Built-in profiles: name and file.
const BUILTIN: [(&str, &str); 14] = [
    (
        "cxl-blades-1",
        include_str!("../../profiles/cxl-blades-1.toml"),
    ),
    (
        "cxl-blades-2",
        include_str!("../../profiles/cxl-blades-2.toml"),
    ),
    (
        "cxl-blades-3",
        include_str!("../../profiles/cxl-blades-3.toml"),
    ),
    (
        "cxl-blades-4",
        include_str!("../../profiles/cxl-blades-4.toml"),
    ),
    (
        "cxl-blades-4-socket",
        include_str!("../../profiles/cxl-blades-4-socket.toml"),
    ),
    (
        "cxl-commercial",
        include_str!("../../profiles/cxl-commercial.toml"),
    ),
    ("cxl-asic", include_str!("../../profiles/cxl-asic.toml")),
    ("cxl-agilex", include_str!("../../profiles/cxl-agilex.toml")),
    ("cxl-card", include_str!("../../profiles/cxl-card.toml")),
    ("cxl-fpga", include_str!("../../profiles/cxl-fpga.toml")),
    ("geyer-rdma", include_str!("../../profiles/geyer-rdma.toml")),
    ("geyer-upi", include_str!("../../profiles/geyer-upi.toml")),
    ("geyer-upi2", include_str!("../../profiles/geyer-upi2.toml")),
    (
        "remote-socket",
        include_str!("../../profiles/remote-socket.toml"),
    ),
];

/// Largest profile file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Memory of one tier of a profile's machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierProfile {
    /// Devices, each a node of its own, over which pages are interleaved.
    pub devices: u32,
    /// Memory in all.
    pub capacity_bytes: Known<u64>,
    /// Latency of one dependent random read with nothing else running.
    pub idle_latency_ns: f64,
    /// Mean latency of one 8-byte read of a sequential walk: most hit lines that
    /// hardware prefetched, so this is no service time of the memory.
    pub sequential_latency_ns: Known<f64>,
    /// Latency of a store that is written back immediately.
    pub write_latency_ns: Known<f64>,
    /// Sustained sequential read bandwidth of all devices together.
    pub read_bandwidth_bytes_per_s: Known<f64>,
    /// Sustained sequential write bandwidth of all devices together.
    pub write_bandwidth_bytes_per_s: Known<f64>,
    /// Cache lines that one core keeps in flight on independent random reads.
    pub core_outstanding_random: f64,
    /// Cache lines that one core keeps in flight on a sequential read.
    pub core_outstanding_sequential: f64,
}

impl TierProfile {
    /// The tier's published numbers as a declaration of the named profile.
    pub fn performance(&self, profile_name: &str) -> Performance {
        Performance {
            read_latency_ns: Known::Value(self.idle_latency_ns),
            write_latency_ns: self.write_latency_ns.clone(),
            read_bandwidth_bytes_per_s: self.read_bandwidth_bytes_per_s.clone(),
            write_bandwidth_bytes_per_s: self.write_bandwidth_bytes_per_s.clone(),
            source: Known::Value(format!("profile {profile_name}")),
        }
    }
}

/// A machine with near and far memory, as published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Short name: lower-case letters, digits and dashes.
    pub name: String,
    /// One sentence on the machine.
    pub description: String,
    /// Cores of the socket that uses the memory; bandwidth shares refer to it.
    pub cores: u32,
    /// Last-level cache of that socket.
    pub cache_bytes: Known<u64>,
    /// What the socket's engines that copy while cores work read at most, all together. Unavailable where the machine is
    /// not known to have one.
    pub copy_engine_bandwidth_bytes_per_s: Known<f64>,
    /// Local memory.
    pub near: TierProfile,
    /// The memory that is modelled; `others` has more of it.
    pub far: TierProfile,
    /// More modelled memory, by name.
    #[serde(rename = "tier", skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, TierProfile>,
    /// Parameters of the simulator in virtual time, where the machine is known well enough.
    pub simulation: Known<SimulationProfile>,
    /// Where each number comes from, by its key (`cores`, `far.idle_latency_ns`).
    pub sources: BTreeMap<String, String>,
}

impl Profile {
    /// Names of the built-in profiles.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The built-in profile of that name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] where none has that name.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        let found = BUILTIN.iter().find(|(builtin, _)| *builtin == name);
        let (_, text) = found.ok_or_else(|| ProfileError::Unknown {
            name: name.to_owned(),
            known: Self::builtin_names().map(str::to_owned).collect(),
        })?;
        Self::parse(&format!("built-in {name}"), text)
    }

    /// All tiers that are modelled, by name, from near to far.
    pub fn modelled(&self) -> Vec<(&str, &TierProfile)> {
        let others = self.others.iter().map(|(name, tier)| (name.as_str(), tier));
        let mut tiers: Vec<_> = others.chain([(FAR, &self.far)]).collect();
        tiers.sort_by(|(_, a), (_, b)| a.idle_latency_ns.total_cmp(&b.idle_latency_ns));
        tiers
    }

    /// Reads a profile from a file.
    ///
    /// # Errors
    /// [`ProfileError::Read`] where the file cannot be read, is larger than 1 MiB
    /// or is not UTF-8; [`ProfileError::Syntax`] where it is not TOML of the right
    /// shape; [`ProfileError::Invalid`] where a number is missing or impossible.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let text = raw::read_text(path, FILE_BYTES_MAX).map_err(|source| ProfileError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The built-in profile of that name, or else the file at that path.
    ///
    /// What ends in `.toml` or has a path separator is a path.
    ///
    /// # Errors
    /// As [`Profile::builtin`] and [`Profile::load`].
    pub fn resolve(name_or_path: &str) -> Result<Self, ProfileError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            Self::load(Path::new(name_or_path))
        } else {
            Self::builtin(name_or_path)
        }
    }

    /// Reads a profile from text; `file` names it in errors.
    ///
    /// # Errors
    /// As [`Profile::load`], without the reading.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let raw: raw::RawProfile = toml::from_str(text).map_err(|source| ProfileError::Syntax {
            file: file.to_owned(),
            source,
        })?;
        validate::profile(file, raw)
    }
}
