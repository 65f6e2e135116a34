//! The filtering integer scan in the model (weisgut-2025, sections 5.2 and 5.3).

use std::cell::Cell;
use std::rc::Rc;

use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{
    Access, AddressMap, Caches, DeviceIndex, Machine, MachineError, Operation, Program, Simulation,
    TierName,
};

use super::points::ScanPlacement;

const LINE_BYTES: u64 = 64;
const VALUES_PER_LINE: f64 = 16.0;
/// Core time of comparing one vector: about ten instructions of a loop at four per cycle and
/// 2.9 GHz.
const COMPARE_PS: u32 = 900;
/// Core time of writing the positions of one vector: compress, store, count and advance, about six
/// cycles.
const POSITIONS_PS: u32 = 2_000;
/// Time until the pipeline is filled again after a branch that was not foreseen: 20 cycles.
const MISPREDICT_PS: u32 = 7_000;

/// Lines of a column that are simulated. The published columns have 8 million; throughput does not
/// depend on their number.
const LINES_IN_ALL: u64 = 480_000;
const LINES_MIN: u64 = 10_240;
const LINES_MAX: u64 = 32_768;

/// What one scan experiment runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScanRun {
    pub selectivity_percent: f64,
    pub placement: ScanPlacement,
    pub threads: usize,
    pub cxl_columns_percent: f64,
}

impl ScanRun {
    /// Bytes of column values per time until all scans are done, in GB/s.
    pub(super) fn gb_per_s(&self, machine: &Machine) -> Result<f64, MachineError> {
        let lines = (LINES_IN_ALL / self.threads as u64).clamp(LINES_MIN, LINES_MAX);
        let far_columns = (self.threads as f64 * self.cxl_columns_percent / 100.0).round() as u64;
        let lines_left = |columns: u64| Rc::new(Cell::new(lines * columns));
        let far_lines = lines_left(far_columns);
        let near_lines = lines_left(self.threads as u64 - far_columns);
        // A column and its positions take as many pages each; a faster thread scans more of them.
        let pages = 2 * lines.div_ceil(64);
        let near = machine.devices(TierName::Near, 1)?;
        let columns = far_devices(machine, self.placement.column_devices)?;
        let positions = far_devices(machine, self.placement.position_devices)?;
        let mut map = AddressMap::new();
        let mut programs: Vec<Box<dyn Program>> = Vec::new();
        for thread in 0..self.threads as u64 {
            let far = thread < far_columns;
            let first = 2 * pages * thread;
            // Regions of threads begin on any of the devices.
            let start = |devices: &[u8]| {
                let mut devices = devices.to_vec();
                let count = devices.len();
                devices.rotate_left(thread as usize % count);
                devices
            };
            map.add(
                first,
                pages,
                if far { start(&columns) } else { near.clone() },
            );
            map.add(
                first + pages,
                pages,
                if far { start(&positions) } else { near.clone() },
            );
            programs.push(Box::new(Scan {
                column: first << 12,
                positions: (first + pages) << 12,
                written: 0,
                owed_bytes: 0.0,
                line: 0,
                lines_left: Rc::clone(if far { &far_lines } else { &near_lines }),
                match_share: self.selectivity_percent / 100.0,
                random: mix(thread + 1),
                pending: None,
                mispredicted: false,
            }));
        }
        let outcome = Simulation::new(machine, map, programs, Caches::Streaming)?.run();
        Ok((lines * LINE_BYTES * self.threads as u64) as f64 / outcome.elapsed_ns)
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

/// One thread's scan: a vector load per line, and a store of positions where values match.
struct Scan {
    column: u64,
    positions: u64,
    written: u64,
    owed_bytes: f64,
    line: u64,
    /// Lines that threads with columns on the same memory still have to scan. The system moves
    /// threads between cores, so none of them stays the one that shares its core with another.
    lines_left: Rc<Cell<u64>>,
    match_share: f64,
    random: u64,
    pending: Option<Operation>,
    mispredicted: bool,
}

impl Scan {
    /// Whether any value of the next vector matches.
    fn any_match(&mut self) -> bool {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let uniform = (mix(self.random) >> 11) as f64 / (1_u64 << 53) as f64;
        // 1 - (1 - p)^16 by squaring four times.
        let mut none = 1.0 - self.match_share;
        for _ in 0..4 {
            none *= none;
        }
        uniform >= none
    }
}

impl Program for Scan {
    fn next_operation(&mut self) -> Option<Operation> {
        if let Some(store) = self.pending.take() {
            return Some(store);
        }
        let lines_left = self.lines_left.get();
        if lines_left == 0 {
            return None;
        }
        self.lines_left.set(lines_left - 1);
        let address = self.column + self.line * LINE_BYTES;
        let mut load = Operation::new(Access::Load, address, LINE_BYTES as u32);
        load.compute_ps = COMPARE_PS;
        if self.mispredicted {
            // What follows a branch that was not foreseen waits for the values it depends on.
            load.depends = true;
            load.compute_ps += MISPREDICT_PS;
            self.mispredicted = false;
        }
        self.line += 1;
        if self.any_match() {
            // Where matches are rare, each comes as a surprise; where they are the rule, none does.
            self.mispredicted = self.match_share * VALUES_PER_LINE < 1.0;
            load.compute_ps += POSITIONS_PS;
            let per_match = if self.match_share * VALUES_PER_LINE < 1.0 {
                4.0
            } else {
                self.match_share * LINE_BYTES as f64
            };
            self.owed_bytes += per_match;
            let bytes = self.owed_bytes as u32;
            self.owed_bytes -= f64::from(bytes);
            self.pending = Some(Operation::new(
                Access::Store,
                self.positions + self.written,
                bytes.max(4),
            ));
            self.written += u64::from(bytes);
        }
        Some(load)
    }
}
