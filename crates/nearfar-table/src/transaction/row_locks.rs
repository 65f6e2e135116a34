//! Rows that transactions are about to change, so that others wait instead of failing.
//!
//! A transaction locks the rows that it changes until it ends, as PostgreSQL's do. What is read is never
//! locked. Whether a row was changed first is still found out at the commit: locks only say who waits.

use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::Semaphore;

use super::table_locks::{HeldTable, TableLockMode, TableLocks};
use crate::error::TransactionError;
use crate::table::{RowId, TableId};

/// A transaction that holds locks.
pub(super) type Holder = u64;

/// What of a table is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Locked {
    /// Rows, by their identities.
    Rows,
    /// Keys of rows that there may not be yet, by numbers that are seldom those of two.
    Keys,
    /// Keys that rows of other tables refer to, likewise.
    References,
}

/// What a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Nobody else is to have the lock.
    Exclusive,
    /// Others may share it.
    Shared,
}

/// Where numbers that are locked mean the same.
type Space = (TableId, Locked);

/// Rows of one statement that are kept as a sorted list, of eight bytes each, when they are more.
const SINGLE_ROWS_MAX: usize = 1 << 10;

/// The locks of a database.
#[derive(Debug, Default)]
pub(super) struct RowLocks {
    pub(super) state: Mutex<State>,
    /// How many locks of tables statements have asked for.
    pub(super) asked: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct State {
    tables: HashMap<Space, LockedRows>,
    /// Locks of tables as a whole.
    pub(super) whole: TableLocks,
    /// By holder, what is closed when that one ends.
    holders: HashMap<Holder, Arc<Semaphore>>,
    /// For whom a holder waits: a statement waits for one at a time.
    waits: HashMap<Holder, Holder>,
    last: Holder,
}

/// The locked rows of one table.
#[derive(Debug, Default)]
struct LockedRows {
    single: HashMap<RowId, Holder>,
    /// Sorted.
    many: Vec<(Holder, LockMode, Vec<RowId>)>,
    /// Rows that are shared, and among whom.
    shared: HashMap<RowId, Vec<Holder>>,
    /// Who has all rows.
    all: Option<Holder>,
}

impl LockedRows {
    /// Somebody else who has locked a row.
    fn any_other(&self, own: Holder) -> Option<Holder> {
        let many = self.many.iter().map(|(holder, ..)| holder);
        let shared = self.shared.values().flatten();
        let mut all = self
            .single
            .values()
            .chain(many)
            .chain(shared)
            .chain(&self.all);
        all.find(|holder| **holder != own).copied()
    }

    /// Somebody else who has rows alone.
    fn any_exclusive(&self, own: Holder) -> Option<Holder> {
        let many = self.many.iter();
        let many = many.filter(|(_, mode, _)| *mode == LockMode::Exclusive);
        let mut all = self
            .single
            .values()
            .chain(many.map(|(holder, ..)| holder))
            .chain(&self.all);
        all.find(|holder| **holder != own).copied()
    }

    fn is_empty(&self) -> bool {
        let has_none = self.single.is_empty() && self.many.is_empty() && self.shared.is_empty();
        has_none && self.all.is_none()
    }

    /// Somebody else whose lock of one of `rows`, which are sorted, does not go with one of this mode.
    fn other(&self, rows: &[RowId], mode: LockMode, own: Holder) -> Option<Holder> {
        let exclusive = self.exclusive(rows, own);
        if exclusive.is_some() || mode == LockMode::Shared {
            return exclusive;
        }
        if let Some(holder) = self.among_many(rows, LockMode::Shared, own) {
            return Some(holder);
        }
        if self.shared.is_empty() {
            return None;
        }
        let holders = rows.iter().filter_map(|row| self.shared.get(row));
        holders.flatten().copied().find(|holder| *holder != own)
    }

    /// Somebody else who has one of `rows` alone.
    fn exclusive(&self, rows: &[RowId], own: Holder) -> Option<Holder> {
        let all = self.all.filter(|holder| *holder != own && !rows.is_empty());
        if all.is_some() {
            return all;
        }
        let mut singles = rows.iter().filter_map(|row| self.single.get(row).copied());
        let single = singles.find(|holder| *holder != own);
        single.or_else(|| self.among_many(rows, LockMode::Exclusive, own))
    }

    /// Somebody else who has locked one of `rows` in this mode as one of many.
    fn among_many(&self, rows: &[RowId], mode: LockMode, own: Holder) -> Option<Holder> {
        let mut others = self.many.iter().filter(|(holder, ..)| *holder != own);
        let found = others.find(|(_, locked_mode, locked)| {
            *locked_mode == mode && rows.iter().any(|row| locked.binary_search(row).is_ok())
        });
        found.map(|(holder, ..)| *holder)
    }

    fn share(&mut self, row: RowId, holder: Holder) {
        let holders = self.shared.entry(row).or_default();
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }

    /// Ends the shares of a holder in one row.
    fn unshare(&mut self, row: RowId, holder: Holder) {
        if let Some(holders) = self.shared.get_mut(&row) {
            holders.retain(|other| *other != holder);
            if holders.is_empty() {
                self.shared.remove(&row);
            }
        }
    }

    fn add(&mut self, rows: Vec<RowId>, mode: LockMode, holder: Holder) {
        match mode {
            _ if rows.len() > SINGLE_ROWS_MAX => self.many.push((holder, mode, rows)),
            LockMode::Shared => rows.into_iter().for_each(|row| self.share(row, holder)),
            LockMode::Exclusive => self
                .single
                .extend(rows.into_iter().map(|row| (row, holder))),
        }
    }
}

/// The locks of one transaction, let go of when this is dropped.
#[derive(Debug)]
pub(super) struct HeldLocks {
    pub(super) locks: Arc<RowLocks>,
    pub(super) holder: Holder,
    /// The rows that are locked one by one.
    single: Vec<(Space, RowId)>,
    /// Those of which many are, or all.
    many: Vec<Space>,
    /// The rows that it shares.
    shared: Vec<(Space, RowId)>,
    /// The tables that it has locked, in this order.
    pub(super) whole: Vec<HeldTable>,
}

impl RowLocks {
    /// No locks yet, of a transaction.
    pub fn hold(self: &Arc<Self>) -> HeldLocks {
        let mut state = self.state.lock();
        state.last += 1;
        let holder = state.last;
        state.holders.insert(holder, Arc::new(Semaphore::new(0)));
        HeldLocks {
            locks: Arc::clone(self),
            holder,
            single: Vec::new(),
            many: Vec::new(),
            shared: Vec::new(),
            whole: Vec::new(),
        }
    }
}

impl State {
    /// Whether `holder` waits for `own`, perhaps by way of others.
    fn waits_for(&self, mut holder: Holder, own: Holder) -> bool {
        while let Some(next) = self.waits.get(&holder) {
            if *next == own {
                return true;
            }
            holder = *next;
        }
        false
    }

    /// Somebody else who has locked rows of a table in a way that does not go with a lock of all of it.
    pub(super) fn changing(
        &self,
        table: TableId,
        mode: TableLockMode,
        own: Holder,
    ) -> Option<Holder> {
        let known = self.tables.get(&(table, Locked::Rows))?;
        let changes = mode.conflicts_with(TableLockMode::RowExclusive);
        let shares = mode.conflicts_with(TableLockMode::RowShare);
        match (changes, shares) {
            (true, true) => known.any_other(own),
            (true, false) => known.any_exclusive(own),
            (false, _) => None,
        }
    }

    /// Has those look again who wait for a holder that goes on.
    pub(super) fn wake(&mut self, holder: Holder) {
        if let Some(ended) = self.holders.get_mut(&holder) {
            std::mem::replace(ended, Arc::new(Semaphore::new(0))).close();
        }
    }
}

impl HeldLocks {
    /// Locks all of `rows` of a table, or none: then somebody else has one of them, whose end is to be
    /// waited for.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`]: that one waits for this one.
    pub fn lock(
        &mut self,
        table: TableId,
        rows: &[RowId],
        mode: LockMode,
    ) -> Result<Option<RowWait>, TransactionError> {
        self.lock_in((table, Locked::Rows), rows, mode)
    }

    /// The same for the numbers of keys of a table.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_keys(
        &mut self,
        table: TableId,
        keys: &[u64],
    ) -> Result<Option<RowWait>, TransactionError> {
        self.lock_in((table, Locked::Keys), keys, LockMode::Exclusive)
    }

    /// The same for the numbers of keys of a table that rows of others refer to.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_references(
        &mut self,
        table: TableId,
        keys: &[u64],
        mode: LockMode,
    ) -> Result<Option<RowWait>, TransactionError> {
        self.lock_in((table, Locked::References), keys, mode)
    }

    fn lock_in(
        &mut self,
        space: Space,
        rows: &[RowId],
        mode: LockMode,
    ) -> Result<Option<RowWait>, TransactionError> {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        let mut state = self.locks.state.lock();
        let known = state.tables.get(&space);
        if let Some(other) = known.and_then(|known| known.other(&rows, mode, self.holder)) {
            return self.wait_for(other, &mut state).map(Some);
        }
        let locked = state.tables.entry(space).or_default();
        let each = rows.iter().map(|row| (space, *row));
        match mode {
            _ if rows.len() > SINGLE_ROWS_MAX => self.many.push(space),
            LockMode::Shared => self.shared.extend(each),
            LockMode::Exclusive => self.single.extend(each),
        }
        locked.add(rows, mode, self.holder);
        Ok(None)
    }
}

impl HeldLocks {
    /// The same for all rows of a table.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_all(&mut self, table: TableId) -> Result<Option<RowWait>, TransactionError> {
        let space = (table, Locked::Rows);
        let mut state = self.locks.state.lock();
        let known = state.tables.entry(space).or_default();
        if let Some(other) = known.any_other(self.holder) {
            return self.wait_for(other, &mut state).map(Some);
        }
        known.all = Some(self.holder);
        self.many.push(space);
        Ok(None)
    }

    pub(super) fn wait_for(
        &self,
        other: Holder,
        state: &mut State,
    ) -> Result<RowWait, TransactionError> {
        if state.waits_for(other, self.holder) {
            return Err(TransactionError::Deadlock);
        }
        state.waits.insert(self.holder, other);
        let ended = state.holders.get(&other).cloned();
        Ok(RowWait {
            ended: ended.unwrap_or_else(closed),
            locks: Arc::clone(&self.locks),
            holder: self.holder,
        })
    }
}

fn closed() -> Arc<Semaphore> {
    let semaphore = Semaphore::new(0);
    semaphore.close();
    Arc::new(semaphore)
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.release_tables(0);
        let mut state = self.locks.state.lock();
        let mut touched = std::mem::take(&mut self.many);
        for (space, row) in self.single.drain(..) {
            if let Some(known) = state.tables.get_mut(&space) {
                known.single.remove(&row);
                if known.single.is_empty() {
                    touched.push(space);
                }
            }
        }
        for (space, row) in self.shared.drain(..) {
            if let Some(known) = state.tables.get_mut(&space) {
                known.unshare(row, self.holder);
                if known.shared.is_empty() {
                    touched.push(space);
                }
            }
        }
        for space in touched {
            if let Some(known) = state.tables.get_mut(&space) {
                known.many.retain(|(holder, ..)| *holder != self.holder);
                known.all = known.all.filter(|holder| *holder != self.holder);
                if known.is_empty() {
                    state.tables.remove(&space);
                }
            }
        }
        if let Some(ended) = state.holders.remove(&self.holder) {
            ended.close();
        }
    }
}

/// The end of another transaction, which has locked a row.
#[derive(Debug)]
pub struct RowWait {
    ended: Arc<Semaphore>,
    locks: Arc<RowLocks>,
    holder: Holder,
}

impl RowWait {
    /// Waits until the other one has ended. Whoever gives up drops the future.
    pub async fn wait(self) {
        // It is closed when that one ends, and never has a permit.
        drop(self.ended.acquire().await);
    }
}

impl Drop for RowWait {
    fn drop(&mut self) {
        self.locks.state.lock().waits.remove(&self.holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(held: &mut HeldLocks, table: TableId, rows: &[RowId]) -> bool {
        held.lock(table, rows, LockMode::Exclusive)
            .expect("no deadlock")
            .is_none()
    }

    #[test]
    fn rows_are_one_transactions_until_it_ends() {
        let locks = Arc::new(RowLocks::default());
        let (table, other_table) = (1, 2);
        let many: Vec<RowId> = (100..5000).collect();
        let (mut one, mut two) = (locks.hold(), locks.hold());
        assert!(is_taken(&mut one, table, &[2, 1]));
        assert!(is_taken(&mut one, table, &[1]), "its own");
        assert!(is_taken(&mut one, table, &many));
        assert!(is_taken(&mut two, other_table, &[1]));
        assert!(is_taken(&mut two, table, &[3]));
        for rows in [&[4, 2][..], &[4999]] {
            assert!(!is_taken(&mut two, table, rows), "{rows:?}");
        }
        assert!(!is_taken(&mut two, table, &(0..2000).collect::<Vec<_>>()));
        let mut three = locks.hold();
        assert!(
            is_taken(&mut three, table, &[4]),
            "none of several was taken"
        );
        drop(one);
        assert!(is_taken(&mut two, table, &[1, 2, 4999]));
        assert!(two.lock_all(table).expect("no deadlock").is_some());
        drop(three);
        let mut three = locks.hold();
        assert!(two.lock_all(table).expect("no deadlock").is_none());
        assert!(!is_taken(&mut three, table, &[10_000]));
        assert!(is_taken(&mut three, table, &[]));
        let is_key_taken =
            |held: &mut HeldLocks| held.lock_keys(table, &[7]).expect("none").is_none();
        assert!(is_key_taken(&mut three), "keys are no rows");
        assert!(!is_key_taken(&mut two));
        drop((two, three));
        let state = locks.state.lock();
        assert!(state.tables.is_empty() && state.holders.is_empty() && state.waits.is_empty());
    }

    #[test]
    fn shared_rows_are_nobodys_alone() {
        let locks = Arc::new(RowLocks::default());
        let table = 1;
        let (mut one, mut two, mut three) = (locks.hold(), locks.hold(), locks.hold());
        let is_shared = |held: &mut HeldLocks, row: RowId| {
            let wait = held.lock(table, &[row], LockMode::Shared);
            wait.expect("no deadlock").is_none()
        };
        assert!(is_shared(&mut one, 1) && is_shared(&mut one, 1) && is_shared(&mut two, 1));
        assert!(!is_taken(&mut three, table, &[1]));
        assert!(!is_taken(&mut one, table, &[1]), "another one shares it");
        drop(two);
        assert!(is_taken(&mut one, table, &[1]), "nobody else does");
        assert!(!is_shared(&mut three, 1));
        assert!(three.lock_all(table).expect("no deadlock").is_some());
        let many: Vec<RowId> = (100..5000).collect();
        let are_shared = |held: &mut HeldLocks| {
            let wait = held.lock(table, &many, LockMode::Shared);
            wait.expect("no deadlock").is_none()
        };
        assert!(are_shared(&mut one) && are_shared(&mut three));
        assert!(
            !is_taken(&mut one, table, &[4999]),
            "another one shares many"
        );
        drop(one);
        assert!(is_shared(&mut three, 1));
        drop(three);
        let state = locks.state.lock();
        assert!(state.tables.is_empty() && state.holders.is_empty() && state.waits.is_empty());
    }

    #[tokio::test]
    async fn waits_end_with_the_other_transaction_and_circles_are_found() {
        let locks = Arc::new(RowLocks::default());
        let table = 1;
        let mut held: Vec<HeldLocks> = (0..3).map(|_| locks.hold()).collect();
        for (row, held) in held.iter_mut().enumerate() {
            assert!(is_taken(held, table, &[row as RowId]));
        }
        let first = held[0]
            .lock(table, &[1], LockMode::Exclusive)
            .expect("no deadlock")
            .expect("a wait");
        let second = held[1]
            .lock(table, &[2], LockMode::Exclusive)
            .expect("no deadlock")
            .expect("a wait");
        let circle = held[2].lock(table, &[0], LockMode::Exclusive);
        assert!(matches!(circle, Err(TransactionError::Deadlock)));
        drop(held.pop());
        second.wait().await;
        drop(held.pop());
        first.wait().await;
        assert!(is_taken(&mut held[0], table, &[1, 2]));
    }
}
