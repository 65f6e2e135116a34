//! Pinning: `cpuset.cpus` of cgroup v2 (kernel documentation, cgroup-v2, Cpuset; `core_cpus_list` of processors).

use std::path::PathBuf;

use nearfar_topology::IdList;

use super::cgroup::{ROOT, check_delegated};
use super::{Change, Knob};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

const KNOB: &str = "cgroup v2 cpuset.cpus";

/// The processors of one group: all that it has, or, where anything is taken away, those of cores that it does not
/// share with the victim.
#[derive(Debug, Clone)]
pub struct Pin {
    file: String,
    before: String,
    away: IdList,
}

impl Pin {
    /// That of a group, away from the cores of a victim's processors.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] with cgroup v1, where the group has no `cpuset` controller, shares no core
    /// with the victim, or has no other; [`RegulateError::Group`], [`RegulateError::Vanished`].
    pub fn find(
        machine: &MachineFiles,
        group: &str,
        victim: &IdList,
    ) -> Result<Self, RegulateError> {
        check_delegated(machine, group, "cpuset", KNOB)?;
        let file = format!("{ROOT}/{group}/cpuset.cpus");
        let text = machine.read(&file)?;
        let own = list(machine, &format!("{file}.effective"))?;
        let mut away = Vec::new();
        for cpu in own.iter() {
            let core = core_of(machine, cpu)?;
            if !core.iter().any(|sibling| victim.contains(sibling)) {
                away.push(cpu);
            }
        }
        let away = IdList::from_ids(away);
        let unavailable = |reason: String| RegulateError::Unavailable { knob: KNOB, reason };
        if away.len() == own.len() {
            let reason = format!(
                "{group} has the processors {own}, and shares no core with {victim} of the victim"
            );
            return Err(unavailable(reason));
        }
        if away.is_empty() {
            let reason = format!(
                "{group} has the processors {own}, and shares every core with {victim} of the victim"
            );
            return Err(unavailable(reason));
        }
        // The kernel empties no cpuset that has tasks.
        let before = match text.trim().is_empty() {
            true => format!("{own}\n"),
            false => text,
        };
        Ok(Self { file, before, away })
    }

    /// The processors that a victim's group has.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where the group has no `cpuset` controller; [`RegulateError::Group`].
    pub fn processors_of(machine: &MachineFiles, victim: &str) -> Result<IdList, RegulateError> {
        check_group(victim)?;
        let file = format!("{ROOT}/{victim}/cpuset.cpus.effective");
        match list(machine, &file) {
            Err(RegulateError::Vanished { .. }) => Err(RegulateError::Unavailable {
                knob: "which processors the victim has",
                reason: format!("there is no /{file}: name its processors"),
            }),
            other => other,
        }
    }
}

/// Processors of the core that one belongs to. Where a machine does not tell cores, it is one by itself.
fn core_of(machine: &MachineFiles, cpu: u32) -> Result<IdList, RegulateError> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
    let files = ["core_cpus_list", "thread_siblings_list"].map(|name| format!("{folder}/{name}"));
    match files.iter().find(|file| machine.path(file).exists()) {
        Some(file) => list(machine, file),
        None => Ok(IdList::from_ids([cpu])),
    }
}

fn list(machine: &MachineFiles, file: &str) -> Result<IdList, RegulateError> {
    let text = machine.read(file)?;
    let found = IdList::parse(&text).filter(|list| !list.is_empty());
    found.ok_or_else(|| RegulateError::Garbled {
        path: machine.path(file),
        content: text.chars().take(120).collect(),
        expected: "a list of processors",
    })
}

impl Knob for Pin {
    fn name(&self) -> &'static str {
        "pin"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        machine.path(&self.file)
    }

    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError> {
        let text = match granted < 1.0 {
            true => format!("{}\n", self.away),
            false => self.before.clone(),
        };
        Ok(vec![(machine.path(&self.file), text)])
    }
}
