//! Cancellation of operators and copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of which operators that can be cancelled do the work between two looks at whether to go on: some milliseconds
/// in far memory, and whole words of a selection.
pub(crate) const PART_ROWS: usize = 16 << 10;

/// Cancels operators and copies from any thread. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// Somebody has cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operator was cancelled")]
pub struct Cancelled;

impl Cancel {
    /// Ends all operators, copies and waits within 100 ms.
    pub fn cancel(&self) {
        // Nothing else is told by it.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends work that was cancelled.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        match self.is_cancelled() {
            true => Err(Cancelled),
            false => Ok(()),
        }
    }
}
