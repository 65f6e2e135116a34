//! Cancellation of operators and copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cancels joins and copies from any thread. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends all joins, copies and waits within 100 ms.
    pub fn cancel(&self) {
        // Nothing else is told by it.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
