//! From a profile's raw numbers to a profile that a model can work with.

use std::collections::BTreeMap;

use super::error::{ProfileError, ProfileProblem};
use super::raw::{RawNumber, RawProfile, RawTier};
use super::{Profile, TierProfile, simulation};
use crate::known::Known;
use crate::names::{FAR, NEAR, NODE};

/// What a number may be. Everything outside is a slip of the pen or of the unit.
pub(super) struct Range {
    min: f64,
    max: f64,
    whole: bool,
    unit: &'static str,
}

impl Range {
    pub(super) const fn whole(min: f64, max: f64, unit: &'static str) -> Self {
        Self {
            min,
            max,
            whole: true,
            unit,
        }
    }

    pub(super) const fn real(min: f64, max: f64, unit: &'static str) -> Self {
        Self {
            min,
            max,
            whole: false,
            unit,
        }
    }

    fn allows(&self, value: f64) -> bool {
        value >= self.min && value <= self.max && (!self.whole || value.fract() == 0.0)
    }

    fn text(&self) -> String {
        let number = if self.whole {
            "a whole number"
        } else {
            "a number"
        };
        format!("{number} from {} to {} {}", self.min, self.max, self.unit)
    }
}

const CORES: Range = Range::whole(1.0, 4096.0, "cores");
const CACHE: Range = Range::whole(65_536.0, 68_719_476_736.0, "bytes");
const DEVICES: Range = Range::whole(1.0, 64.0, "devices");
/// 1 MiB to 1 PiB.
const CAPACITY: Range = Range::whole(1_048_576.0, 1_125_899_906_842_624.0, "bytes");
const LATENCY: Range = Range::real(1.0, 1_000_000.0, "ns");
/// 1 MB/s to 100 TB/s.
const BANDWIDTH: Range = Range::real(1e6, 1e14, "bytes per second");
const OUTSTANDING: Range = Range::real(1.0, 1024.0, "cache lines");

/// Reads numbers by key, and keeps where each comes from.
pub(super) struct Reader<'a> {
    file: &'a str,
    sources: BTreeMap<String, String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            sources: BTreeMap::new(),
        }
    }

    pub(super) fn into_sources(self) -> BTreeMap<String, String> {
        self.sources
    }
}

impl Reader<'_> {
    pub(super) fn invalid(&self, key: &str, problem: ProfileProblem) -> ProfileError {
        ProfileError::Invalid {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem,
        }
    }

    /// A number, or the reason why the profile has none.
    fn known(
        &mut self,
        key: &str,
        raw: Option<RawNumber>,
        range: &Range,
    ) -> Result<Known<f64>, ProfileError> {
        let raw = raw.ok_or_else(|| {
            self.invalid(
                key,
                ProfileProblem::Missing {
                    may_be_unknown: true,
                },
            )
        })?;
        let value = match (raw.value, raw.unknown) {
            (Some(value), None) => value,
            (None, Some(reason)) if raw.source.is_none() => {
                self.not_empty(key, &reason)?;
                return Ok(Known::unavailable(reason));
            }
            (None, None) if raw.source.is_none() => {
                return Err(self.invalid(
                    key,
                    ProfileProblem::Missing {
                        may_be_unknown: true,
                    },
                ));
            }
            _ => return Err(self.invalid(key, ProfileProblem::Contradiction)),
        };
        if !range.allows(value) {
            let problem = ProfileProblem::OutOfRange {
                value,
                allowed: range.text(),
            };
            return Err(self.invalid(key, problem));
        }
        let source = raw.source.filter(|source| !source.trim().is_empty());
        let source = source.ok_or_else(|| self.invalid(key, ProfileProblem::NoSource { value }))?;
        self.sources.insert(key.to_owned(), source);
        Ok(Known::Value(value))
    }

    /// A number that the model cannot do without.
    pub(super) fn needed(
        &mut self,
        key: &str,
        raw: Option<RawNumber>,
        range: &Range,
        why: &'static str,
    ) -> Result<f64, ProfileError> {
        if raw.is_none() {
            return Err(self.invalid(
                key,
                ProfileProblem::Missing {
                    may_be_unknown: false,
                },
            ));
        }
        let known = self.known(key, raw, range)?;
        known
            .get()
            .ok_or_else(|| self.invalid(key, ProfileProblem::MustBeKnown { why }))
    }

    pub(super) fn not_empty(&self, key: &str, text: &str) -> Result<(), ProfileError> {
        if text.trim().is_empty() {
            return Err(self.invalid(key, ProfileProblem::Empty));
        }
        Ok(())
    }

    fn tier(&mut self, tier: &str, raw: RawTier) -> Result<TierProfile, ProfileError> {
        const WAIT: &str = "every modelled wait is computed from it";
        let key = |field: &str| format!("{tier}.{field}");
        let latency = "idle_latency_ns";
        Ok(TierProfile {
            devices: self.needed(&key("devices"), raw.devices, &DEVICES, WAIT)? as u32,
            capacity_bytes: self
                .known(&key("capacity_bytes"), raw.capacity_bytes, &CAPACITY)?
                .map(|bytes| bytes as u64),
            idle_latency_ns: self.needed(&key(latency), raw.idle_latency_ns, &LATENCY, WAIT)?,
            sequential_latency_ns: self.known(
                &key("sequential_latency_ns"),
                raw.sequential_latency_ns,
                &LATENCY,
            )?,
            write_latency_ns: self.known(
                &key("write_latency_ns"),
                raw.write_latency_ns,
                &LATENCY,
            )?,
            read_bandwidth_bytes_per_s: self.known(
                &key("read_bandwidth_bytes_per_s"),
                raw.read_bandwidth_bytes_per_s,
                &BANDWIDTH,
            )?,
            write_bandwidth_bytes_per_s: self.known(
                &key("write_bandwidth_bytes_per_s"),
                raw.write_bandwidth_bytes_per_s,
                &BANDWIDTH,
            )?,
            core_outstanding_random: self.needed(
                &key("core_outstanding_random"),
                raw.core_outstanding_random,
                &OUTSTANDING,
                WAIT,
            )?,
            core_outstanding_sequential: self.needed(
                &key("core_outstanding_sequential"),
                raw.core_outstanding_sequential,
                &OUTSTANDING,
                WAIT,
            )?,
        })
    }

    /// Checks what no single number can show of the tier with this key.
    fn consistent(&self, key: &str, tier: &TierProfile) -> Result<(), ProfileError> {
        if tier.core_outstanding_sequential < tier.core_outstanding_random {
            let problem = ProfileProblem::OutOfRange {
                value: tier.core_outstanding_sequential,
                allowed: format!(
                    "{key}.core_outstanding_random ({}) or more",
                    tier.core_outstanding_random
                ),
            };
            return Err(self.invalid(&format!("{key}.core_outstanding_sequential"), problem));
        }
        Ok(())
    }

    /// The same of one that is modelled.
    fn consistent_far(
        &self,
        key: &str,
        tier: &TierProfile,
        near: &TierProfile,
    ) -> Result<(), ProfileError> {
        if tier.idle_latency_ns < near.idle_latency_ns {
            let problem = ProfileProblem::OutOfRange {
                value: tier.idle_latency_ns,
                allowed: format!("near.idle_latency_ns ({} ns) or more", near.idle_latency_ns),
            };
            return Err(self.invalid(&format!("{key}.idle_latency_ns"), problem));
        }
        let why = "transfers from and to the tier are held to it";
        for (field, bandwidth) in [
            (
                "read_bandwidth_bytes_per_s",
                &tier.read_bandwidth_bytes_per_s,
            ),
            (
                "write_bandwidth_bytes_per_s",
                &tier.write_bandwidth_bytes_per_s,
            ),
        ] {
            if !bandwidth.is_known() {
                let problem = ProfileProblem::MustBeKnown { why };
                return Err(self.invalid(&format!("{key}.{field}"), problem));
            }
        }
        self.consistent(key, tier)
    }

    /// The tiers beside `far`.
    fn others(
        &mut self,
        raw: BTreeMap<String, RawTier>,
    ) -> Result<BTreeMap<String, TierProfile>, ProfileError> {
        let mut others = BTreeMap::new();
        for (name, raw) in raw {
            let key = format!("tier.{name}");
            if !is_tier_name(&name) {
                return Err(self.invalid(&key, ProfileProblem::BadTierName { name }));
            }
            let tier = self.tier(&key, raw)?;
            others.insert(name, tier);
        }
        Ok(others)
    }
}

/// Words of placements and settings, which mean something else where the name of a tier may stand.
const WORDS: [&str; 12] = [
    NEAR,
    FAR,
    NODE,
    "columns",
    "default",
    "disk",
    "engine",
    "explicit",
    "interleave",
    "none",
    "split",
    "weighted",
];

/// Whether a tier can have this name: numbers at the end are those of devices.
fn is_tier_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    let edges = [name.bytes().next(), name.bytes().next_back()];
    !WORDS.contains(&name)
        && name.len() <= 32
        && name.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && edges.iter().all(|edge| edge.is_some_and(is_letter))
}

pub(super) fn profile(file: &str, raw: RawProfile) -> Result<Profile, ProfileError> {
    let mut reader = Reader::new(file);
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if raw.name.is_empty() || raw.name.len() > 64 || !raw.name.bytes().all(fits) {
        return Err(reader.invalid("name", ProfileProblem::BadName { name: raw.name }));
    }
    reader.not_empty("description", &raw.description)?;
    let share = "bandwidth shares refer to it";
    let cores = reader.needed("cores", raw.cores, &CORES, share)? as u32;
    let cache_bytes = reader
        .known("cache_bytes", raw.cache_bytes, &CACHE)?
        .map(|b| b as u64);
    let copy_engine_bandwidth_bytes_per_s = match raw.copy_engine_bandwidth_bytes_per_s {
        given @ Some(_) => reader.known("copy_engine_bandwidth_bytes_per_s", given, &BANDWIDTH)?,
        None => Known::unavailable("the profile names no copy engine"),
    };
    let near = reader.tier("near", raw.near)?;
    let far = reader.tier("far", raw.far)?;
    let others = reader.others(raw.others)?;
    reader.consistent("near", &near)?;
    reader.consistent_far("far", &far, &near)?;
    for (name, tier) in &others {
        reader.consistent_far(&format!("tier.{name}"), tier, &near)?;
    }
    let simulation = match raw.simulation {
        Some(simulation) => simulation::simulation(file, simulation)?,
        None => Known::unavailable("the profile has no [simulation]"),
    };
    let mut sources = reader.sources;
    if let Known::Value(simulation) = &simulation {
        sources.extend(simulation.sources.clone());
    }
    Ok(Profile {
        name: raw.name,
        description: raw.description,
        cores,
        cache_bytes,
        copy_engine_bandwidth_bytes_per_s,
        near,
        far,
        others,
        simulation,
        sources,
    })
}
