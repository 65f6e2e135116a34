//! Throughput of access patterns in the model (weisgut-2025, sections 4.2, 4.3 and 4.5).

use nearfar_model::simulation::pattern::{Order, Pattern};
use nearfar_model::simulation::{
    Access, AddressMap, Caches, DeviceIndex, Machine, MachineError, Program, Simulation, TierName,
};

use super::points::AccessOp;

/// Region of the published runs: 7 GiB.
const REGION_BYTES: u64 = 7 << 30;
const PAGE_BYTES: u64 = 4096;

/// Lines measured per point, and lines before them.
const MEASURED_LINES: u64 = 40_000;
const WARM_LINES: u64 = 8_000;
/// Lines of every thread before the measurement: with stores, enough that write-backs are steady.
const WARM_LINES_PER_THREAD: u64 = 1_200;

const SEED: u64 = 1;

/// What one throughput experiment runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AccessRun {
    pub op: AccessOp,
    pub devices: u32,
    pub access_bytes: u32,
    pub threads: usize,
    pub cxl_percent: f64,
}

impl AccessRun {
    /// Throughput in GB/s.
    pub(super) fn gb_per_s(&self, machine: &Machine) -> Result<f64, MachineError> {
        let (order, access) = match self.op {
            AccessOp::SequentialRead => (Order::Sequential, Access::Load),
            AccessOp::RandomRead => (Order::Random, Access::Load),
            AccessOp::SequentialWrite => (Order::Sequential, Access::Store),
            AccessOp::RandomWrite => (Order::Random, Access::Store),
            AccessOp::SequentialNonTemporalWrite => (Order::Sequential, Access::NonTemporalStore),
            AccessOp::RandomNonTemporalWrite => (Order::Random, Access::NonTemporalStore),
        };
        let programs = (0..self.threads as u64).map(|thread| {
            let threads = self.threads as u64;
            let bytes = self.access_bytes;
            let pattern = Pattern::new(access, order, bytes, REGION_BYTES, thread, threads, SEED);
            Box::new(pattern) as Box<dyn Program>
        });
        let map = self.map(machine)?;
        let simulation = Simulation::new(machine, map, programs.collect(), Caches::Streaming)?;
        let warm = WARM_LINES + WARM_LINES_PER_THREAD * self.threads as u64;
        // Parts of a line are accesses of their own, but bring no further lines.
        let parts = u64::from((64 / self.access_bytes).max(1));
        Ok(simulation
            .measure(warm * parts, MEASURED_LINES * parts)
            .gb_per_s())
    }

    /// The first part of the region on near memory, the rest interleaved over the devices.
    fn map(&self, machine: &Machine) -> Result<AddressMap, MachineError> {
        let near = machine.devices(TierName::Near, 1)?;
        let far = far_devices(machine, self.devices)?;
        let pages = REGION_BYTES / PAGE_BYTES;
        let far_pages = (pages as f64 * self.cxl_percent / 100.0).round() as u64;
        let mut map = AddressMap::new();
        map.add(0, pages - far_pages, near);
        map.add(pages - far_pages, far_pages, far);
        Ok(map)
    }
}

/// That many CXL devices, or near memory for none.
pub(super) fn far_devices(
    machine: &Machine,
    devices: u32,
) -> Result<Vec<DeviceIndex>, MachineError> {
    match devices {
        0 => machine.devices(TierName::Near, 1),
        _ => machine.devices(TierName::Far, devices),
    }
}
