//! What a scan's reads cost: bytes per tier, access counts, time on emulated tiers, and turns where traffic is limited.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use futures::FutureExt;
use futures::future::BoxFuture;
use nearfar_kernels::copy::CopyMethod;
use nearfar_memory::{MemorySystem, TierBytes, TierId};
use nearfar_model::{EmulatedTier, Pattern, Stamp, StreamedRun};
use parking_lot::Mutex;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use super::ahead::{Copiers, CopyEngine};
use super::cooperative::CooperativeScans;
use crate::settings::ReadAheadBy;
use nearfar_table::segment::{ColumnSegment, RowSet};
use nearfar_table::table::ColumnSlot;
use nearfar_table::tier_models::TierModels;
use nearfar_table::traffic::{Task, TierTraffic, TrafficAccount, Turn};

/// The metric of the bytes read from a tier, followed by the tier's name.
pub const BYTES_READ_METRIC: &str = "bytes_read_";

/// The metric of the bytes that were not read from a tier, as another scan had just brought them near, followed by the
/// tier's name.
pub const BYTES_SAVED_METRIC: &str = "bytes_saved_";

/// The metric of the bytes that were brought near of a tier ahead of the scan, followed by the tier's name.
pub const BYTES_AHEAD_METRIC: &str = "bytes_ahead_";

/// The metric of the time for which an emulated tier delayed the scan's threads, followed by the tier's name.
pub const WAIT_METRIC: &str = "modelled_wait_";

/// The tiers of a system, which of them are emulated, and where the bytes are counted that scans read.
#[derive(Debug)]
pub struct ScanCosts {
    tiers: Vec<TierCost>,
    traffic: Arc<TierTraffic>,
    /// None where nothing is far.
    cooperative: Option<Arc<CooperativeScans>>,
    models: TierModels,
    /// Threads that read ahead, by what they copy by.
    copiers: Mutex<Vec<(CopyMethod, Copiers)>>,
}

#[derive(Debug)]
struct TierCost {
    id: TierId,
    name: String,
    model: Option<Arc<EmulatedTier>>,
}

impl ScanCosts {
    /// Costs for the tiers of `system`, of which those are emulated that have one of `models`, and whose
    /// traffic is `traffic`.
    pub fn new(
        system: &Arc<MemorySystem>,
        models: &TierModels,
        traffic: &Arc<TierTraffic>,
    ) -> Arc<Self> {
        let tiers = system
            .tiers()
            .map(|(id, info)| TierCost {
                id,
                name: info.name.clone(),
                model: models.of(id).cloned(),
            })
            .collect();
        Arc::new(Self {
            tiers,
            traffic: Arc::clone(traffic),
            cooperative: (system.tiers().count() > 1).then(|| CooperativeScans::new(system)),
            models: models.clone(),
            copiers: Mutex::default(),
        })
    }

    /// What brings far columns near ahead of scans, if that is `by` what this machine has.
    pub fn engine(&self, by: ReadAheadBy) -> Option<CopyEngine> {
        match by {
            ReadAheadBy::Off => None,
            ReadAheadBy::Auto => {
                let mut models = self.tiers.iter().filter_map(|tier| tier.model.as_ref());
                let keep_up = models.all(|model| model.engines_keep_up());
                (keep_up && !self.models.is_empty()).then_some(CopyEngine::Modelled)
            }
            ReadAheadBy::Threads(method) => self.copier(method),
        }
    }

    /// A thread that copies by `method`, and near memory for what it copies.
    fn copier(&self, method: CopyMethod) -> Option<CopyEngine> {
        let scans = self.cooperative.as_ref()?;
        let mut all = self.copiers.lock();
        let started = all.iter().find(|(of, _)| *of == method);
        let copiers = match started {
            Some((_, copiers)) => copiers,
            None => {
                let started = Copiers::start(method, &self.models);
                let refused = |error: &_| tracing::warn!(%error, "nothing is read ahead");
                all.push((method, started.inspect_err(refused).ok()?));
                &all.last()?.1
            }
        };
        Some(CopyEngine::Copier(copiers.sender(), Arc::clone(scans)))
    }

    /// The scans of the engine that read far data now. None where there is only one tier.
    pub fn cooperative(&self) -> Option<&Arc<CooperativeScans>> {
        self.cooperative.as_ref()
    }

    /// Bytes that statements have read of the tables on `tier` so far.
    pub fn bytes_read(&self, tier: TierId) -> u64 {
        self.traffic.bytes_read(tier)
    }

    /// What is moved to and from the tiers.
    pub fn traffic(&self) -> &Arc<TierTraffic> {
        &self.traffic
    }
}

/// Whose reads they are, and what for.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Where they are counted.
    pub account: Arc<TrafficAccount>,
    /// What for.
    pub task: Task,
}

/// What one partition of a scan has read from one tier.
struct TierCharge {
    /// Of [`ScanCosts::tiers`].
    index: usize,
    /// Nothing where the scan is not to count.
    bytes_read: Option<Count>,
    /// Made once there are any: no scan of near data has them.
    bytes_saved: Option<Count>,
    /// As well.
    bytes_ahead: Option<Count>,
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

/// When what engines of emulated tiers read is there, by the place of the tier among those of a partition.
#[derive(Debug, Default)]
pub struct Arrival(Vec<(usize, Stamp)>);

/// The costs of one partition of one scan.
pub struct PartitionCosts {
    costs: Arc<ScanCosts>,
    count_accesses: bool,
    /// Tiers that are emulated or whose bytes are counted.
    tiers: Vec<TierCharge>,
    /// Nobody where nothing is counted.
    reader: Option<Reader>,
    /// What was read since it was settled.
    unsettled: TierBytes,
    /// What was not read since then, as another scan had brought it near.
    saved: TierBytes,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    /// Whether bytes are of interest.
    is_charged: bool,
}

impl PartitionCosts {
    /// Costs that are charged to `costs`; emulated tiers delay also where nothing is counted.
    pub fn new(
        costs: &Arc<ScanCosts>,
        (count_accesses, reader): (bool, Reader),
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
                bytes_saved: None,
                bytes_ahead: None,
                emulated,
            }
        };
        let charges = costs.tiers.iter().enumerate().map(charge);
        let tiers: Vec<TierCharge> = charges
            .filter(|charge| charge.bytes_read.is_some() || charge.emulated.is_some())
            .collect();
        Self {
            costs: Arc::clone(costs),
            count_accesses,
            is_charged: !tiers.is_empty() || costs.traffic.limit().is_some(),
            tiers,
            reader: Some(reader),
            unsettled: TierBytes::ZERO,
            saved: TierBytes::ZERO,
            metrics: metrics.clone(),
            partition,
        }
    }

    /// Costs of looking at a sample while planning: neither counted nor charged.
    pub fn uncounted() -> Self {
        static NONE: LazyLock<Arc<ScanCosts>> = LazyLock::new(|| {
            Arc::new(ScanCosts {
                tiers: Vec::new(),
                traffic: Arc::default(),
                cooperative: None,
                models: TierModels::default(),
                copiers: Mutex::default(),
            })
        });
        Self {
            count_accesses: false,
            tiers: Vec::new(),
            reader: None,
            costs: Arc::clone(&NONE),
            unsettled: TierBytes::ZERO,
            saved: TierBytes::ZERO,
            metrics: ExecutionPlanMetricsSet::new(),
            partition: 0,
            is_charged: false,
        }
    }

    /// The turn of a scan that has read nothing yet and begins with what `tiers` gives.
    pub fn begin(&self, tiers: impl FnOnce() -> TierBytes) -> Option<Turn> {
        let Reader { account, task } = self.reader.as_ref()?;
        match task {
            Task::Point => None,
            _ if account.traffic().limit().is_none() => None,
            task => account.turn_behind_others(*task, &tiers()),
        }
    }

    /// Whether far bandwidth is limited.
    pub fn is_limited(&self) -> bool {
        let mut reader = self.reader.iter();
        reader.any(|reader| reader.account.traffic().limit().is_some())
    }

    /// Counts what was read since this was last called, and returns the turn that is to be waited for
    /// before more is read, if there is one.
    pub fn settle(&mut self) -> Option<Turn> {
        let Reader { account, task } = self.reader.as_ref()?;
        let is_limited = account.traffic().limit().is_some();
        if !self.is_charged && !is_limited {
            return None;
        }
        self.is_charged |= is_limited;
        let bytes = std::mem::take(&mut self.unsettled);
        if self.count_accesses || is_limited {
            account.read(*task, &bytes);
            account.saved(*task, &std::mem::take(&mut self.saved));
        }
        match task {
            Task::Point => None,
            task => account.turn(*task, &bytes),
        }
    }

    /// Charges the reading of `rows` of a column.
    pub fn read(&mut self, slot: &ColumnSlot, segment: &ColumnSegment, rows: RowSet<'_>) {
        self.count(slot, rows);
        if self.is_charged {
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
        if self.is_charged {
            self.charge(segment.tier_bytes_at(probe.take()));
        }
    }

    /// Charges what was read of a far column to copy it near.
    pub fn copied(&mut self, bytes: TierBytes) {
        if self.is_charged {
            self.charge(bytes);
        }
    }

    /// Counts what was not read of far columns, as another scan had just brought them near.
    pub fn saved(&mut self, bytes: TierBytes) {
        self.saved += bytes;
        for charge in &mut self.tiers {
            let tier = &self.costs.tiers[charge.index];
            let saved = bytes[tier.id];
            if saved == 0 || charge.bytes_read.is_none() {
                continue;
            }
            let counted = charge.bytes_saved.get_or_insert_with(|| {
                let name = format!("{BYTES_SAVED_METRIC}{}", tier.name);
                MetricBuilder::new(&self.metrics).counter(name, self.partition)
            });
            counted.add(saved as usize);
        }
    }

    /// Counts the reading of `rows` of a column from the cache.
    pub fn count(&self, slot: &ColumnSlot, rows: RowSet<'_>) {
        if self.count_accesses {
            slot.record(rows);
        }
    }

    /// Has the engines of emulated tiers read `bytes` ahead, and moves the `arrival` to where these are there.
    pub fn read_ahead(&mut self, bytes: TierBytes, arrival: &mut Arrival) {
        self.copied_ahead(bytes);
        for (place, charge) in self.tiers.iter().enumerate() {
            let bytes = bytes[self.costs.tiers[charge.index].id];
            let Some(Emulated { model, .. }) = charge.emulated.as_ref().filter(|_| bytes > 0)
            else {
                continue;
            };
            if let Some(at) = model.read_by_engines(bytes) {
                arrival.0.retain(|(earlier, _)| *earlier != place);
                arrival.0.push((place, at));
            }
        }
    }

    /// Counts what was brought near of far columns ahead.
    pub fn copied_ahead(&mut self, bytes: TierBytes) {
        self.unsettled += bytes;
        for charge in &mut self.tiers {
            let tier = &self.costs.tiers[charge.index];
            let Some(bytes_read) = charge.bytes_read.as_ref().filter(|_| bytes[tier.id] > 0) else {
                continue;
            };
            bytes_read.add(bytes[tier.id] as usize);
            let counted = charge.bytes_ahead.get_or_insert_with(|| {
                let name = format!("{BYTES_AHEAD_METRIC}{}", tier.name);
                MetricBuilder::new(&self.metrics).counter(name, self.partition)
            });
            counted.add(bytes[tier.id] as usize);
        }
    }

    /// What ends when all that engines have read is there. None where it is.
    pub fn waits_for(&self, arrival: &Arrival) -> Option<BoxFuture<'static, ()>> {
        let tiers = arrival.0.iter().filter_map(|(place, at)| {
            let emulated = self.tiers[*place].emulated.as_ref()?;
            let is_there = emulated.model.now() >= *at;
            (!is_there).then(|| (Arc::clone(&emulated.model), *at, emulated.wait.clone()))
        });
        let (model, at, wait) = tiers.max_by_key(|(_, at, _)| *at)?;
        Some(
            async move {
                let began = Instant::now();
                // Others have the thread, as they would while an engine works.
                while model.now() < at {
                    tokio::task::yield_now().await;
                }
                wait.add_elapsed(began);
            }
            .boxed(),
        )
    }

    fn charge(&mut self, bytes: TierBytes) {
        self.unsettled += bytes;
        for charge in &mut self.tiers {
            let tier = &self.costs.tiers[charge.index];
            let bytes = bytes[tier.id];
            if bytes == 0 {
                continue;
            }
            if let Some(bytes_read) = &charge.bytes_read {
                bytes_read.add(bytes as usize);
            }
            if let Some(emulated) = &mut charge.emulated {
                let _waiting = emulated.wait.timer();
                emulated.model.read(emulated.pattern.advance(), bytes);
            }
        }
    }
}
