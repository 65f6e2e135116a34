//! What a scan's reads cost: bytes per tier, access counts, and time on emulated tiers.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use nearfar_memory::{MemorySystem, TierBytes, TierId};
use nearfar_model::{EmulatedTier, Pattern, StreamedRun};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearfar_table::segment::{ColumnSegment, RowSet};
use nearfar_table::table::ColumnSlot;
use nearfar_table::tier_models::TierModels;

/// The metric of the bytes read from a tier, followed by the tier's name.
pub const BYTES_READ_METRIC: &str = "bytes_read_";

/// The metric of the time for which an emulated tier delayed the scan's threads, followed by the tier's name.
pub const WAIT_METRIC: &str = "modelled_wait_";

/// The tiers of a system, which of them are emulated, and the bytes scans have read from each.
#[derive(Debug)]
pub struct ScanCosts {
    tiers: Vec<TierCost>,
}

#[derive(Debug)]
struct TierCost {
    id: TierId,
    name: String,
    model: Option<Arc<EmulatedTier>>,
    bytes_read: AtomicU64,
}

impl ScanCosts {
    /// Costs for the tiers of `system`, of which those are emulated that have one of `models`.
    pub fn new(system: &MemorySystem, models: &TierModels) -> Arc<Self> {
        let tiers = system
            .tiers()
            .map(|(id, info)| TierCost {
                id,
                name: info.name.clone(),
                model: models.of(id).cloned(),
                bytes_read: AtomicU64::new(0),
            })
            .collect();
        Arc::new(Self { tiers })
    }

    /// Bytes that scans have read from `tier` so far.
    pub fn bytes_read(&self, tier: TierId) -> u64 {
        self.tiers
            .iter()
            .filter(|t| t.id == tier)
            .map(|t| t.bytes_read.load(Ordering::Relaxed))
            .sum()
    }
}

/// What one partition of a scan has read from one tier.
struct TierCharge {
    /// Of [`ScanCosts::tiers`].
    index: usize,
    /// Nothing where the scan is not to count.
    bytes_read: Option<Count>,
    /// Where the tier is emulated.
    emulated: Option<Emulated>,
}

/// What a partition of a scan does on one emulated tier.
struct Emulated {
    model: Arc<EmulatedTier>,
    /// Of what is read next.
    pattern: Pattern,
    /// For how long the scan's threads were delayed.
    wait: Time,
}

/// The costs of one partition of one scan.
pub struct PartitionCosts {
    costs: Arc<ScanCosts>,
    count_accesses: bool,
    /// Tiers that are emulated or whose bytes are counted.
    tiers: Vec<TierCharge>,
}

impl PartitionCosts {
    /// Costs that are charged to `costs`; emulated tiers delay also where nothing is counted.
    pub fn new(
        costs: &Arc<ScanCosts>,
        count_accesses: bool,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Self {
        let charge = |(index, tier): (usize, &TierCost)| {
            let bytes_read = count_accesses.then(|| {
                let name = format!("{BYTES_READ_METRIC}{}", tier.name);
                MetricBuilder::new(metrics).counter(name, partition)
            });
            let emulated = tier.model.as_ref().map(|model| {
                let name = format!("{WAIT_METRIC}{}", tier.name);
                Emulated {
                    model: Arc::clone(model),
                    pattern: Pattern::First,
                    wait: MetricBuilder::new(metrics).subset_time(name, partition),
                }
            });
            TierCharge {
                index,
                bytes_read,
                emulated,
            }
        };
        let charges = costs.tiers.iter().enumerate().map(charge);
        Self {
            costs: Arc::clone(costs),
            count_accesses,
            tiers: charges
                .filter(|charge| charge.bytes_read.is_some() || charge.emulated.is_some())
                .collect(),
        }
    }

    /// Costs of looking at a sample while planning: neither counted nor charged.
    pub fn uncounted() -> Self {
        Self {
            costs: Arc::new(ScanCosts { tiers: Vec::new() }),
            count_accesses: false,
            tiers: Vec::new(),
        }
    }

    /// Charges the reading of `rows` of a column.
    pub fn read(&mut self, slot: &ColumnSlot, segment: &ColumnSegment, rows: RowSet<'_>) {
        self.count(slot, rows);
        if !self.tiers.is_empty() {
            self.charge(segment.bytes_read(rows));
        }
    }

    /// Charges what a kernel has streamed of a column to filter `rows`.
    pub fn streamed(
        &mut self,
        slot: &ColumnSlot,
        segment: &ColumnSegment,
        rows: RowSet<'_>,
        probe: &StreamedRun,
    ) {
        self.count(slot, rows);
        if !self.tiers.is_empty() {
            self.charge(segment.tier_bytes_at(probe.take()));
        }
    }

    /// Counts the reading of `rows` of a column from the cache.
    pub fn count(&self, slot: &ColumnSlot, rows: RowSet<'_>) {
        if self.count_accesses {
            slot.record(rows);
        }
    }

    fn charge(&mut self, bytes: TierBytes) {
        for charge in &mut self.tiers {
            let tier = &self.costs.tiers[charge.index];
            let bytes = bytes[tier.id];
            if bytes == 0 {
                continue;
            }
            if let Some(bytes_read) = &charge.bytes_read {
                bytes_read.add(bytes as usize);
                tier.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            }
            if let Some(emulated) = &mut charge.emulated {
                let _waiting = emulated.wait.timer();
                emulated.model.read(emulated.pattern.advance(), bytes);
            }
        }
    }
}
