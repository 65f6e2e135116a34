//! One run under way.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearfar_index::placement::{PlacedTree, Worker};
use nearfar_memory::TierId;
use nearfar_model::simulation::{Simulation, TierName};

use super::cores::{Board, Samples, Traffic};
use super::migrator::Migrator;
use super::run::Run;
use super::space::Space;
use super::untimed::Untimed;
use crate::latencies::Latencies;
use crate::placed::{Moment, PlacedError, PlacedOutcome, TierTraffic, WorkerShares, counter_bytes};
use crate::workload::{Distribution, KeySpace};

/// Slices of the warm-up that are simulated: those that tell how fast operations are, and those in which
/// caches get warm again.
const SIMULATED_FIRST: u32 = 4;
const SIMULATED_LAST: u32 = 10;
/// A run under way.
pub(super) struct LiveRun<'c, 'r, S, O, T: PlacedTree> {
    pub(super) run: &'c mut Run<'r, S, O>,
    /// Carries out operations in no virtual time.
    pub(super) untimed: Box<dyn Untimed>,
    pub(super) simulation: Simulation,
    pub(super) board: Rc<Board>,
    pub(super) space: Rc<Space>,
    pub(super) traffic: Rc<Traffic>,
    pub(super) migrator: Migrator<T>,
    pub(super) placed_for: Duration,
    /// Leaves of the loaded tree.
    pub(super) leaves: u64,
    /// Lines that all caches hold together.
    pub(super) cache_lines: u64,
    pub(super) last_level_bytes: u64,
    pub(super) samples: Vec<Samples>,
}

/// Counts of operations, and of accesses by tier.
pub(super) type Counts = (u64, [u64; 2]);
/// Lines read from each device, and lines written.
pub(super) type DeviceLines = (Vec<u64>, Vec<u64>);

/// Nanoseconds of each of the framework's workers, in the order of [`Worker::ALL`].
pub(super) type WorkerNs = [f64; Worker::ALL.len()];

/// The counts when the measured time began.
#[derive(Default)]
pub(super) struct Start {
    pub(super) at: Duration,
    pub(super) operations: u64,
    pub(super) lines: DeviceLines,
    pub(super) moved_bytes: u64,
    /// Time in which placement had nothing to do.
    pub(super) idle: Duration,
    /// Time of placement for each of its workers.
    pub(super) worker_ns: Option<WorkerNs>,
    /// Sampled operations of each core.
    pub(super) sampled: Vec<usize>,
}

impl<S: KeySpace, O: FnMut(f64), T: PlacedTree> LiveRun<'_, '_, S, O, T> {
    pub(super) fn go(mut self, tree: &Arc<T>) -> Result<PlacedOutcome, PlacedError> {
        let options = self.run.options;
        let untimed = self.run.untimed();
        let warm_up = options.warm_up - untimed;
        let end = warm_up + options.measured;
        let (mut now, mut counts, mut series) = (Duration::ZERO, (0, [0; 2]), Vec::new());
        let (mut start, mut skipped) = (None, Duration::ZERO);
        while now < end && !self.board.is_over.get() {
            if now >= SIMULATED_FIRST * options.slice && skipped < untimed {
                self.pass(untimed, counts.0 as f64 / now.as_secs_f64(), tree);
                skipped = untimed;
            }
            if now >= warm_up && start.is_none() {
                start = Some(self.start(now));
            }
            now += options.slice;
            self.simulation.advance(u64::MAX, now.as_nanos() as f64);
            let placed_for = self.placed_for + skipped + now;
            self.migrator.look(placed_for, &self.space, &self.traffic);
            tree.memory().quiesce();
            self.shift(now);
            let before = counts;
            counts = (self.board.operations.get(), self.space.accesses());
            series.push(self.moment(skipped + now, before, counts, tree));
            (self.run.observe)(now.as_secs_f64() / end.as_secs_f64());
        }
        self.finish((now, start.unwrap_or_default()), series)
    }

    /// Lets the time pass in which operations are not simulated, so many of them per second.
    fn pass(&mut self, time: Duration, operations_per_s: f64, tree: &Arc<T>) {
        let slice = self.run.options.slice;
        let operations = (operations_per_s * slice.as_secs_f64()) as u64;
        let mut passed = Duration::ZERO;
        while passed < time && !self.board.is_over.get() {
            let result = self.untimed.follow(operations);
            self.note(result);
            passed += slice;
            let now = self.placed_for + SIMULATED_FIRST * slice + passed;
            self.migrator.settle(now, &self.space);
            tree.memory().quiesce();
        }
    }

    /// Moves the hot region, where it is to move.
    fn shift(&self, now: Duration) {
        let Some((every, share)) = self.run.options.shift else {
            return;
        };
        if let Distribution::HotRegion(region) = self.run.options.workload.distribution {
            let moves = (now.as_nanos() / every.as_nanos()) as f64;
            let start = (region.start_share + moves * share).fract();
            self.board.hot_start.set(Some(start));
        }
    }

    pub(super) fn moment(
        &self,
        at: Duration,
        before: Counts,
        after: Counts,
        tree: &Arc<T>,
    ) -> Moment {
        let accesses = [0, 1].map(|tier| (after.1[tier] - before.1[tier]) as f64);
        let operations = (after.0 - before.0) as f64;
        let near_bytes_share = self.migrator.near_pages_share().unwrap_or_else(|| {
            let near = tree.memory().ledger(TierId::NEAR).used_bytes();
            near as f64 / tree.memory().used_bytes().max(1) as f64
        });
        Moment {
            at,
            operations_per_s: operations / self.run.options.slice.as_secs_f64(),
            near_bytes_share,
            near_accesses_share: Some(accesses[0] / (accesses[0] + accesses[1]).max(1.0)),
        }
    }

    pub(super) fn finish(
        self,
        (end, start): (Duration, Start),
        series: Vec<Moment>,
    ) -> Result<PlacedOutcome, PlacedError> {
        if let Some(error) = self.board.failure.get() {
            let contestant = self.run.options.contestant;
            return Err(PlacedError::Map { contestant, error });
        }
        let operations = self.board.operations.get() - start.operations;
        let measured = end - start.at;
        let (mut reads, mut writes) = self.simulation.memory_lines();
        let before = start.lines.0.iter().chain(&start.lines.1);
        for (lines, before) in reads.iter_mut().chain(&mut writes).zip(before) {
            *lines -= before;
        }
        let traffic = self.run.traffic(&(reads, writes), measured);
        let mut latencies = Latencies::default();
        for (core, counts) in self.samples.iter().enumerate() {
            let mut all = self.simulation.samples_ns(core);
            for (index, (kind, count)) in counts.borrow().iter().enumerate() {
                if all.len() < *count as usize {
                    break;
                }
                let sum: f64 = all.by_ref().take(*count as usize).sum();
                if start.sampled.get(core).is_some_and(|first| index >= *first) {
                    latencies.add(*kind, sum);
                }
            }
        }
        latencies.sort();
        self.board.is_over.set(true);
        let idle = self.traffic.idle() - start.idle;
        let busy_s = measured.saturating_sub(idle).as_secs_f64();
        let all_s = measured.as_secs_f64() * self.run.options.threads as f64;
        let background_share = busy_s / (all_s + busy_s);
        let worker_ns = self.migrator.busy_ns(&self.traffic);
        let lost = self.board.found.borrow().lost;
        Ok(PlacedOutcome {
            operations_per_s: operations as f64 / measured.as_secs_f64(),
            latencies,
            scale: self.run.scale,
            tree_bytes: self.run.tree_bytes,
            near_bytes_max: self.run.near_bytes_max(),
            moved_bytes: self.migrator.moved_bytes(start.moved_bytes),
            background_share,
            worker_shares: worker_ns
                .map(|after| worker_shares(background_share, start.worker_ns, after)),
            metadata_bytes: self.migrator.metadata_bytes(),
            counter_bytes_share: counter_bytes(self.leaves) as f64
                / self.run.tree_bytes.max(1) as f64,
            series,
            lost,
            traffic: traffic.map(Some),
            counted: measured,
            hot_set: self.run.hot_set(self.leaves, self.last_level_bytes),
            sampled: None,
            emulated: None,
            waited_share: None,
            took: Duration::ZERO,
        })
    }
}

/// Each worker's part of the share that placement took, as their times grew.
fn worker_shares(share: f64, before: Option<WorkerNs>, after: WorkerNs) -> WorkerShares {
    let before = before.unwrap_or_default();
    let grown: WorkerNs = std::array::from_fn(|worker| after[worker] - before[worker]);
    let all = grown.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    Worker::ALL.map(|worker| (worker, share * grown[worker as usize] / all))
}

impl<S, O> Run<'_, S, O> {
    /// The part of the warm-up that is not simulated.
    fn untimed(&self) -> Duration {
        let options = self.options;
        if options.shift.is_some() {
            return Duration::ZERO;
        }
        let simulated = (SIMULATED_FIRST + SIMULATED_LAST) * options.slice;
        options.warm_up.saturating_sub(simulated)
    }

    /// What near and far memory served in so much time, from the lines of each device.
    fn traffic(&self, (reads, writes): &DeviceLines, time: Duration) -> [TierTraffic; 2] {
        let mut first = 0;
        let mut traffic = [TierTraffic::default(); 2];
        for (name, tier) in &self.machine.tiers {
            let devices = first..first + tier.devices as usize;
            first = devices.end;
            let place = match name {
                TierName::Near => 0,
                TierName::Far => 1,
                TierName::Remote => continue,
            };
            let of = |lines: &[u64]| lines.iter().take(devices.end).skip(devices.start).sum();
            let (lines_read, lines_written): (u64, u64) = (of(reads), of(writes));
            let busy_ns = lines_read as f64 * tier.read_service_ns
                + lines_written as f64 * tier.write_service_ns;
            traffic[place] = TierTraffic {
                lines_read,
                lines_written,
                busy_share: busy_ns / f64::from(tier.devices) / (time.as_secs_f64() * 1e9),
            };
        }
        traffic
    }
}
