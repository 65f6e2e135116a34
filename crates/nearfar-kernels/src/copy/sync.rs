//! Locks of copies, exchanged for loom's where their protocol is checked.

#[cfg(loom)]
pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Locks; a thread that died with the lock has left nothing half done, see [`super::ring`].
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits for a change, or so long that a cancelled caller sees it in time.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    #[cfg(loom)]
    {
        condvar.wait(guard).unwrap()
    }
    #[cfg(not(loom))]
    {
        const TURN: std::time::Duration = std::time::Duration::from_millis(20);
        let waited = condvar.wait_timeout(guard, TURN);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard)
    }
}

/// The value of an `Arc` that has no other owner.
pub(super) fn into_inner<T>(arc: Arc<T>) -> Option<T> {
    #[cfg(loom)]
    {
        Arc::try_unwrap(arc).ok()
    }
    #[cfg(not(loom))]
    {
        Arc::into_inner(arc)
    }
}
