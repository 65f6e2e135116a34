//! The account of one tier: an exact count that many threads change without meeting.
//!
//! A budget is handed out in credits: a thread's cell takes a chunk from the tier's pool and serves
//! allocations from it, so that most of them touch a line of their own. What was handed out never
//! exceeds the budget; what is used is what was handed out less what the cells still hold.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Purpose;
use crate::count::{CELLS, cell_index};

/// What a cell takes in one step, where there is plenty.
const CHUNK_BYTES: u64 = 32 << 10;
/// What a cell keeps at most.
const KEEP_BYTES: u64 = 4 * CHUNK_BYTES;

/// Bytes of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierLedger {
    /// Bytes of nodes in the tree.
    pub node_bytes: u64,
    /// Bytes of values outside of nodes.
    pub value_bytes: u64,
    /// Bytes of nodes and values that are out of the tree and not free yet.
    pub retired_bytes: u64,
    /// What all of them together may be.
    pub budget_bytes: u64,
}

impl TierLedger {
    /// All bytes that are taken.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.node_bytes + self.value_bytes + self.retired_bytes
    }

    /// The used share of the budget, which an empty budget has used up.
    #[must_use]
    pub fn used_share(&self) -> f64 {
        if self.budget_bytes == 0 {
            return 1.0;
        }
        self.used_bytes() as f64 / self.budget_bytes as f64
    }
}

/// One cell. Its counts are sums of what this cell's threads did and may wrap below zero, since
/// others free what it allocated; only the sum over all cells means something.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    credit_bytes: AtomicU64,
    node_bytes: AtomicU64,
    value_bytes: AtomicU64,
    retired_bytes: AtomicU64,
}

impl Cell {
    fn of(&self, purpose: Purpose) -> &AtomicU64 {
        match purpose {
            Purpose::Node => &self.node_bytes,
            Purpose::Value => &self.value_bytes,
        }
    }

    fn spend(&self, bytes: u64) -> bool {
        let spent = self
            .credit_bytes
            .fetch_update(Relaxed, Relaxed, |credit| credit.checked_sub(bytes));
        spent.is_ok()
    }
}

/// The account of one tier.
#[derive(Debug)]
pub(super) struct Account {
    budget_bytes: AtomicU64,
    /// Bytes that cells have got and not given back.
    granted_bytes: AtomicU64,
    cells: [Cell; CELLS],
}

impl Account {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes: AtomicU64::new(budget_bytes),
            granted_bytes: AtomicU64::new(0),
            cells: Default::default(),
        }
    }

    /// Takes `bytes`, or nothing where the budget does not allow it.
    pub(super) fn try_take(&self, bytes: u64, purpose: Purpose) -> bool {
        let cell = &self.cells[cell_index()];
        if !cell.spend(bytes) && !self.take_from_pool(cell, bytes) && !self.take_from_cells(bytes) {
            return false;
        }
        cell.of(purpose).fetch_add(bytes, Relaxed);
        true
    }

    /// Gives back what was taken and never published.
    pub(super) fn give_back(&self, bytes: u64, purpose: Purpose) {
        let cell = &self.cells[cell_index()];
        cell.of(purpose).fetch_sub(bytes, Relaxed);
        self.credit(cell, bytes);
    }

    /// Counts a block as out of the tree.
    pub(super) fn retire(&self, bytes: u64, purpose: Purpose) {
        let cell = &self.cells[cell_index()];
        cell.retired_bytes.fetch_add(bytes, Relaxed);
        cell.of(purpose).fetch_sub(bytes, Relaxed);
    }

    /// Gives back a retired block that is now free.
    pub(super) fn reclaim(&self, bytes: u64) {
        let cell = &self.cells[cell_index()];
        cell.retired_bytes.fetch_sub(bytes, Relaxed);
        self.credit(cell, bytes);
    }

    /// Sets the budget. Where more is used already, nothing more is given out until enough is free.
    pub(super) fn set_budget(&self, budget_bytes: u64) {
        self.budget_bytes.store(budget_bytes, Relaxed);
        self.collect_credits();
    }

    /// The state: exact when nobody allocates or frees meanwhile.
    pub(super) fn ledger(&self) -> TierLedger {
        let sum = |field: fn(&Cell) -> &AtomicU64| {
            let total = self
                .cells
                .iter()
                .map(|cell| field(cell).load(Relaxed))
                .fold(0, u64::wrapping_add);
            // While others are at it, a block can be seen leaving and not yet arriving.
            if total > i64::MAX as u64 { 0 } else { total }
        };
        TierLedger {
            node_bytes: sum(|cell| &cell.node_bytes),
            value_bytes: sum(|cell| &cell.value_bytes),
            retired_bytes: sum(|cell| &cell.retired_bytes),
            budget_bytes: self.budget_bytes.load(Relaxed),
        }
    }

    /// Puts what was freed into a cell, and back into the pool what is too much for it: half where
    /// it keeps a lot, all where a budget was lowered below what is given out.
    fn credit(&self, cell: &Cell, bytes: u64) {
        let credit = cell.credit_bytes.fetch_add(bytes, Relaxed) + bytes;
        let is_over = self.granted_bytes.load(Relaxed) > self.budget_bytes.load(Relaxed);
        let surplus = if is_over {
            credit
        } else if credit > KEEP_BYTES {
            credit / 2
        } else {
            return;
        };
        if cell.spend(surplus) {
            self.granted_bytes.fetch_sub(surplus, Relaxed);
        }
    }

    fn grant(&self, bytes: u64) -> bool {
        let granted = self
            .granted_bytes
            .fetch_update(Relaxed, Relaxed, |granted| {
                let sum = granted.checked_add(bytes)?;
                (sum <= self.budget_bytes.load(Relaxed)).then_some(sum)
            });
        granted.is_ok()
    }

    fn take_from_pool(&self, cell: &Cell, bytes: u64) -> bool {
        if self.grant(bytes + CHUNK_BYTES) {
            cell.credit_bytes.fetch_add(CHUNK_BYTES, Relaxed);
            return true;
        }
        self.grant(bytes)
    }

    /// The pool is empty: what cells hold goes back to it first.
    #[cold]
    fn take_from_cells(&self, bytes: u64) -> bool {
        self.collect_credits();
        self.grant(bytes)
    }

    fn collect_credits(&self) {
        for cell in &self.cells {
            let credit = cell.credit_bytes.swap(0, Relaxed);
            self.granted_bytes.fetch_sub(credit, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_budget_can_be_taken_and_not_one_more() {
        let account = Account::new(100_000);
        assert!(account.try_take(60_000, Purpose::Node));
        assert!(account.try_take(40_000, Purpose::Value));
        assert!(!account.try_take(8, Purpose::Node));
        account.retire(60_000, Purpose::Node);
        assert!(!account.try_take(8, Purpose::Node), "retired is not free");
        account.reclaim(60_000);
        assert!(account.try_take(60_000, Purpose::Node));
        assert_eq!(
            account.ledger(),
            TierLedger {
                node_bytes: 60_000,
                value_bytes: 40_000,
                retired_bytes: 0,
                budget_bytes: 100_000
            }
        );
        assert!((account.ledger().used_share() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn credits_of_other_threads_are_found() {
        let account = Account::new(CHUNK_BYTES + 64);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(account.try_take(64, Purpose::Node)));
        });
        assert!(account.try_take(CHUNK_BYTES, Purpose::Node));
        assert!(!account.try_take(8, Purpose::Node));
    }

    #[test]
    fn threads_never_take_more_than_the_budget() {
        const STEPS: usize = if cfg!(miri) { 200 } else { 20_000 };
        let account = Account::new(300_000);
        std::thread::scope(|scope| {
            for seed in 0..4_u64 {
                let account = &account;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for step in 0..STEPS as u64 {
                        let bytes = 8 + (step * 7919 + seed * 104_729) % 4000;
                        if account.try_take(bytes, Purpose::Node) {
                            held.push(bytes);
                        }
                        if held.len() > 30 {
                            let bytes = held.swap_remove((step % 29) as usize);
                            account.retire(bytes, Purpose::Node);
                            account.reclaim(bytes);
                        }
                        assert!(account.granted_bytes.load(Relaxed) <= 300_000);
                    }
                    for bytes in held {
                        account.give_back(bytes, Purpose::Node);
                    }
                });
            }
        });
        assert_eq!(account.ledger().used_bytes(), 0);
    }

    #[test]
    fn a_smaller_budget_stops_what_comes_next() {
        let account = Account::new(1000);
        assert!(account.try_take(800, Purpose::Node));
        account.set_budget(500);
        assert!(!account.try_take(8, Purpose::Node));
        account.give_back(800, Purpose::Node);
        assert!(account.try_take(500, Purpose::Node));
        assert!(!account.try_take(8, Purpose::Node));
    }
}
