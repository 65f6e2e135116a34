//! Memory bandwidth allocation (kernel documentation, resctrl: `MB` of `schemata`).

use std::path::PathBuf;

use super::{Change, Knob};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

const ROOT: &str = "sys/fs/resctrl";

/// The share of memory bandwidth of one resource group.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    file: String,
    least_percent: f64,
    step_percent: f64,
}

impl Bandwidth {
    /// That of a group.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without resctrl or its `MB`; [`RegulateError::Group`],
    /// [`RegulateError::Vanished`].
    pub fn find(machine: &MachineFiles, group: &str) -> Result<Self, RegulateError> {
        check_group(group)?;
        let info = format!("{ROOT}/info/MB");
        if !machine.path(&info).exists() {
            let reason = format!("there is no /{info}: resctrl is not mounted, or has no MB");
            return Err(RegulateError::Unavailable {
                knob: "memory bandwidth allocation",
                reason,
            });
        }
        let number = |name: &str| {
            let file = format!("{info}/{name}");
            let text = machine.read(&file)?;
            text.trim()
                .parse::<f64>()
                .map_err(|_| RegulateError::Garbled {
                    path: machine.path(&file),
                    content: text.clone(),
                    expected: "a share in per cent",
                })
        };
        let file = format!("{ROOT}/{group}/schemata");
        machine.read(&file)?;
        Ok(Self {
            file,
            least_percent: number("min_bandwidth")?,
            step_percent: number("bandwidth_gran")?,
        })
    }
}

impl Knob for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        machine.path(&self.file)
    }

    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError> {
        let steps = (granted * 100.0 / self.step_percent).floor();
        let percent = (steps * self.step_percent).clamp(self.least_percent, 100.0);
        let text = machine.read(&self.file)?;
        let lines = text
            .lines()
            .map(|line| match line.trim().strip_prefix("MB:") {
                Some(domains) => {
                    let of = |domain: &str| {
                        let number = domain
                            .split('=')
                            .next()
                            .unwrap_or_default()
                            .trim()
                            .to_owned();
                        format!("{number}={percent:.0}")
                    };
                    let domains: Vec<String> = domains.split(';').map(of).collect();
                    format!("MB:{}\n", domains.join(";"))
                }
                None => format!("{line}\n"),
            });
        Ok(vec![(machine.path(&self.file), lines.collect())])
    }
}
