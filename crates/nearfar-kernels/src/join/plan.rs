//! How a join is run, by the size of its build side and the tier that it is on.

use super::partition::PARTITIONS_LOG2_MAX;
use super::probing::Probing;
use crate::line::Line;

/// What is known of the memory of a build table, and of the caches before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinTier {
    /// Latency of a read, in nanoseconds.
    pub latency_ns: f64,
    /// Independent reads that a core has under way.
    pub outstanding: f64,
    /// Bytes of the caches that a thread has for the table: its share of the last level.
    pub cache_bytes: usize,
}

impl JoinTier {
    /// Near memory of a server: 110 ns, 16 reads under way, and 2 MiB of caches for each thread.
    pub const NEAR: Self = Self {
        latency_ns: 110.0,
        outstanding: 16.0,
        cache_bytes: 2 << 20,
    };
}

/// How a join is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinPlan {
    /// Both sides are divided into `1 << partitions_log2` partitions; 0 for none.
    pub partitions_log2: u32,
    /// A filter is asked before the table.
    pub is_filtered: bool,
    /// How lookups are made.
    pub probing: Probing,
}

/// Core time to divide one row of the probe side and to look it up among few, in nanoseconds: read twice,
/// written once, read again (assumed).
const PARTITION_NS: f64 = 8.0;
/// Bytes of a partition's table: it stays in the second-level cache.
const PARTITION_BYTES: usize = 512 << 10;
/// Latency from which on a filter is asked before the table, in nanoseconds: a table in near memory takes
/// little longer than the filter.
const FILTER_FROM_NS: f64 = 200.0;

impl JoinPlan {
    /// The plan for a build side of so many rows whose table would be on this tier.
    ///
    /// A lookup in a table that the caches do not hold takes a latency divided by the reads under way. If
    /// that is longer than what it takes to divide a row, both sides are divided: then far memory is only
    /// read in order, and the tables are in the caches.
    ///
    /// ```
    /// use nearfar_kernels::{JoinPlan, JoinTier};
    ///
    /// let far = JoinTier { latency_ns: 500.0, ..JoinTier::NEAR };
    /// assert_eq!(JoinPlan::choose(10_000, far).partitions_log2, 0, "in the caches");
    /// assert_eq!(JoinPlan::choose(10_000_000, JoinTier::NEAR).partitions_log2, 0);
    /// assert!(JoinPlan::choose(10_000_000, far).partitions_log2 > 6);
    /// ```
    pub fn choose(build_rows: usize, tier: JoinTier) -> Self {
        let table_bytes = Line::count_for(build_rows) * size_of::<Line>();
        let probing = Probing::default();
        if table_bytes <= tier.cache_bytes {
            return Self {
                probing,
                ..Self::default()
            };
        }
        let lookup_ns = tier.latency_ns / tier.outstanding.max(1.0);
        let partitions = table_bytes.div_ceil(PARTITION_BYTES).next_power_of_two();
        let is_divided = lookup_ns > PARTITION_NS;
        Self {
            partitions_log2: if is_divided {
                partitions.ilog2().min(PARTITIONS_LOG2_MAX)
            } else {
                0
            },
            is_filtered: !is_divided && tier.latency_ns >= FILTER_FROM_NS,
            probing,
        }
    }
}
