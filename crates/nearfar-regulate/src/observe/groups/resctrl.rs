//! Groups by resctrl (kernel documentation, resctrl: `mbm_total_bytes`, `mbm_local_bytes`, `llc_occupancy`).

use super::super::rate::Rate;
use super::super::resctrl::{monitored, monitoring_folder};
use super::{BYTES_PER_S, GroupObserver, GroupsSeen, LEAST_BYTES_PER_S, Sureness, or_nothing};
use crate::error::RegulateError;
use crate::machine::MachineFiles;

/// Bytes that leave the last levels for memory that is not their node's own: all less the local ones.
#[derive(Debug)]
pub struct GroupTraffic {
    machine: MachineFiles,
    /// Folder, and all and local bytes, of each group.
    groups: Vec<(String, Rate, Rate)>,
}

impl GroupTraffic {
    /// That of groups, each a resource group or one that is only monitored.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where a group is not monitored, or all its traffic is counted together;
    /// [`RegulateError::Group`].
    pub fn find(machine: &MachineFiles, groups: &[String]) -> Result<Self, RegulateError> {
        let of = |group: &String| {
            let folder = monitoring_folder(machine, group)?;
            for name in ["mbm_total_bytes", "mbm_local_bytes"] {
                if !has_counter(machine, &folder, name) {
                    return Err(RegulateError::Unavailable {
                        knob: "resctrl monitoring of each tier",
                        reason: format!("there is no {name} in /{folder}"),
                    });
                }
            }
            Ok((folder, Rate::default(), Rate::default()))
        };
        Ok(Self {
            machine: machine.clone(),
            groups: groups.iter().map(of).collect::<Result<_, _>>()?,
        })
    }
}

fn has_counter(machine: &MachineFiles, folder: &str, name: &str) -> bool {
    let entries = std::fs::read_dir(machine.path(folder));
    let mut domains = entries.into_iter().flatten().flatten();
    domains.any(|domain| domain.path().join(name).exists())
}

impl GroupObserver for GroupTraffic {
    fn tells(&self) -> String {
        "bytes of each group by resctrl, all less those of the processors' own nodes: other sockets are slow tiers too".to_owned()
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn unit(&self) -> &'static str {
        BYTES_PER_S
    }

    fn least(&self) -> f64 {
        LEAST_BYTES_PER_S
    }

    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let mut seen = GroupsSeen::nothing(self.groups.len(), self.sureness());
        for (index, (folder, all, local)) in self.groups.iter_mut().enumerate() {
            let read = |name: &str| or_nothing(monitored(&self.machine, folder, name));
            let all = all.per_s(now_ms, read("mbm_total_bytes")?);
            let local = local.per_s(now_ms, read("mbm_local_bytes")?);
            let slow = all - local;
            // Both counters are not read in the same moment.
            seen.slow[index] = if slow < 0.0 { 0.0 } else { slow };
            seen.occupancy_bytes[index] = read("llc_occupancy")?;
        }
        Ok(seen)
    }
}
