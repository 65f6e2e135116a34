//! What the temporary tables of one session take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::TemporaryLimit;
use crate::traffic::SessionId;

/// The memory of one session's temporary tables: their segments on all tiers, deltas and versions
/// that a query still reads included.
#[derive(Debug)]
pub struct TemporaryBudget {
    session: SessionId,
    /// [`Self::UNLIMITED`] where there is no limit.
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl TemporaryBudget {
    /// No limit but the tiers' budgets.
    pub const UNLIMITED: u64 = u64::MAX;

    /// The budget of a session whose tables may take `limit_bytes`.
    pub fn new(session: SessionId, limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            session,
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Whose it is.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The most that the tables may take.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Relaxed)
    }

    /// What they take.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Sets the limit. What is taken already stays, even if it is more.
    pub fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Relaxed);
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    /// [`TemporaryLimit`]; nothing is taken then.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: u64) -> Result<TemporaryBytes, TemporaryLimit> {
        let limit_bytes = self.limit_bytes();
        let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        match self.used_bytes.fetch_update(Relaxed, Relaxed, sum) {
            Ok(_) => Ok(TemporaryBytes {
                budget: Arc::clone(self),
                bytes,
            }),
            Err(used_bytes) => Err(TemporaryLimit {
                requested_bytes: bytes,
                used_bytes,
                limit_bytes,
            }),
        }
    }

    /// Takes `bytes` whatever the limit, for what replaces as much in a moment.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> TemporaryBytes {
        self.used_bytes.fetch_add(bytes, Relaxed);
        TemporaryBytes {
            budget: Arc::clone(self),
            bytes,
        }
    }
}

/// Bytes of a budget, given back when they are dropped.
#[derive(Debug)]
pub struct TemporaryBytes {
    budget: Arc<TemporaryBudget>,
    bytes: u64,
}

impl Drop for TemporaryBytes {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_the_limit_holds() {
        let budget = TemporaryBudget::new(7, 100);
        let first = budget.try_take(60).expect("room");
        let refused = budget.try_take(41).expect_err("no room");
        assert_eq!(
            refused,
            TemporaryLimit {
                requested_bytes: 41,
                used_bytes: 60,
                limit_bytes: 100
            }
        );
        let beyond = budget.take(60);
        assert_eq!(budget.used_bytes(), 120);
        drop((first, beyond));
        assert_eq!(budget.used_bytes(), 0);
        budget.set_limit_bytes(10);
        budget.try_take(11).expect_err("the new limit");
    }
}
