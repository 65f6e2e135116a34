//! Counters of tier heaps, cheap enough for every allocation.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Cells that threads spread over, so that they seldom share a cache line.
const SHARDS: usize = 32;

/// A number of its own cache line (two, since processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(AtomicI64);

/// What the heaps of one tier count.
#[derive(Debug, Default)]
pub(crate) struct HeapCounters {
    live_bytes: [Shard; SHARDS],
    fallbacks: AtomicU64,
    fallback_bytes: AtomicU64,
}

impl HeapCounters {
    /// Counts `bytes` allocated; one add to a line that is almost always this thread's own.
    #[inline]
    pub(crate) fn allocated(&self, bytes: usize) {
        self.live_bytes[shard()].0.fetch_add(bytes as i64, Relaxed);
    }

    /// Counts `bytes` freed, by whichever thread.
    #[inline]
    pub(crate) fn freed(&self, bytes: usize) {
        self.live_bytes[shard()].0.fetch_sub(bytes as i64, Relaxed);
    }

    /// Counts an allocation that went elsewhere.
    pub(crate) fn fell_back(&self, bytes: usize) {
        self.fallbacks.fetch_add(1, Relaxed);
        self.fallback_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes allocated and not freed; exact when nobody allocates meanwhile.
    pub(crate) fn live_bytes(&self) -> u64 {
        let sum: i64 = self
            .live_bytes
            .iter()
            .map(|shard| shard.0.load(Relaxed))
            .sum();
        u64::try_from(sum).unwrap_or(0)
    }

    pub(crate) fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Relaxed)
    }

    pub(crate) fn fallback_bytes(&self) -> u64 {
        self.fallback_bytes.load(Relaxed)
    }
}

/// This thread's shard: dealt out at first use. Const-initialised and without a destructor, so that
/// an allocator may use it at any time of a thread's life.
#[inline]
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static SHARD: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
    }
    let shard = SHARD.get();
    if shard < SHARDS {
        return shard;
    }
    let dealt = NEXT.fetch_add(1, Relaxed) % SHARDS;
    SHARD.set(dealt);
    dealt
}
