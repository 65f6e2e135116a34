//! Counters of tier heaps, cheap enough for every allocation.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Cells of one thread each. Threads beyond that count in a cell that they share.
const OWNED: usize = 64;
const SHARED: usize = OWNED;
/// Of a thread that has no cell yet.
const NONE: usize = usize::MAX;

/// A number of its own cache line (two, since processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(AtomicI64);

/// What the heaps of one tier count.
#[derive(Debug)]
pub(crate) struct HeapCounters {
    live_bytes: [Cell; OWNED + 1],
    fallbacks: AtomicU64,
    fallback_bytes: AtomicU64,
}

impl Default for HeapCounters {
    fn default() -> Self {
        Self {
            live_bytes: std::array::from_fn(|_| Cell::default()),
            fallbacks: AtomicU64::new(0),
            fallback_bytes: AtomicU64::new(0),
        }
    }
}

impl HeapCounters {
    /// Counts `bytes` allocated.
    #[inline]
    pub(crate) fn allocated(&self, bytes: usize) {
        let bytes = bytes as i64;
        match CELL.get() {
            own if own < OWNED => self.add_own(own, bytes),
            SHARED => self.add_shared(bytes),
            _ => self.add_first(bytes),
        }
    }

    /// Counts `bytes` freed, by whichever thread.
    #[inline]
    pub(crate) fn freed(&self, bytes: usize) {
        let bytes = -(bytes as i64);
        match CELL.get() {
            own if own < OWNED => self.add_own(own, bytes),
            // A thread that never allocates may end without giving its cell back.
            _ => self.add_shared(bytes),
        }
    }

    #[inline]
    fn add_own(&self, cell: usize, bytes: i64) {
        let live_bytes = &self.live_bytes[cell].0;
        // No other thread writes, so that no addition is lost, and the bus need not be locked.
        live_bytes.store(live_bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    fn add_shared(&self, bytes: i64) {
        self.live_bytes[SHARED].0.fetch_add(bytes, Relaxed);
    }

    #[cold]
    fn add_first(&self, bytes: i64) {
        match claim() {
            SHARED => self.add_shared(bytes),
            own => self.add_own(own, bytes),
        }
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
            .map(|cell| cell.0.load(Relaxed))
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

/// The cells that no thread has, a bit each.
static FREE: AtomicU64 = AtomicU64::new(u64::MAX);

std::thread_local! {
    // Const-initialised and without a destructor, so that an allocator may use it at any time of a thread's life.
    static CELL: std::cell::Cell<usize> = const { std::cell::Cell::new(NONE) };
}

/// Takes a free cell for this thread, or the shared one.
fn claim() -> usize {
    // Pairs with the release of the thread that had the cell: what that has counted is seen.
    let taken = FREE.fetch_update(Acquire, Relaxed, |free| {
        (free != 0).then(|| free & (free - 1))
    });
    let cell = taken.map_or(SHARED, |free| free.trailing_zeros() as usize);
    CELL.set(cell);
    cell
}

/// Gives this thread's cell back. What it still counts goes to the shared one.
pub(crate) fn give_back() {
    let cell = CELL.replace(SHARED);
    if cell < OWNED {
        FREE.fetch_or(1 << cell, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_whatever_threads_there_are() {
        let counters = HeapCounters::default();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for thread in 0..OWNED + 20 {
                    let counters = &counters;
                    scope.spawn(move || {
                        for _ in 0..1_000 {
                            counters.allocated(thread + 2);
                            counters.freed(thread);
                        }
                        give_back();
                        counters.freed(1_000);
                    });
                }
            });
        }
        assert_eq!(counters.live_bytes(), 3 * (OWNED as u64 + 20) * 1_000);
    }

    #[test]
    fn cells_that_were_given_back_are_taken_again() {
        let counters = HeapCounters::default();
        for _ in 0..10 * OWNED {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    counters.allocated(1);
                    give_back();
                });
            });
        }
        assert_eq!(counters.live_bytes(), 10 * OWNED as u64);
        assert!(counters.live_bytes[SHARED].0.load(Relaxed) < OWNED as i64);
    }
}
