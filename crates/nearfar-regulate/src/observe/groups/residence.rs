//! Groups by what cgroup v2 counts itself (kernel documentation, cgroup-v2: `memory.numa_stat`, `cpu.stat`).

use super::super::rate::Rate;
use super::super::slow_tier::SlowTiers;
use super::{GroupObserver, GroupsSeen, Sureness, or_nothing};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// A share of less is what programs and libraries leave there by chance.
const SLOW_SHARE_MIN: f64 = 0.01;

/// Processors that a group keeps busy, times the share of its memory that lies on slow tiers.
#[derive(Debug, Clone)]
pub struct Residence {
    machine: MachineFiles,
    tiers: SlowTiers,
    /// Folder, and time on processors, of each group.
    groups: Vec<(String, Rate)>,
}

impl Residence {
    /// That of groups.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] with cgroup v1, without slow tiers, or where the group has no `memory`
    /// controller; [`RegulateError::Group`].
    pub fn find(
        machine: &MachineFiles,
        groups: &[String],
        tiers: &SlowTiers,
    ) -> Result<Self, RegulateError> {
        let of = |group: &String| {
            check_group(group)?;
            let folder = format!("sys/fs/cgroup/{group}");
            for name in ["memory.numa_stat", "cpu.stat"] {
                let file = format!("{folder}/{name}");
                if !machine.path(&file).exists() {
                    return Err(RegulateError::Unavailable {
                        knob: "where a group's memory is",
                        reason: format!("there is no /{file}"),
                    });
                }
            }
            Ok((folder, Rate::default()))
        };
        Ok(Self {
            machine: machine.clone(),
            tiers: tiers.clone(),
            groups: groups.iter().map(of).collect::<Result<_, _>>()?,
        })
    }

    /// Whether a group has memory on slow tiers; one that is gone has none.
    pub(super) fn is_on_slow_tier(&self, group: usize) -> Result<bool, RegulateError> {
        let share = or_nothing(self.slow_share(&self.groups[group].0))?;
        Ok(share > SLOW_SHARE_MIN)
    }

    /// Share of a group's memory that lies on slow tiers.
    fn slow_share(&self, folder: &str) -> Result<f64, RegulateError> {
        let file = format!("{folder}/memory.numa_stat");
        let text = self.machine.read(&file)?;
        let (mut slow, mut all) = (0.0, 0.0);
        for (node, bytes) in text.lines().flat_map(of_nodes) {
            all += bytes;
            slow += if self.tiers.has(node) { bytes } else { 0.0 };
        }
        // A group without memory moves none.
        Ok(if all > 0.0 { slow / all } else { 0.0 })
    }

    fn busy_us(&self, folder: &str) -> Result<f64, RegulateError> {
        let file = format!("{folder}/cpu.stat");
        let text = self.machine.read(&file)?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        let usage = line.and_then(|line| line.trim().parse().ok());
        usage.ok_or_else(|| RegulateError::Garbled {
            path: self.machine.path(&file),
            content: text.chars().take(120).collect(),
            expected: "lines with usage_usec",
        })
    }
}

/// Bytes by node of a line such as `anon N0=4096 N1=0`, of pages of programs and files.
fn of_nodes(line: &str) -> impl Iterator<Item = (u32, f64)> {
    let (kind, nodes) = line.split_once(' ').unwrap_or_default();
    let nodes = if matches!(kind, "anon" | "file") {
        nodes
    } else {
        ""
    };
    nodes.split_whitespace().filter_map(|word| {
        let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, bytes.parse().ok()?))
    })
}

impl GroupObserver for Residence {
    fn tells(&self) -> String {
        "processors that each group keeps busy, times the share of its memory on slow tiers: who computes there, not what it moves".to_owned()
    }

    fn sureness(&self) -> Sureness {
        Sureness::Inferred
    }

    fn unit(&self) -> &'static str {
        "processors"
    }

    fn least(&self) -> f64 {
        0.05
    }

    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let mut seen = GroupsSeen::nothing(self.groups.len(), self.sureness());
        for index in 0..self.groups.len() {
            let folder = self.groups[index].0.clone();
            let share = or_nothing(self.slow_share(&folder))?;
            let busy_us = or_nothing(self.busy_us(&folder))?;
            let busy = self.groups[index].1.per_s(now_ms, busy_us) * 1e-6;
            seen.slow[index] = busy * share;
        }
        Ok(seen)
    }
}
