//! Pressure stall information of a group (kernel documentation, PSI).

use super::Observer;
use super::rate::Rate;
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// Time that a group's tasks waited for memory that is not there.
#[derive(Debug)]
pub struct Pressure {
    machine: MachineFiles,
    file: String,
    waited_us: Rate,
}

impl Pressure {
    /// That of a victim's group.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without PSI; [`RegulateError::Group`].
    pub fn find(machine: &MachineFiles, group: &str) -> Result<Self, RegulateError> {
        check_group(group)?;
        let file = format!("sys/fs/cgroup/{group}/memory.pressure");
        if !machine.path(&file).exists() {
            return Err(RegulateError::Unavailable {
                knob: "pressure stall information",
                reason: format!("there is no /{file}"),
            });
        }
        Ok(Self {
            machine: machine.clone(),
            file,
            waited_us: Rate::default(),
        })
    }
}

impl Observer for Pressure {
    fn tells(&self) -> &'static str {
        "memory pressure of the victim's group: waits for pages only, not for loads"
    }

    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let text = self.machine.read(&self.file)?;
        let some = text.lines().find_map(|line| line.strip_prefix("some "));
        let total = some.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok());
        let Some(total_us): Option<f64> = total else {
            return Err(RegulateError::Garbled {
                path: self.machine.path(&self.file),
                content: text.chars().take(120).collect(),
                expected: "a line of some with a total",
            });
        };
        let waited_share = self.waited_us.per_s(now_ms, total_us) * 1e-6;
        Ok((1.0 - waited_share).clamp(0.0, 1.0))
    }
}
