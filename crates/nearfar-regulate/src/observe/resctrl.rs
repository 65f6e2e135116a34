//! Traffic of a resource group (kernel documentation, resctrl: `mbm_total_bytes`).

use std::io::ErrorKind;

use super::rate::Rate;
use super::{Observer, Sureness};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// A group's bandwidth against the most that it had.
#[derive(Debug)]
pub struct Traffic {
    machine: MachineFiles,
    folder: String,
    rate: Rate,
    most_per_s: f64,
}

impl Traffic {
    /// That of a victim's group.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where nothing is monitored; [`RegulateError::Group`].
    pub fn find(machine: &MachineFiles, group: &str) -> Result<Self, RegulateError> {
        Ok(Self {
            machine: machine.clone(),
            folder: monitoring_folder(machine, group)?,
            rate: Rate::default(),
            most_per_s: 0.0,
        })
    }
}

/// Where a group is monitored: it has resources of its own, or is only monitored.
pub(super) fn monitoring_folder(
    machine: &MachineFiles,
    group: &str,
) -> Result<String, RegulateError> {
    check_group(group)?;
    let folders = ["", "mon_groups/"].map(|kind| format!("sys/fs/resctrl/{kind}{group}/mon_data"));
    let found = folders.iter().find(|folder| machine.path(folder).exists());
    found.cloned().ok_or_else(|| RegulateError::Unavailable {
        knob: "resctrl monitoring",
        reason: format!("there is neither /{} nor /{}", folders[0], folders[1]),
    })
}

/// What a counter of a group has come to in all domains.
pub(super) fn monitored(
    machine: &MachineFiles,
    folder: &str,
    name: &str,
) -> Result<f64, RegulateError> {
    let path = machine.path(folder);
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(RegulateError::Vanished { path });
        }
        Err(source) => return Err(RegulateError::File { path, source }),
    };
    let mut sum = 0.0;
    for entry in entries.flatten() {
        let domain = entry.file_name().to_string_lossy().into_owned();
        let file = format!("{folder}/{domain}/{name}");
        let text = machine.read(&file)?;
        sum += text
            .trim()
            .parse::<f64>()
            .map_err(|_| RegulateError::Garbled {
                path: machine.path(&file),
                content: text.clone(),
                expected: "bytes: the counter is not there for this group",
            })?;
    }
    Ok(sum)
}

impl Observer for Traffic {
    fn tells(&self) -> &'static str {
        "bytes of the victim's group by resctrl, all tiers together: its demand must not change"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let bytes = monitored(&self.machine, &self.folder, "mbm_total_bytes")?;
        let per_s = self.rate.per_s(now_ms, bytes);
        // No number is not the most.
        self.most_per_s = self.most_per_s.max(per_s);
        Ok(per_s / self.most_per_s)
    }
}
