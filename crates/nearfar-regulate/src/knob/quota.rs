//! CPU quotas of cgroup v2: `cpu.max` (kernel documentation, cgroup-v2, CPU interface files).

use std::path::PathBuf;

use super::cgroup::{ROOT, check_delegated};
use super::{Change, Knob};
use crate::error::RegulateError;
use crate::machine::MachineFiles;

/// Least quota that the kernel takes, in microseconds.
const QUOTA_US_MIN: f64 = 1_000.0;

/// The quota of one group.
#[derive(Debug, Clone)]
pub struct Quota {
    file: String,
    before: String,
    period_us: f64,
    /// Processors' worth of time that the group has when nothing is taken away.
    cpus: f64,
}

impl Quota {
    /// The quota of a group whose tasks keep `cpus` processors busy.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] with cgroup v1, or where the group has no `cpu` controller;
    /// [`RegulateError::Group`], [`RegulateError::Vanished`].
    pub fn find(machine: &MachineFiles, group: &str, cpus: u32) -> Result<Self, RegulateError> {
        check_delegated(machine, group, "cpu", "cgroup v2 cpu.max")?;
        let file = format!("{ROOT}/{group}/cpu.max");
        let text = machine.read(&file)?;
        let Some((quota, period_us)) = parse(&text) else {
            return Err(RegulateError::Garbled {
                path: machine.path(&file),
                content: text,
                expected: "a quota or max, and a period in microseconds",
            });
        };
        let had = quota.map(|quota| quota / period_us);
        Ok(Self {
            file,
            before: text,
            period_us,
            cpus: had.unwrap_or(f64::INFINITY).min(f64::from(cpus)),
        })
    }
}

/// Quota, where there is one, and period.
fn parse(text: &str) -> Option<(Option<f64>, f64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    let period: f64 = period.parse().ok().filter(|period| *period > 0.0)?;
    match quota {
        "max" => Some((None, period)),
        quota => Some((Some(quota.parse().ok()?), period)),
    }
}

impl Knob for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        machine.path(&self.file)
    }

    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError> {
        // How many processors the group keeps busy is somebody's word.
        if granted >= 1.0 {
            return Ok(vec![(machine.path(&self.file), self.before.clone())]);
        }
        let quota_us = (self.period_us * self.cpus * granted).max(QUOTA_US_MIN);
        let text = format!("{quota_us:.0} {:.0}\n", self.period_us);
        Ok(vec![(machine.path(&self.file), text)])
    }
}
