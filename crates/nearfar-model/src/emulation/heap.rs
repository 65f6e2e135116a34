//! The estimate that stands for random accesses to a hash table on the far tier.

use std::time::Duration;

use super::parameters::EmulationParameters;
use crate::CACHE_LINE_BYTES;

/// Share of a core's outstanding random reads that independent probes of a hash table really
/// keep in flight.
///
/// A core's fill buffers (15 to 16 lines: 1.9 GB/s of random 64 B reads at 507 ns, weisgut-2025,
/// section 4.2) are filled by loops that do nothing but load. A probe of a join or an aggregate is
/// 60 to 70 instructions (hash, bucket, key comparison, chain, output), so that a window of 512
/// instructions holds seven or eight of them: half of the fill buffers.
pub const OVERLAP_SHARE: f64 = 0.5;

/// Random accesses that a join or an aggregate made to its table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapAccess {
    /// Reads at random places of the table, such as probes.
    pub random_reads: u64,
    /// Writes at random places of the table, such as inserts and updates of aggregates.
    pub random_writes: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of cache that the table can count on: the last-level cache divided by those who use
    /// it at the same time.
    pub cache_bytes: u64,
}

impl HeapAccess {
    /// Share of the accesses that miss the cache: with accesses spread evenly, the share of the
    /// table that does not fit. Zero for an empty table.
    pub fn miss_share(&self) -> f64 {
        if self.table_bytes == 0 {
            return 0.0;
        }
        (1.0 - self.cache_bytes as f64 / self.table_bytes as f64).max(0.0)
    }
}

/// What the accesses would take longer on the far tier than on the near one.
///
/// Far: `misses x far latency / overlap`, but not faster than the lines can pass the link: one
/// line in per miss, and one line out per missed write (a write fetches the line and later writes
/// it back). Near: `misses x near latency / overlap`, which running over near memory has taken
/// already.
pub(crate) fn estimate(
    access: &HeapAccess,
    parameters: &EmulationParameters,
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
) -> Duration {
    let miss_share = access.miss_share();
    let read_misses = access.random_reads as f64 * miss_share;
    let write_misses = access.random_writes as f64 * miss_share;
    let misses = read_misses + write_misses;
    let overlap = (parameters.outstanding_random * OVERLAP_SHARE).max(1.0);
    let line = CACHE_LINE_BYTES as f64;
    let far_ns = (misses * parameters.latency_ns / overlap)
        .max(misses * line * read_ns_per_byte)
        .max(write_misses * line * write_ns_per_byte);
    let near_ns = misses * parameters.near_latency_ns / overlap;
    let extra_ns = (far_ns - near_ns).max(0.0);
    Duration::try_from_secs_f64(extra_ns * 1e-9).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulation::parameters::tests::example;

    const FAST_LINK: f64 = 1e-6;

    fn access() -> HeapAccess {
        HeapAccess {
            random_reads: 1_000_000,
            random_writes: 0,
            table_bytes: 400 << 20,
            cache_bytes: 100 << 20,
        }
    }

    #[test]
    fn a_table_that_fits_the_cache_costs_nothing() {
        let fits = HeapAccess {
            table_bytes: 100 << 20,
            ..access()
        };
        assert_eq!(
            estimate(&fits, &example(), FAST_LINK, FAST_LINK),
            Duration::ZERO
        );
        let empty = HeapAccess {
            table_bytes: 0,
            ..access()
        };
        assert_eq!(
            estimate(&empty, &example(), FAST_LINK, FAST_LINK),
            Duration::ZERO
        );
    }

    #[test]
    fn latency_bound_probes_pay_the_difference_divided_by_their_overlap() {
        // 750,000 misses x (500 - 150) ns / 8.
        let extra = estimate(&access(), &example(), FAST_LINK, FAST_LINK);
        assert_eq!(extra.as_nanos(), 32_812_500);
    }

    #[test]
    fn a_narrow_link_bounds_the_probes() {
        // 750,000 misses x 64 B at 1 GB/s, less the near time of 750,000 x 150 ns / 8.
        let extra = estimate(&access(), &example(), 1.0, FAST_LINK);
        assert_eq!(extra.as_nanos(), 48_000_000 - 14_062_500);
    }

    #[test]
    fn writes_load_both_directions() {
        let writes = HeapAccess {
            random_reads: 0,
            random_writes: 1_000_000,
            ..access()
        };
        let read_bound = estimate(&writes, &example(), 1.0, FAST_LINK);
        let write_bound = estimate(&writes, &example(), FAST_LINK, 1.0);
        assert_eq!(read_bound, write_bound);
        assert!(read_bound > estimate(&writes, &example(), FAST_LINK, FAST_LINK));
    }

    #[test]
    fn a_tier_as_near_as_the_near_one_costs_nothing() {
        let parameters = EmulationParameters {
            latency_ns: 150.0,
            ..example()
        };
        assert_eq!(
            estimate(&access(), &parameters, FAST_LINK, FAST_LINK),
            Duration::ZERO
        );
    }
}
