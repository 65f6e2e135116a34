//! The shape of a profile file, before anything is checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

use super::simulation::RawSimulation;

/// `{ value = .., source = ".." }` or `{ unknown = "why" }`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNumber {
    pub value: Option<f64>,
    pub source: Option<String>,
    pub unknown: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTier {
    pub devices: Option<RawNumber>,
    pub capacity_bytes: Option<RawNumber>,
    pub idle_latency_ns: Option<RawNumber>,
    pub sequential_latency_ns: Option<RawNumber>,
    pub write_latency_ns: Option<RawNumber>,
    pub read_bandwidth_bytes_per_s: Option<RawNumber>,
    pub write_bandwidth_bytes_per_s: Option<RawNumber>,
    pub core_outstanding_random: Option<RawNumber>,
    pub core_outstanding_sequential: Option<RawNumber>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfile {
    pub name: String,
    pub description: String,
    pub cores: Option<RawNumber>,
    pub cache_bytes: Option<RawNumber>,
    pub copy_engine_bandwidth_bytes_per_s: Option<RawNumber>,
    #[serde(default)]
    pub near: RawTier,
    #[serde(default)]
    pub far: RawTier,
    #[serde(default, rename = "tier")]
    pub others: BTreeMap<String, RawTier>,
    pub simulation: Option<RawSimulation>,
}

/// Reads a UTF-8 file of at most `bytes_max` bytes.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(bytes_max + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {bytes_max} bytes, no profile is"),
        ));
    }
    Ok(text)
}
