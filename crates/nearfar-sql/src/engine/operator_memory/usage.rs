//! What one operator does to its heap, and what that would cost on an emulated tier.

use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};
use nearfar_memory::TierId;
use nearfar_model::{EmulatedTier, HeapAccess};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The metric of the time for which threads were delayed.
pub const WAIT_METRIC: &str = "modelled_estimate_wait";

/// Cache that one thread can count on where the profile does not know its machine's: the private
/// second-level cache of a server's core.
const UNKNOWN_CACHE_BYTES_PER_THREAD: u64 = 1 << 20;

/// An operator that keeps rows on the heap.
///
/// | operator | accesses charged at random, per row | bytes charged as streams |
/// |---|---|---|
/// | hash join | building: a write of the table; probing: a read of the table; yielding: a read per column of the build side | rows of the build side, written |
/// | aggregation | a read of the table (its slot and key) and a write (its state) | its results, read |
/// | sort | none | rows, written and read |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// A hash join.
    HashJoin {
        /// Whether all partitions probe one table.
        shared_table: bool,
        /// Columns of its output that are read from the build side.
        build_columns: u64,
    },
    /// An aggregation by hash.
    Aggregation,
    /// A sort of all rows.
    Sort,
}

impl Operator {
    /// Whether what it yields was kept on the heap, and is read from there in order.
    pub fn yields_in_order(self) -> bool {
        matches!(self, Self::Aggregation | Self::Sort)
    }

    /// Whether it keeps the rows of an input on the heap, of a join's build side or of another's.
    pub fn keeps_in_order(self, is_build: bool) -> bool {
        match self {
            Self::HashJoin { .. } => is_build,
            Self::Aggregation => false,
            Self::Sort => true,
        }
    }
}

/// One operator's use of the heap, in all its partitions.
#[derive(Debug)]
pub struct Usage {
    /// The heap's tier.
    pub tier: TierId,
    /// Its name.
    pub tier_name: String,
    /// The operator.
    pub operator: Operator,
    /// The model, where the tier is emulated.
    pub model: Option<Arc<EmulatedTier>>,
    /// Metrics of the operator's heap.
    pub metrics: ExecutionPlanMetricsSet,
    partitions: Vec<Partition>,
    /// Whether the rows of a shared table were charged.
    shared_build_charged: AtomicBool,
}

#[derive(Debug, Default)]
struct Partition {
    /// What the operator accounts for in the query's memory.
    held_bytes: Arc<AtomicU64>,
    metrics: OnceLock<OperatorMetrics>,
    built_rows: AtomicU64,
    /// Whether a join has all its rows in the table and yields results.
    is_probing: AtomicBool,
}

impl Usage {
    /// The use of the heap on `tier` by `operator`, which runs in `partitions` partitions.
    pub fn new(
        (tier, tier_name): (TierId, String),
        model: Option<Arc<EmulatedTier>>,
        operator: Operator,
        partitions: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            tier,
            tier_name,
            operator,
            model,
            metrics: ExecutionPlanMetricsSet::new(),
            partitions: (0..partitions.max(1))
                .map(|_| Partition::default())
                .collect(),
            shared_build_charged: AtomicBool::new(false),
        })
    }

    fn partition(&self, partition: usize) -> &Partition {
        &self.partitions[partition % self.partitions.len()]
    }

    /// Where the bytes are kept that the operator accounts for in `partition`.
    pub fn held_bytes(&self, partition: usize) -> Arc<AtomicU64> {
        Arc::clone(&self.partition(partition).held_bytes)
    }

    /// Counts rows that go into the table of `partition`.
    pub fn add_built_rows(&self, partition: usize, rows: u64) {
        self.partition(partition)
            .built_rows
            .fetch_add(rows, Relaxed);
    }

    /// Says that the table of `partition` is whole; whether that is news.
    pub fn begin_probing(&self, partition: usize) -> bool {
        !self.partition(partition).is_probing.swap(true, Relaxed)
    }

    /// Whether the operator makes results and no longer its table.
    pub fn is_probing(&self, partition: usize) -> bool {
        self.partition(partition).is_probing.load(Relaxed)
    }

    /// Accesses of building the table that `partition` probes; nothing where another partition has
    /// been charged for it.
    pub fn building(&self, partition: usize) -> HeapAccess {
        let rows = |p: &Partition| p.built_rows.load(Relaxed);
        let rows = match self.operator {
            Operator::HashJoin {
                shared_table: true, ..
            } => {
                if self.shared_build_charged.swap(true, Relaxed) {
                    return HeapAccess::default();
                }
                self.partitions.iter().map(rows).sum()
            }
            _ => rows(self.partition(partition)),
        };
        self.access(partition, 0, rows)
    }

    /// Accesses for `rows` that go into the operator in `partition`, beside those of building.
    pub fn input(&self, partition: usize, rows: u64) -> HeapAccess {
        match self.operator {
            Operator::HashJoin { .. } => self.access(partition, rows, 0),
            Operator::Aggregation => self.access(partition, rows, rows),
            Operator::Sort => HeapAccess::default(),
        }
    }

    /// Accesses for `rows` that the operator yields in `partition`.
    pub fn output(&self, partition: usize, rows: u64) -> HeapAccess {
        match self.operator {
            Operator::HashJoin { build_columns, .. } => {
                self.access(partition, rows * build_columns, 0)
            }
            Operator::Aggregation | Operator::Sort => HeapAccess::default(),
        }
    }

    /// Accesses to the table of `partition`. A table of all partitions counts on the whole cache
    /// of the threads in use, one of a partition on its part.
    fn access(&self, partition: usize, random_reads: u64, random_writes: u64) -> HeapAccess {
        let threads = self.partitions.len() as u64;
        let all_cache = self
            .model
            .as_ref()
            .and_then(|model| model.cache_share_bytes());
        let all_cache = all_cache.unwrap_or(UNKNOWN_CACHE_BYTES_PER_THREAD * threads);
        let held = |p: &Partition| p.held_bytes.load(Relaxed);
        let (table_bytes, cache_bytes) = match self.operator {
            Operator::HashJoin {
                shared_table: true, ..
            } => (self.partitions.iter().map(held).sum(), all_cache),
            _ => (held(self.partition(partition)), all_cache / threads),
        };
        HeapAccess {
            random_reads,
            random_writes,
            table_bytes,
            cache_bytes,
        }
    }

    /// The metrics of `partition`.
    pub fn partition_metrics(&self, partition: usize) -> OperatorMetrics {
        let builder = || MetricBuilder::new(&self.metrics);
        let metrics = self
            .partition(partition)
            .metrics
            .get_or_init(|| OperatorMetrics {
                wait: self
                    .model
                    .as_ref()
                    .map(|_| builder().subset_time(WAIT_METRIC, partition)),
                held_bytes_max: builder().gauge("heap_bytes", partition),
            });
        metrics.clone()
    }
}

/// Metrics of the heap of one partition of an operator.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    /// Time for which its threads were delayed, on an emulated tier.
    pub wait: Option<Time>,
    /// The most that it accounted for.
    pub held_bytes_max: Gauge,
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: Operator = Operator::HashJoin {
        shared_table: false,
        build_columns: 3,
    };
    const SHARED: Operator = Operator::HashJoin {
        shared_table: true,
        build_columns: 1,
    };

    fn usage(operator: Operator) -> Arc<Usage> {
        let usage = Usage::new((TierId::NEAR, "near".to_owned()), None, operator, 2);
        usage.held_bytes(0).store(100, Relaxed);
        usage.held_bytes(1).store(30, Relaxed);
        usage.add_built_rows(0, 10);
        usage.add_built_rows(1, 5);
        usage
    }

    fn counts(access: HeapAccess) -> (u64, u64, u64) {
        (
            access.random_reads,
            access.random_writes,
            access.table_bytes,
        )
    }

    #[test]
    fn partitions_of_a_join_have_their_own_tables() {
        let usage = usage(JOIN);
        assert_eq!(counts(usage.building(0)), (0, 10, 100));
        assert_eq!(counts(usage.building(1)), (0, 5, 30));
        assert_eq!(counts(usage.input(1, 7)), (7, 0, 30));
        assert_eq!(counts(usage.output(1, 7)), (21, 0, 30));
        assert_eq!(
            usage.input(0, 1).cache_bytes,
            UNKNOWN_CACHE_BYTES_PER_THREAD
        );
    }

    #[test]
    fn a_shared_table_is_charged_once_and_as_a_whole() {
        let usage = usage(SHARED);
        assert_eq!(counts(usage.building(1)), (0, 15, 130));
        assert_eq!(usage.building(0), HeapAccess::default());
        assert_eq!(
            usage.input(0, 1).cache_bytes,
            2 * UNKNOWN_CACHE_BYTES_PER_THREAD
        );
    }

    #[test]
    fn aggregations_read_and_write_sorts_do_neither_at_random() {
        assert_eq!(
            counts(usage(Operator::Aggregation).input(0, 4)),
            (4, 4, 100)
        );
        assert_eq!(usage(Operator::Sort).input(0, 4), HeapAccess::default());
    }

    #[test]
    fn probing_begins_once_per_partition() {
        let usage = usage(JOIN);
        assert!(!usage.is_probing(0));
        assert!(usage.begin_probing(0));
        assert!(!usage.begin_probing(0));
        assert!(usage.is_probing(0) && !usage.is_probing(1));
    }
}
