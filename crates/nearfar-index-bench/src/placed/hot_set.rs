//! What a workload uses most, beside the last-level cache.

use crate::workload::{Distribution, Workload};

/// The leaves that most requests go to, with their part of the nodes above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotSet {
    /// Their bytes.
    pub bytes: u64,
    /// The modelled machine's last-level cache.
    pub last_level_bytes: u64,
}

/// The share of the requests that go to the hot set.
pub const HOT_REQUESTS_SHARE: f64 = 0.9;

impl HotSet {
    /// The hot set of a workload over so many keys, each of which stands for so many by their popularity, in a tree of
    /// so many leaves and bytes; none of a trace, whose popularity nobody knows.
    pub(crate) fn new(
        workload: &Workload,
        (keys, ranks_per_key): (u64, u64),
        (leaves, tree_bytes): (u64, u64),
        last_level_bytes: u64,
    ) -> Option<Self> {
        if workload.replay.is_some() {
            return None;
        }
        let hot_keys = workload
            .distribution
            .popular_keys(keys, ranks_per_key, HOT_REQUESTS_SHARE);
        let leaves = leaves.max(1) as f64;
        let share = match workload.distribution {
            Distribution::HotRegion(_) => hot_keys as f64 / keys.max(1) as f64,
            // Popular keys lie anywhere: the expected share of the leaves that have at least one.
            Distribution::Uniform | Distribution::Zipf { .. } | Distribution::Latest { .. } => {
                1.0 - (1.0 - 1.0 / leaves).powf(hot_keys as f64)
            }
        };
        Some(Self {
            bytes: (tree_bytes as f64 * share.min(1.0)) as u64,
            last_level_bytes,
        })
    }

    /// Its bytes over those of the last-level cache.
    #[must_use]
    pub fn over_last_level(&self) -> f64 {
        self.bytes as f64 / self.last_level_bytes.max(1) as f64
    }

    /// What its size means for placement, with so many bytes of near memory.
    #[must_use]
    pub fn meaning(&self, near_bytes: u64) -> &'static str {
        if self.bytes <= self.last_level_bytes {
            "it fits that cache, which serves most of what is asked for wherever it lies: placement has little to gain"
        } else if self.bytes <= near_bytes {
            "it is larger than that cache and fits near memory: placement decides where most of what is asked for comes \
             from"
        } else {
            "it is larger than near memory: no placement has all of it near"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot_set(workload: &str, keys: u64, ranks_per_key: u64) -> HotSet {
        let workload = Workload::named(workload).unwrap();
        HotSet::new(
            &workload,
            (keys, ranks_per_key),
            (keys / 10, keys * 30),
            1 << 20,
        )
        .unwrap()
    }

    #[test]
    fn a_hot_region_is_its_share_of_the_tree_and_popular_keys_make_their_leaves_hot() {
        let region = hot_set("hotspot-read-only", 1_000_000, 1);
        assert_eq!(region.bytes, 1_500_000);
        assert!((region.over_last_level() - 1.43).abs() < 0.01);
        let zipf = hot_set("ycsb-c", 1_000_000, 1);
        // Nine tenths of the requests go to a quarter of the keys, which lie in nearly all leaves of ten.
        assert!(
            (25_000_000..30_000_000).contains(&zipf.bytes),
            "{}",
            zipf.bytes
        );
        // The more keys a key stands for, the fewer are popular.
        let standing = hot_set("ycsb-c", 1_000_000, 1_000);
        assert!(standing.bytes < zipf.bytes, "{}", standing.bytes);
    }

    #[test]
    fn what_it_means_follows_from_the_two_sizes_that_it_lies_between() {
        let region = hot_set("hotspot-read-only", 1_000_000, 1);
        assert!(region.meaning(1 << 30).contains("placement decides"));
        assert!(region.meaning(1_500_000).contains("placement decides"));
        assert!(region.meaning(1_400_000).contains("no placement"));
        let small = hot_set("hotspot-read-only", 100_000, 1);
        assert!(small.meaning(1 << 30).contains("little to gain"));
    }
}
