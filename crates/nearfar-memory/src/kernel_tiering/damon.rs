//! DAMON: a monitor per tier, over the physical addresses of its nodes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::settings::{self, Change};
use super::{KernelMoves, KernelTieringError};
use crate::sys::NodeSet;
use crate::zones::Zones;

/// Below the root of `/sys`.
const MONITORS: &str = "kernel/mm/damon/admin/kdamonds";

/// Microseconds between samples of each region, over which samples are counted, and between looks for new regions.
const INTERVALS_US: [(&str, &str); 3] = [
    ("sample_us", "5000"),
    ("aggr_us", "100000"),
    ("update_us", "1000000"),
];
/// Regions of a monitor, at least and at most.
const REGIONS: [(&str, &str); 2] = [("min", "100"), ("max", "10000")];
/// What a number may be at most, in a scheme.
const ANY: &str = "4294967295";

/// What is done with regions of some nodes.
struct Scheme {
    action: &'static str,
    /// Samples that saw an access, of those of an aggregation: the fewest and the most.
    accesses: [&'static str; 2],
    /// Aggregations for which it was so, at least.
    age: &'static str,
}

const PROMOTE: Scheme = Scheme {
    action: "migrate_hot",
    accesses: ["1", ANY],
    age: "0",
};
const DEMOTE: Scheme = Scheme {
    action: "migrate_cold",
    accesses: ["0", "0"],
    age: "10",
};

/// Which monitor is of which tier.
const NEAR: usize = 0;
const FAR: usize = 1;

/// Two monitors, of near and of far memory.
#[derive(Debug)]
pub(super) struct Damon {
    monitors: PathBuf,
    /// What each told last that it had moved.
    moved_bytes: [AtomicU64; 2],
}

impl Damon {
    /// Adds what is to be changed before [`Self::start`], and what is to be put back.
    pub(super) fn prepare(
        sys_root: &Path,
        changes: &mut Vec<Change>,
    ) -> Result<Self, KernelTieringError> {
        let monitors = sys_root.join(MONITORS);
        let file = monitors.join("nr_kdamonds");
        let found = settings::read(&file)?;
        if found != "0" {
            return Err(KernelTieringError::DamonInUse { file, found });
        }
        changes.push(Change::to(file, "2"));
        for monitor in [NEAR, FAR] {
            let state = monitors.join(monitor.to_string()).join("state");
            changes.push(Change::at_end(state, "off"));
        }
        Ok(Self {
            monitors,
            moved_bytes: Default::default(),
        })
    }

    /// Starts both.
    pub(super) fn start(
        &self,
        zones: &Zones,
        near: &NodeSet,
        far: &NodeSet,
    ) -> Result<(), KernelTieringError> {
        self.describe(NEAR, &DEMOTE, &zones.addresses(near), far)?;
        self.describe(FAR, &PROMOTE, &zones.addresses(far), near)?;
        for monitor in [NEAR, FAR] {
            settings::write_when_free(&self.monitor(monitor).join("state"), "on")?;
        }
        Ok(())
    }

    fn monitor(&self, monitor: usize) -> PathBuf {
        self.monitors.join(monitor.to_string())
    }

    fn scheme(&self, monitor: usize) -> PathBuf {
        self.monitor(monitor).join("contexts/0/schemes/0")
    }

    /// Tells a monitor what to watch and what to do, with the first node of `to` as target.
    fn describe(
        &self,
        monitor: usize,
        scheme: &Scheme,
        addresses: &[Range<u64>],
        to: &NodeSet,
    ) -> Result<(), KernelTieringError> {
        let (Some(target), false) = (to.iter().next(), addresses.is_empty()) else {
            return Err(KernelTieringError::Unknown {
                what: "which physical addresses its nodes have",
            });
        };
        let contexts = self.monitor(monitor).join("contexts");
        let context = contexts.join("0");
        settings::write(&contexts.join("nr_contexts"), "1")?;
        settings::write(&context.join("operations"), "paddr")?;
        for (name, value) in INTERVALS_US {
            settings::write(
                &context.join("monitoring_attrs/intervals").join(name),
                value,
            )?;
        }
        for (name, value) in REGIONS {
            settings::write(
                &context.join("monitoring_attrs/nr_regions").join(name),
                value,
            )?;
        }
        settings::write(&context.join("targets/nr_targets"), "1")?;
        let regions = context.join("targets/0/regions");
        settings::write(&regions.join("nr_regions"), &addresses.len().to_string())?;
        for (index, range) in addresses.iter().enumerate() {
            let region = regions.join(index.to_string());
            settings::write(&region.join("start"), &range.start.to_string())?;
            settings::write(&region.join("end"), &range.end.to_string())?;
        }
        settings::write(&context.join("schemes/nr_schemes"), "1")?;
        let folder = self.scheme(monitor);
        let pattern = folder.join("access_pattern");
        let ranges = [
            ("sz", ["4096", "18446744073709551615"]),
            ("nr_accesses", scheme.accesses),
            ("age", [scheme.age, ANY]),
        ];
        settings::write(&folder.join("action"), scheme.action)?;
        settings::write(&folder.join("target_nid"), &target.to_string())?;
        for (name, [least, most]) in ranges {
            // The kernel takes a smallest number that is above the largest, until both are there.
            settings::write(&pattern.join(name).join("min"), least)?;
            settings::write(&pattern.join(name).join("max"), most)?;
        }
        Ok(())
    }

    /// What both have moved, as far as they have told.
    pub(super) fn moves(&self) -> KernelMoves {
        let moved_bytes = |monitor: usize| {
            let told_bytes = self.told_bytes(monitor).unwrap_or(0);
            let before_bytes = self.moved_bytes[monitor].fetch_max(told_bytes, Relaxed);
            before_bytes.max(told_bytes)
        };
        KernelMoves {
            promoted_bytes: moved_bytes(FAR),
            demoted_bytes: moved_bytes(NEAR),
        }
    }

    /// What a monitor says that it has moved, which takes it as long as it takes to count samples once.
    fn told_bytes(&self, monitor: usize) -> Option<u64> {
        let state = self.monitor(monitor).join("state");
        settings::write_when_free(&state, "update_schemes_stats").ok()?;
        let file = self.scheme(monitor).join("stats/sz_applied");
        settings::read(&file).ok()?.parse().ok()
    }
}
