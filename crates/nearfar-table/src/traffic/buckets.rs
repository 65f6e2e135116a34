//! The token buckets of all tiers.

use nearfar_memory::{MAX_TIERS, TierId};
use nearfar_regulate::bucket::TokenBucket;

/// What may be moved in a burst, as a time at the full rate: timers wake late by about a millisecond, and
/// what comes meanwhile is not lost.
const BURST_S: f64 = 0.02;

/// What can be owed at most, as a time at the full rate. Statements that are given up leave what they have moved to
/// others to wait for, and those that spill never wait for what they write.
const DEBT_MAX_S: f64 = 60.0;

/// A bucket for each tier, once it is asked for.
#[derive(Debug, Default)]
pub(super) struct Buckets([Option<TokenBucket>; MAX_TIERS]);

impl Buckets {
    /// The bucket of `tier`, with this rate from now on.
    pub(super) fn of(&mut self, tier: TierId, now_s: f64, bytes_per_s: f64) -> &mut TokenBucket {
        let burst_bytes = bytes_per_s * BURST_S;
        let new = || TokenBucket::new(bytes_per_s, burst_bytes);
        let bucket = self.0[tier.index()].get_or_insert_with(new);
        bucket.set_rate(now_s, bytes_per_s, burst_bytes);
        bucket.forgive(now_s, DEBT_MAX_S);
        bucket
    }
}
