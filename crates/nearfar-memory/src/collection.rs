//! Having mimalloc give back what tier heaps have freed.

use std::sync::{Mutex, PoisonError};

use libmimalloc_sys as mimalloc;

/// Gives back what heaps have freed and no thread holds on to.
pub(crate) fn collect() {
    // SAFETY: mimalloc allows this at any time, from any thread.
    collect_by(|| unsafe { mimalloc::mi_collect(true) });
}

/// Runs one of mimalloc's forced collections: one at a time, since mimalloc skips one that meets
/// another.
pub(crate) fn collect_by(collection: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    collection();
}
