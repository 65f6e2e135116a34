//! Traffic of a resource group (kernel documentation, resctrl: `mbm_total_bytes`).

use super::Observer;
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// A group's bandwidth against the most that it had.
#[derive(Debug)]
pub struct Traffic {
    machine: MachineFiles,
    folder: String,
    last: Option<(f64, f64)>,
    most_per_ms: f64,
}

impl Traffic {
    /// That of a victim's group.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where nothing is monitored; [`RegulateError::Group`].
    pub fn find(machine: &MachineFiles, group: &str) -> Result<Self, RegulateError> {
        check_group(group)?;
        let folder = format!("sys/fs/resctrl/{group}/mon_data");
        if !machine.path(&folder).exists() {
            return Err(RegulateError::Unavailable {
                knob: "resctrl monitoring",
                reason: format!("there is no /{folder}"),
            });
        }
        Ok(Self {
            machine: machine.clone(),
            folder,
            last: None,
            most_per_ms: 0.0,
        })
    }

    /// Bytes of all domains so far.
    fn bytes(&self) -> Result<f64, RegulateError> {
        let path = self.machine.path(&self.folder);
        let entries = std::fs::read_dir(&path).map_err(|source| RegulateError::File {
            path: path.clone(),
            source,
        })?;
        let mut sum = 0.0;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let file = format!("{}/{name}/mbm_total_bytes", self.folder);
            let text = self.machine.read(&file)?;
            sum += text
                .trim()
                .parse::<f64>()
                .map_err(|_| RegulateError::Garbled {
                    path: self.machine.path(&file),
                    content: text.clone(),
                    expected: "bytes: the counter is not there for this group",
                })?;
        }
        Ok(sum)
    }
}

impl Observer for Traffic {
    fn tells(&self) -> &'static str {
        "bytes of the victim's group by resctrl, all tiers together: its demand must not change"
    }

    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let bytes = self.bytes()?;
        let Some((at_ms, before)) = self.last.replace((now_ms, bytes)) else {
            return Ok(f64::NAN);
        };
        // A clock or a counter that jumps back says nothing.
        if now_ms <= at_ms || bytes < before {
            return Ok(f64::NAN);
        }
        let per_ms = (bytes - before) / (now_ms - at_ms);
        self.most_per_ms = self.most_per_ms.max(per_ms);
        Ok(per_ms / self.most_per_ms)
    }
}
