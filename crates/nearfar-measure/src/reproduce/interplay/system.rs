//! The two machines, and what runs on them.

use nearfar_model::simulation::{Group, Machine, MachineError, TierName};
use nearfar_topology::Profile;

use crate::interference::{StoragePattern, bandwidths, drive_gb_per_s, storage};

/// A machine of mao-2025, table II.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// 48 cores, an ASIC device, a SAS SSD.
    A,
    /// 32 cores, an FPGA device, an NVMe SSD.
    B,
}

impl System {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// Its letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    /// Its profile.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::A => "cxl-asic",
            Self::B => "cxl-agilex",
        }
    }

    /// The machine to simulate.
    ///
    /// # Errors
    /// None for the built-in profiles.
    pub fn machine(self) -> Result<Machine, MachineError> {
        Machine::new(&Profile::builtin(self.profile()).expect("a built-in profile"))
    }

    /// What its drive takes in the model when it is written in order, in GB/s.
    pub(super) fn drive_gb_per_s(self) -> f64 {
        drive_gb_per_s(self.profile(), StoragePattern::Write)
            .expect("a drive of a built-in profile")
    }

    /// Storage at the most that its link carries.
    pub(super) fn storage(self) -> [Group; 2] {
        storage(self.profile()).expect("the storage of a built-in profile")
    }
}

/// Bandwidth of the first group beside the others, and that of the second, in GB/s.
pub(super) fn first_two(machine: &Machine, groups: &[Group]) -> Result<(f64, f64), MachineError> {
    let found = bandwidths(machine, groups)?;
    Ok((found[0], found.get(1).copied().unwrap_or(0.0)))
}

/// Latency of a dependent read of near memory beside the groups, and the bandwidth of the first.
pub(super) fn with_latency(
    machine: &Machine,
    groups: &[Group],
) -> Result<(f64, f64), MachineError> {
    let mut groups = groups.to_vec();
    groups.push(Group::chase(TierName::Near));
    let found = bandwidths(machine, &groups)?;
    let chased = found[groups.len() - 1];
    Ok((found[0], 8.0 / chased))
}
