//! The atomics of the lock, exchanged for loom's where its protocol is checked.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Lets others run in a wait loop.
#[inline]
pub(crate) fn pause(turn: u32) {
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if turn < 64 && !cfg!(miri) {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
