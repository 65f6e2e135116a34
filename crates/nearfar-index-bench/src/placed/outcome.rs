//! What a run under a placement policy gave.

use std::time::Duration;

use nearfar_index::placement::Worker;
use nearfar_model::emulation::Charged;

use super::hot_set::HotSet;
use super::scale::Scale;
use crate::latencies::Latencies;

/// The state over one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Its end, since the run began.
    pub at: Duration,
    /// Operations per second in it.
    pub operations_per_s: f64,
    /// Share of the tree's bytes that are near.
    pub near_bytes_share: f64,
    /// Share of the accesses that went to near memory, before any cache; none on this machine's own tiers, where nobody
    /// counts them.
    pub near_accesses_share: Option<f64>,
}

/// What a tier's memory served, behind all caches.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TierTraffic {
    /// Lines of 64 bytes.
    pub lines_read: u64,
    /// Lines of 64 bytes.
    pub lines_written: u64,
    /// Share of the time in which its devices transferred.
    pub busy_share: f64,
}

/// What only emulated runs give, of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EmulatedFigures {
    /// Operations of all threads.
    pub operations: u64,
    /// What they were charged.
    pub charged: Charged,
}

/// How sure a run is of whose measured time windows were simulated only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledFigures {
    /// Windows that were simulated in the measured time.
    pub windows: u64,
    /// Slices in which they lie; the mean of each slice's windows is one observation.
    pub slices: u32,
    /// Simulated time of each window.
    pub window: Duration,
    /// Half of the confidence interval of the throughput, over the throughput.
    pub error_share: f64,
    /// The half that was asked for.
    pub error_share_max: f64,
    /// The share of the operations of warm-up and measured time that were carried out.
    pub followed_share: f64,
}

impl SampledFigures {
    /// The confidence of the interval, in percent.
    pub const CONFIDENCE_PERCENT: u8 = 95;

    /// Whether the interval is as small as was asked for.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.error_share <= self.error_share_max
    }
}

/// Shares of the processor time of all cores.
pub type WorkerShares = [(Worker, f64); Worker::ALL.len()];

/// What a run gave, in virtual time or in real time.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedOutcome {
    /// Operations per second, over the measured time.
    pub operations_per_s: f64,
    /// Latencies of sampled operations: in virtual time the sums of their dependent accesses,
    /// without the core's own time; in real time their time on this machine and, emulated, what they were charged.
    pub latencies: Latencies,
    /// How much smaller the run was than the published experiment.
    pub scale: Scale,
    /// Bytes of the loaded tree.
    pub tree_bytes: u64,
    /// The most of them that may be near.
    pub near_bytes_max: Option<u64>,
    /// Bytes that placement moved in the measured time, both ways.
    pub moved_bytes: u64,
    /// Share of the processor time of all cores that placement took in the measured time, but for
    /// pages.
    pub background_share: f64,
    /// The same by worker, where the framework's workers run: their sum is [`Self::background_share`].
    pub worker_shares: Option<WorkerShares>,
    /// Bytes that placement keeps beside the tree and the counters in its leaves, where the framework takes part.
    pub metadata_bytes: Option<u64>,
    /// Bytes of leaves that count uses, over the bytes of the loaded tree.
    pub counter_bytes_share: f64,
    /// Slice by slice, with what of the warm-up is simulated.
    pub series: Vec<Moment>,
    /// Keys that were asked for, are in the map, and were not found.
    pub lost: u64,
    /// What near and far memory served over the measured time, in virtual time with placement's part;
    /// none where nobody counts it.
    pub traffic: [Option<TierTraffic>; 2],
    /// The time in which that was counted: the measured time, or the windows with what leads in to them.
    pub counted: Duration,
    /// What the workload uses most, in virtual time; none of a trace.
    pub hot_set: Option<HotSet>,
    /// How sure the figures are, where windows were simulated only.
    pub sampled: Option<SampledFigures>,
    /// What only emulated runs give.
    pub emulated: Option<EmulatedFigures>,
    /// In real time, the share of the threads' time in which they waited for a processor of this machine. In emulated runs
    /// it is taken off all rates, but where it is large, others have been in the caches meanwhile.
    pub waited_share: Option<f64>,
    /// Time that the run took on this machine.
    pub took: Duration,
}
