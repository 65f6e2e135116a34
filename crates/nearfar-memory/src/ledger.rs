//! The account of every tier: what is taken, by whom, and how much may be.
//!
//! All numbers are atomics, since tier heaps charge from within an allocator, where a lock that
//! parks (and may allocate) is not allowed. `used_bytes` is the number that the budget limits and
//! is changed by compare-and-swap alone, so that it never exceeds the budget, not even for a moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tier::{MAX_TIERS, TierBytes, TierId};

/// Who takes bytes of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    Region,
    Heap,
    Pool,
}

/// One tier's account. The counters need no order among each other: each is exact by itself, and
/// nobody derives from one that another has been written.
#[derive(Debug, Default)]
struct Account {
    budget_bytes: AtomicU64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    region_bytes: AtomicU64,
    heap_bytes: AtomicU64,
    pool_bytes: AtomicU64,
}

impl Account {
    fn of(&self, taker: Taker) -> &AtomicU64 {
        match taker {
            Taker::Region => &self.region_bytes,
            Taker::Heap => &self.heap_bytes,
            Taker::Pool => &self.pool_bytes,
        }
    }

    fn try_take(&self, taker: Taker, bytes: u64) -> bool {
        let budget = self.budget_bytes.load(Relaxed);
        let taken = self.used_bytes.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= budget)
        });
        if let Ok(before) = taken {
            self.peak_bytes.fetch_max(before + bytes, Relaxed);
            self.of(taker).fetch_add(bytes, Relaxed);
        }
        taken.is_ok()
    }

    fn give_back(&self, taker: Taker, bytes: u64) {
        self.of(taker).fetch_sub(bytes, Relaxed);
        let before = self.used_bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more bytes given back than were taken");
    }
}

/// What the ledger says of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountState {
    pub(crate) budget_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) region_bytes: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) pool_bytes: u64,
}

/// The accounts of all tiers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: [Account; MAX_TIERS],
}

impl Ledger {
    /// A ledger with these budgets, one per tier, and zero for all others.
    pub(crate) fn new(budgets_bytes: impl IntoIterator<Item = u64>) -> Self {
        let ledger = Self::default();
        for (account, budget) in ledger.accounts.iter().zip(budgets_bytes) {
            account.budget_bytes.store(budget, Relaxed);
        }
        ledger
    }

    /// Takes all of `bytes`, or nothing and names a tier that lacks room.
    pub(crate) fn try_take_all(&self, taker: Taker, bytes: &TierBytes) -> Result<(), TierId> {
        let mut taken = TierBytes::ZERO;
        for (tier, wanted) in bytes.iter() {
            if !self.accounts[tier.index()].try_take(taker, wanted) {
                self.give_back_all(taker, &taken);
                return Err(tier);
            }
            taken[tier] = wanted;
        }
        Ok(())
    }

    /// Takes `bytes` of `tier`, or nothing.
    pub(crate) fn try_take(&self, taker: Taker, tier: TierId, bytes: u64) -> bool {
        self.accounts[tier.index()].try_take(taker, bytes)
    }

    /// Gives back what was taken.
    pub(crate) fn give_back_all(&self, taker: Taker, bytes: &TierBytes) {
        for (tier, given) in bytes.iter() {
            self.give_back(taker, tier, given);
        }
    }

    /// Gives back `bytes` of `tier`.
    pub(crate) fn give_back(&self, taker: Taker, tier: TierId, bytes: u64) {
        self.accounts[tier.index()].give_back(taker, bytes);
    }

    /// The state of `tier`, each number exact, not one snapshot of all.
    pub(crate) fn state(&self, tier: TierId) -> AccountState {
        let account = &self.accounts[tier.index()];
        AccountState {
            budget_bytes: account.budget_bytes.load(Relaxed),
            used_bytes: account.used_bytes.load(Relaxed),
            peak_bytes: account.peak_bytes.load(Relaxed),
            region_bytes: account.region_bytes.load(Relaxed),
            heap_bytes: account.heap_bytes.load(Relaxed),
            pool_bytes: account.pool_bytes.load(Relaxed),
        }
    }

    /// Bytes of `tier` that can still be taken.
    pub(crate) fn available_bytes(&self, tier: TierId) -> u64 {
        let state = self.state(tier);
        state.budget_bytes.saturating_sub(state.used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(of: &[u64]) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        for (index, amount) in of.iter().enumerate() {
            bytes[TierId::at(index as u8)] = *amount;
        }
        bytes
    }

    #[test]
    fn a_refused_take_leaves_nothing_behind() {
        let ledger = Ledger::new([100, 50]);
        assert_eq!(
            ledger.try_take_all(Taker::Region, &bytes(&[60, 51])),
            Err(TierId::at(1))
        );
        assert_eq!(ledger.state(TierId::at(0)).used_bytes, 0);
        assert_eq!(ledger.state(TierId::at(0)).region_bytes, 0);
        ledger
            .try_take_all(Taker::Region, &bytes(&[60, 50]))
            .unwrap();
        assert!(!ledger.try_take(Taker::Heap, TierId::at(0), 41));
        assert!(ledger.try_take(Taker::Heap, TierId::at(0), 40));
        let state = ledger.state(TierId::at(0));
        assert_eq!(
            (state.region_bytes, state.heap_bytes, state.peak_bytes),
            (60, 40, 100)
        );
    }

    #[test]
    fn a_take_near_the_largest_number_does_not_wrap() {
        let ledger = Ledger::new([u64::MAX]);
        assert!(ledger.try_take(Taker::Region, TierId::at(0), u64::MAX));
        assert!(!ledger.try_take(Taker::Region, TierId::at(0), 1));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take(Vec<u64>),
        GiveBackOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop::collection::vec(0u64..40, 3).prop_map(Step::Take),
            1 => Just(Step::GiveBackOldest),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, ..ProptestConfig::default() })]

        /// One thread against a plain sum; then the same steps on three threads concurrently, where the
        /// budget must hold throughout and the sum at the end be that of what the threads hold.
        #[test]
        fn steps_agree_with_a_plain_sum(steps in prop::collection::vec(step(), 1..60)) {
            const BUDGETS: [u64; 3] = [100, 150, 70];
            let ledger = Ledger::new(BUDGETS);
            let mut held: Vec<Vec<u64>> = Vec::new();
            for step in &steps {
                match step {
                    Step::Take(wanted) => {
                        let sum = |tier: usize| held.iter().map(|one| one[tier]).sum::<u64>();
                        let fits = (0..3).all(|tier| sum(tier) + wanted[tier] <= BUDGETS[tier]);
                        let taken = ledger.try_take_all(Taker::Region, &bytes(wanted));
                        prop_assert_eq!(taken.is_ok(), fits);
                        if fits { held.push(wanted.clone()); }
                    }
                    Step::GiveBackOldest if !held.is_empty() => {
                        ledger.give_back_all(Taker::Region, &bytes(&held.remove(0)));
                    }
                    Step::GiveBackOldest => {}
                }
            }
            for one in held.drain(..) { ledger.give_back_all(Taker::Region, &bytes(&one)); }

            let kept = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| {
                    let mut held: Vec<Vec<u64>> = Vec::new();
                    for step in &steps {
                        match step {
                            Step::Take(wanted) => {
                                if ledger.try_take_all(Taker::Region, &bytes(wanted)).is_ok() {
                                    held.push(wanted.clone());
                                }
                            }
                            Step::GiveBackOldest if !held.is_empty() => {
                                ledger.give_back_all(Taker::Region, &bytes(&held.remove(0)));
                            }
                            Step::GiveBackOldest => {}
                        }
                        for (index, budget) in BUDGETS.iter().enumerate() {
                            assert!(ledger.state(TierId::at(index as u8)).used_bytes <= *budget);
                        }
                    }
                    held
                })).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            for (index, budget) in BUDGETS.iter().enumerate() {
                let state = ledger.state(TierId::at(index as u8));
                prop_assert_eq!(state.used_bytes, kept.iter().map(|one| one[index]).sum::<u64>());
                prop_assert_eq!(state.used_bytes, state.region_bytes);
                prop_assert!(state.peak_bytes <= *budget);
            }
        }
    }
}
