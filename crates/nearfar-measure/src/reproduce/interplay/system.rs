//! The two machines, and what runs on them.

use nearfar_model::simulation::{Access, Group, Machine, MachineError, Span, TierName, run_beside};
use nearfar_topology::Profile;

/// Long enough for the shares of the request table to be those that stay. It fills within 20 µs, but who has
/// which entries moves on for 100 to 150 µs where two devices fill it together; measured before, posted stores
/// count that only fill the table, which a run of seconds does not notice.
const SPAN: Span = Span {
    warm_ns: 200_000.0,
    measured_ns: 50_000.0,
};

/// Bytes of a line.
const LINE_BYTES: f64 = 64.0;

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

    /// What the link of its storage carries at most: 12 Gb/s of SAS, four lanes of PCIe 4. The paper gives
    /// no bandwidth of the SSDs.
    const fn storage_gb_per_s(self) -> f64 {
        match self {
            Self::A => 1.2,
            Self::B => 7.9,
        }
    }

    /// Storage at the most that its link carries: the device's DMA, and the copy between the page
    /// cache and the task.
    pub(super) fn storage(self) -> [Group; 2] {
        let pause_ns = LINE_BYTES / self.storage_gb_per_s();
        let group = |access| Group::new(TierName::Near, access, 1).pausing(pause_ns);
        [group(Access::NonTemporalStore), group(Access::Load)]
    }
}

/// What a thread of the paper's benchmark does.
pub(super) const OPERATIONS: [(&str, Access); 3] = [
    ("ld", Access::Load),
    ("st", Access::Store),
    ("ntst", Access::NonTemporalStore),
];

/// Bandwidth of the first group beside the others, and that of the second, in GB/s.
pub(super) fn first_two(machine: &Machine, groups: &[Group]) -> Result<(f64, f64), MachineError> {
    let found = run_beside(machine, groups, SPAN)?;
    Ok((found[0], found.get(1).copied().unwrap_or(0.0)))
}

/// Latency of a dependent read of near memory beside the groups, and the bandwidth of the first.
pub(super) fn with_latency(
    machine: &Machine,
    groups: &[Group],
) -> Result<(f64, f64), MachineError> {
    let mut groups = groups.to_vec();
    groups.push(Group::chase(TierName::Near));
    let found = run_beside(machine, &groups, SPAN)?;
    let chased = found[groups.len() - 1];
    Ok((found[0], 8.0 / chased))
}
