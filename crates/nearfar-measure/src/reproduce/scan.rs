//! The filtering integer scan in the model (weisgut-2025, sections 5.2 and 5.3): the kernel of
//! `nearfar-kernels` on virtual threads.

use std::sync::atomic::{AtomicU64, Ordering};

use nearfar_kernels::{Scan, Stores};
use nearfar_model::simulation::{
    Caches, DeviceIndex, Machine, MachineError, Outcome, PlacedBuffer, SlotShares, TierName,
    VirtualProbe,
};

use super::points::ScanPlacement;
use crate::scan::FilteredValues;

const LINE_BYTES: usize = 64;
const LINE_VALUES: usize = LINE_BYTES / size_of::<u32>();
/// A page of a column, which the kernel filters in one go.
const BLOCK_VALUES: usize = 1024;
const BLOCK_LINES: u64 = (BLOCK_VALUES / LINE_VALUES) as u64;
const BLOCK_BYTES: usize = BLOCK_VALUES * size_of::<u32>();

/// Lines of a column that are simulated. The published columns have 8 million; throughput does not
/// depend on their number.
const COLUMN_LINES: u64 = 2_048;
const COLUMN_BLOCKS: u64 = COLUMN_LINES / BLOCK_LINES;
/// Lines that each thread scans in the mean.
const LINES_IN_ALL: u64 = 480_000;
const LINES_MIN: u64 = 10_240;
const LINES_MAX: u64 = 32_768;

/// Blocks of values that the columns of all threads consist of, each from another one on.
const DATA_BLOCKS: usize = 512;

/// What one scan experiment runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScanRun {
    pub selectivity_percent: f64,
    pub placement: ScanPlacement,
    pub threads: usize,
    pub cxl_columns_percent: f64,
}

impl ScanRun {
    /// Bytes of column values per time, in GB/s.
    ///
    /// Every column is scanned as often as every other, by whichever thread is free: a thread that
    /// is done with one takes the next. All of them stop together, each where it is.
    pub(super) fn gb_per_s(&self, machine: &Machine) -> Result<f64, MachineError> {
        let outcome = self.run(machine)?;
        Ok((self.blocks() * BLOCK_BYTES as u64) as f64 / outcome.elapsed_ns)
    }

    /// What the issue slots of the cores are used for.
    pub(super) fn slot_shares(&self, machine: &Machine) -> Result<SlotShares, MachineError> {
        // The kernel's loads and stores are among the instructions that its probe tells of.
        Ok(self.run(&machine.counting_slots(0.0))?.slot_times.shares())
    }

    /// Blocks that all threads scan together.
    fn blocks(&self) -> u64 {
        let lines = (LINES_IN_ALL / self.threads as u64).clamp(LINES_MIN, LINES_MAX);
        lines / BLOCK_LINES * self.threads as u64
    }

    fn run(&self, machine: &Machine) -> Result<Outcome, MachineError> {
        let blocks = self.blocks();
        let work = Work {
            blocks: AtomicU64::new(blocks),
            columns: AtomicU64::new(0),
            far_share: self.cxl_columns_percent / 100.0,
            data: FilteredValues::new(DATA_BLOCKS * BLOCK_VALUES, self.selectivity_percent / 100.0),
        };
        let mut buffers = Vec::new();
        let mut threads = Vec::new();
        for thread in 0..self.threads {
            let tiers = [false, true].map(|is_far| {
                let first = (1 + 4 * thread + 2 * usize::from(is_far)) << 32;
                let (column, positions) = (first, first + (1 << 32));
                (is_far, column, positions)
            });
            for (is_far, column, positions) in tiers {
                let cycles = self.place(machine, thread, is_far)?;
                // No thread scans more than all of it.
                let bytes = blocks as usize * BLOCK_BYTES;
                let buffer = |first: usize, cycle| PlacedBuffer {
                    addresses: first..first + bytes,
                    cycle,
                };
                buffers.push(buffer(column, cycles.0));
                buffers.push(buffer(positions, cycles.1));
            }
            threads.push(Thread {
                work: &work,
                number: thread as u64,
                of: self.threads as u64,
                near: (tiers[0].1, tiers[0].2),
                far: (tiers[1].1, tiers[1].2),
            });
        }
        let closures = threads
            .into_iter()
            .map(|thread| move |probe: &VirtualProbe| thread.scan(probe));
        machine.run_with(Caches::Streaming, &buffers, closures.collect())
    }

    /// Devices of a thread's column and of its positions. Regions of threads begin on any of them.
    fn place(
        &self,
        machine: &Machine,
        thread: usize,
        is_far: bool,
    ) -> Result<(Vec<DeviceIndex>, Vec<DeviceIndex>), MachineError> {
        let devices = |devices: u32| {
            let mut devices = far_devices(machine, if is_far { devices } else { 0 })?;
            let count = devices.len();
            devices.rotate_left(thread % count);
            Ok(devices)
        };
        Ok((
            devices(self.placement.column_devices)?,
            devices(self.placement.position_devices)?,
        ))
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

/// What all threads scan.
struct Work {
    /// Blocks until they stop.
    blocks: AtomicU64,
    /// Columns that were begun.
    columns: AtomicU64,
    /// Columns in CXL memory, of all.
    far_share: f64,
    data: FilteredValues,
}

impl Work {
    /// Takes a block; whether there was one. One closure runs at a time, so nothing is ordered by
    /// this number but itself.
    fn take_block(&self) -> bool {
        let taken = self
            .blocks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        taken.is_ok()
    }

    /// Begins the next column; whether it is far. Those are spread evenly among the others.
    fn begin_column(&self) -> bool {
        let before = self.columns.fetch_add(1, Ordering::Relaxed);
        let far = |columns: u64| (columns as f64 * self.far_share).round();
        far(before + 1) > far(before)
    }
}

/// One thread. Its columns and positions have addresses in the model only: the values are those of
/// all threads, and positions of a block overwrite those of the last one.
struct Thread<'a> {
    work: &'a Work,
    number: u64,
    of: u64,
    /// Where its columns begin, and the positions.
    near: (usize, usize),
    far: (usize, usize),
}

impl Thread<'_> {
    fn scan(&self, probe: &VirtualProbe) {
        let data = &self.work.data;
        let (mut near, mut far) = (data.probe(probe, self.near), data.probe(probe, self.far));
        let mut positions = vec![0; BLOCK_VALUES];
        let mut block = self.number as usize * 11 % DATA_BLOCKS;
        // Threads begin in the midst of columns, as they are found later.
        let mut left = COLUMN_BLOCKS * (self.number + 1) / self.of;
        let mut is_far = self.work.begin_column();
        loop {
            probe.wait();
            if left == 0 {
                left = COLUMN_BLOCKS;
                is_far = self.work.begin_column();
            }
            if !self.work.take_block() {
                return;
            }
            left -= 1;
            let (filter, first) = if is_far {
                (&mut far, self.far.0)
            } else {
                (&mut near, self.near.0)
            };
            let values = &data.values[block * BLOCK_VALUES..][..BLOCK_VALUES];
            let first_position = (filter.column() - first) / size_of::<u32>();
            filter.begin(values);
            Scan::new()
                .with_stores(Stores::Cached)
                .less_than(
                    values,
                    data.bound,
                    first_position as u32,
                    &mut positions,
                    filter,
                )
                .expect("there is room for the positions of a block");
            filter.end();
            block = (block + 1) % DATA_BLOCKS;
        }
    }
}
