//! The filtering integer scan in the model (weisgut-2025, sections 5.2 and 5.3): the kernel of
//! `nearfar-kernels` on virtual threads.

use std::sync::atomic::{AtomicU64, Ordering};

use nearfar_kernels::{Scan, Stores};
use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{
    Caches, DeviceIndex, FilterProbe, Machine, MachineError, PlacedBuffer, TierName, VirtualProbe,
};

use super::points::ScanPlacement;

const LINE_BYTES: usize = 64;
const LINE_VALUES: usize = LINE_BYTES / size_of::<u32>();
/// A page of a column, which the kernel filters in one go.
const BLOCK_VALUES: usize = 1024;
const BLOCK_LINES: u64 = (BLOCK_VALUES / LINE_VALUES) as u64;
const BLOCK_BYTES: usize = BLOCK_VALUES * size_of::<u32>();

/// Lines of a column that are simulated. The published columns have 8 million; throughput does not
/// depend on their number.
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
    /// Bytes of column values per time until all scans are done, in GB/s.
    pub(super) fn gb_per_s(&self, machine: &Machine) -> Result<f64, MachineError> {
        let lines = (LINES_IN_ALL / self.threads as u64).clamp(LINES_MIN, LINES_MAX);
        let blocks = lines / BLOCK_LINES;
        let far_columns = (self.threads as f64 * self.cxl_columns_percent / 100.0).round() as usize;
        // Threads whose columns lie on the same memory take their work from one pool: the system
        // moves threads between cores, so none of them stays the one that shares its core.
        let pool = |columns: usize| AtomicU64::new(blocks * columns as u64);
        let (far_pool, near_pool) = (pool(far_columns), pool(self.threads - far_columns));
        let data = Data::new(self.selectivity_percent / 100.0);
        let mut buffers = Vec::new();
        let mut threads = Vec::new();
        for thread in 0..self.threads {
            let is_far = thread < far_columns;
            let (column, positions) = self.place(machine, thread, is_far)?;
            // A faster thread scans more than its share: the addresses suffice for that.
            let bytes = 2 * blocks as usize * BLOCK_BYTES;
            let first = (1 + 2 * thread) << 32;
            let buffer = |first: usize, cycle| PlacedBuffer {
                addresses: first..first + bytes,
                cycle,
            };
            buffers.push(buffer(first, column));
            buffers.push(buffer(first + (1 << 32), positions));
            threads.push(Thread {
                data: &data,
                pool: if is_far { &far_pool } else { &near_pool },
                first_block: thread * 11 % DATA_BLOCKS,
                column: first,
                positions: first + (1 << 32),
            });
        }
        let closures = threads
            .into_iter()
            .map(|thread| move |probe: &VirtualProbe| thread.scan(probe));
        let outcome = machine.run_with(Caches::Streaming, &buffers, closures.collect())?;
        let bytes = blocks * self.threads as u64 * BLOCK_BYTES as u64;
        Ok(bytes as f64 / outcome.elapsed_ns)
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

/// Uniformly distributed values, of which a share lies below a bound.
struct Data {
    values: Vec<u32>,
    bound: u32,
    match_share: f64,
}

impl Data {
    fn new(match_share: f64) -> Self {
        let count = DATA_BLOCKS * BLOCK_VALUES;
        let values = (0..count as u64).map(|index| (mix(index + 1) >> 32) as u32);
        Self {
            values: values.collect(),
            bound: (match_share * f64::from(u32::MAX)).round() as u32,
            match_share,
        }
    }
}

/// What one thread scans. Its column and positions have addresses in the model only: the values are
/// those of all threads, and positions of a block overwrite those of the last one.
struct Thread<'a> {
    data: &'a Data,
    pool: &'a AtomicU64,
    first_block: usize,
    column: usize,
    positions: usize,
}

impl Thread<'_> {
    fn scan(&self, probe: &VirtualProbe) {
        let scan = Scan::new().with_stores(Stores::Cached);
        let mut positions = vec![0; BLOCK_VALUES];
        let mut filter = FilterProbe::new(
            probe,
            self.data.bound,
            self.data.match_share,
            (self.column, self.positions),
        );
        let mut block = self.first_block;
        loop {
            probe.wait();
            // One closure runs at a time, so nothing is ordered by this number but itself.
            let taken = self
                .pool
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                });
            if taken.is_err() {
                return;
            }
            let values = &self.data.values[block * BLOCK_VALUES..][..BLOCK_VALUES];
            let first_position = (filter.column() - self.column) / size_of::<u32>();
            filter.begin_block(values);
            scan.less_than(
                values,
                self.data.bound,
                first_position as u32,
                &mut positions,
                &filter,
            )
            .expect("there is room for the positions of a block");
            filter.end_block();
            block = (block + 1) % DATA_BLOCKS;
        }
    }
}
