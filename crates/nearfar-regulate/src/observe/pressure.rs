//! Pressure stall information of a group (kernel documentation, PSI).

use super::rate::Rate;
use super::{Observer, Sureness};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// The kinds of pressure of a group: of memory, which counts, and of storage and processors, which only tell what else
/// it waits for.
const KINDS: [&str; 3] = ["memory", "io", "cpu"];

/// What a victim waited for since the last look, each as a share of the time; no number where that is not told. Tasks
/// wait side by side, so that together they may be more than all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waits {
    /// Pages of memory.
    pub memory: f64,
    /// Storage.
    pub io: f64,
    /// A processor.
    pub cpu: f64,
}

/// Time that a group's tasks waited for memory that is not there.
#[derive(Debug)]
pub struct Pressure {
    machine: MachineFiles,
    folder: String,
    /// In the order of [`KINDS`].
    waited_us: [Rate; KINDS.len()],
    waits: Option<Waits>,
}

impl Pressure {
    /// That of a victim's group.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without PSI; [`RegulateError::Group`].
    pub fn find(machine: &MachineFiles, group: &str) -> Result<Self, RegulateError> {
        check_group(group)?;
        let folder = format!("sys/fs/cgroup/{group}");
        let file = file_of(&folder, KINDS[0]);
        if !machine.path(&file).exists() {
            return Err(RegulateError::Unavailable {
                knob: "pressure stall information",
                reason: format!("there is no /{file}"),
            });
        }
        Ok(Self {
            machine: machine.clone(),
            folder,
            waited_us: [(); KINDS.len()].map(|()| Rate::default()),
            waits: None,
        })
    }

    /// What some task has waited for so far.
    fn total_us(&self, kind: &str) -> Result<f64, RegulateError> {
        let file = file_of(&self.folder, kind);
        let text = self.machine.read(&file)?;
        let some = text.lines().find_map(|line| line.strip_prefix("some "));
        let total = some.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok());
        total.ok_or_else(|| RegulateError::Garbled {
            path: self.machine.path(&file),
            content: text.chars().take(120).collect(),
            expected: "a line of some with a total",
        })
    }
}

fn file_of(folder: &str, kind: &str) -> String {
    format!("{folder}/{kind}.pressure")
}

impl Observer for Pressure {
    fn tells(&self) -> &'static str {
        "memory pressure of the victim's group: waits for pages only, not for loads"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Inferred
    }

    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let memory = self.total_us(KINDS[0])?;
        // What the kernel does not tell of the others is no reason to stop.
        let [io, cpu] = [KINDS[1], KINDS[2]].map(|kind| self.total_us(kind).unwrap_or(f64::NAN));
        let mut shares = [memory, io, cpu];
        for (share, rate) in shares.iter_mut().zip(&mut self.waited_us) {
            *share = rate.per_s(now_ms, *share) * 1e-6;
        }
        let [memory, io, cpu] = shares;
        self.waits = Some(Waits { memory, io, cpu });
        Ok((1.0 - memory).clamp(0.0, 1.0))
    }

    fn waits(&self) -> Option<Waits> {
        self.waits
    }
}
