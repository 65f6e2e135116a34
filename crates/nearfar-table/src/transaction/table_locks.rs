//! Locks of whole tables, in PostgreSQL's eight modes.
//!
//! They are part of the [locks of rows](super::row_locks), so that circles among both are found. While no statement asks
//! for one, all that there is of them are the tables that open transactions of several statements have changed; who
//! looks whether there are any reads one number.

use hashbrown::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::row_locks::{HeldLocks, Holder, RowLocks, RowWait};
use crate::error::TransactionError;
use crate::table::TableId;

/// How a table is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLockMode {
    /// What reads have.
    AccessShare,
    /// What `SELECT … FOR UPDATE` has.
    RowShare,
    /// What changes of rows have.
    RowExclusive,
    /// Nothing that changes the table as a whole runs beside it.
    ShareUpdateExclusive,
    /// Nobody changes rows.
    Share,
    /// The same, for one transaction.
    ShareRowExclusive,
    /// Others can read only.
    Exclusive,
    /// Others can't even read.
    AccessExclusive,
}

impl TableLockMode {
    /// Whether two transactions can't have these at the same time.
    pub fn conflicts_with(self, other: Self) -> bool {
        use TableLockMode as Mode;
        let others: &[Self] = match self {
            Mode::AccessShare => &[Mode::AccessExclusive],
            Mode::RowShare => &[Mode::Exclusive, Mode::AccessExclusive],
            Mode::RowExclusive => &[
                Mode::Share,
                Mode::ShareRowExclusive,
                Mode::Exclusive,
                Mode::AccessExclusive,
            ],
            Mode::ShareUpdateExclusive => &[
                Mode::ShareUpdateExclusive,
                Mode::Share,
                Mode::ShareRowExclusive,
                Mode::Exclusive,
                Mode::AccessExclusive,
            ],
            Mode::Share => &[
                Mode::RowExclusive,
                Mode::ShareUpdateExclusive,
                Mode::ShareRowExclusive,
                Mode::Exclusive,
                Mode::AccessExclusive,
            ],
            Mode::ShareRowExclusive => &[
                Mode::RowExclusive,
                Mode::ShareUpdateExclusive,
                Mode::Share,
                Mode::ShareRowExclusive,
                Mode::Exclusive,
                Mode::AccessExclusive,
            ],
            Mode::Exclusive => return other != Mode::AccessShare,
            Mode::AccessExclusive => return true,
        };
        others.contains(&other)
    }
}

/// The locks of tables, by table.
pub(super) type TableLocks = HashMap<TableId, LockedTable>;

/// The locks of one table.
#[derive(Debug, Default)]
pub(super) struct LockedTable {
    held: Vec<(Holder, TableLockMode)>,
    /// Who waits for one, in the order of their coming.
    waiting: Vec<(Holder, TableLockMode)>,
    /// How many of both statements have asked for.
    asked: usize,
}

impl LockedTable {
    /// Somebody else whose lock, or whose earlier wish for one, does not go with one of this mode. Who has a lock of the
    /// table already comes before those that wait.
    fn other(&self, mode: TableLockMode, own: Holder) -> Option<Holder> {
        let conflicts = |(holder, held): &&(Holder, TableLockMode)| {
            *holder != own && mode.conflicts_with(*held)
        };
        if let Some((holder, _)) = self.held.iter().find(conflicts) {
            return Some(*holder);
        }
        if self.held.iter().any(|(holder, _)| *holder == own) {
            return None;
        }
        let mut earlier = self.waiting.iter().take_while(|(holder, _)| *holder != own);
        let found = earlier.find(|(_, wanted)| mode.conflicts_with(*wanted));
        found.map(|(holder, _)| *holder)
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }
}

/// A lock of a table that a transaction has.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldTable {
    table: TableId,
    mode: TableLockMode,
    /// Whether a statement has asked for it, and not only needs it.
    is_asked: bool,
}

impl RowLocks {
    /// Whether a statement has asked for a lock of any table.
    pub fn has_tables(&self) -> bool {
        // Who asks for one counts it first, and then waits for the commits that did not see it.
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Whether a statement has asked for a lock of this table.
    pub fn has_table(&self, table: TableId) -> bool {
        self.has_tables() && {
            let state = self.state.lock();
            state.whole.get(&table).is_some_and(|known| known.asked > 0)
        }
    }
}

impl HeldLocks {
    /// Locks a table, which a statement has asked for, or needs for what it does. None where it is locked; else somebody
    /// else has a lock that does not go with it, whose end is to be waited for.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`]: that one waits for this one.
    pub fn lock_table(
        &mut self,
        table: TableId,
        mode: TableLockMode,
        is_asked: bool,
    ) -> Result<Option<RowWait>, TransactionError> {
        // Before anything is looked at: whoever does not see it has begun before.
        let count = usize::from(is_asked);
        self.locks.asked.fetch_add(count, Ordering::SeqCst);
        let mut state = self.locks.state.lock();
        let known = state.whole.get(&table);
        let other = known.and_then(|known| known.other(mode, self.holder));
        let other = other.or_else(|| state.changing(table, mode, self.holder));
        if let Some(other) = other {
            self.locks.asked.fetch_sub(count, Ordering::SeqCst);
            return self.wait_for(other, &mut state).map(Some);
        }
        let known = state.whole.entry(table).or_default();
        known.held.push((self.holder, mode));
        known.asked += count;
        self.whole.push(HeldTable {
            table,
            mode,
            is_asked,
        });
        Ok(None)
    }

    /// Notes that it changes rows of a table, unless somebody has a lock that it has to wait for at its end.
    pub fn note_change(&mut self, table: TableId) {
        let mode = TableLockMode::RowExclusive;
        if self.has_table(table, mode) {
            return;
        }
        let mut state = self.locks.state.lock();
        let known = state.whole.entry(table).or_default();
        if known.other(mode, self.holder).is_none() {
            known.held.push((self.holder, mode));
            self.whole.push(HeldTable {
                table,
                mode,
                is_asked: false,
            });
        }
    }

    /// Whether it has a table in this mode.
    pub fn has_table(&self, table: TableId, mode: TableLockMode) -> bool {
        let mut whole = self.whole.iter();
        whole.any(|held| held.table == table && held.mode == mode)
    }

    /// How many locks of tables it has.
    pub fn tables(&self) -> usize {
        self.whole.len()
    }

    /// Ends those locks of tables that came behind the first `count`.
    pub fn release_tables(&mut self, count: usize) {
        if count >= self.whole.len() {
            return;
        }
        let mut state = self.locks.state.lock();
        for held in self.whole.drain(count..) {
            let Some(known) = state.whole.get_mut(&held.table) else {
                continue;
            };
            let own = (self.holder, held.mode);
            if let Some(at) = known.held.iter().rposition(|other| *other == own) {
                known.held.remove(at);
            }
            if held.is_asked {
                known.asked -= 1;
                self.locks.asked.fetch_sub(1, Ordering::SeqCst);
            }
            if known.is_empty() {
                state.whole.remove(&held.table);
            }
        }
        state.wake(self.holder);
    }

    /// Has those who come later wait behind it for a table, until what is returned is dropped.
    pub fn queue_for(&self, table: TableId, mode: TableLockMode, is_asked: bool) -> TableQueue {
        let count = usize::from(is_asked);
        self.locks.asked.fetch_add(count, Ordering::SeqCst);
        let mut state = self.locks.state.lock();
        let known = state.whole.entry(table).or_default();
        known.waiting.push((self.holder, mode));
        known.asked += count;
        TableQueue {
            locks: Arc::clone(&self.locks),
            table,
            holder: self.holder,
            is_asked,
        }
    }
}

/// A place among those who wait for a table.
#[derive(Debug)]
pub struct TableQueue {
    locks: Arc<RowLocks>,
    table: TableId,
    holder: Holder,
    is_asked: bool,
}

impl Drop for TableQueue {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        if let Some(known) = state.whole.get_mut(&self.table) {
            let mut waiting = known.waiting.iter();
            if let Some(at) = waiting.position(|(holder, _)| *holder == self.holder) {
                known.waiting.remove(at);
            }
            known.asked -= usize::from(self.is_asked);
            if known.is_empty() {
                state.whole.remove(&self.table);
            }
        }
        let count = usize::from(self.is_asked);
        self.locks.asked.fetch_sub(count, Ordering::SeqCst);
        // Those behind it look again.
        state.wake(self.holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::row_locks::LockMode;
    use TableLockMode as Mode;

    const ALL: [Mode; 8] = [
        Mode::AccessShare,
        Mode::RowShare,
        Mode::RowExclusive,
        Mode::ShareUpdateExclusive,
        Mode::Share,
        Mode::ShareRowExclusive,
        Mode::Exclusive,
        Mode::AccessExclusive,
    ];

    /// PostgreSQL 15's documentation, table 13.2.
    const CONFLICTS: [&str; 8] = [
        ".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx",
        "xxxxxxxx",
    ];

    fn is_taken(held: &mut HeldLocks, mode: Mode) -> bool {
        held.lock_table(1, mode, true)
            .expect("no deadlock")
            .is_none()
    }

    #[test]
    fn modes_conflict_as_in_postgresql() {
        for (row, one) in ALL.into_iter().enumerate() {
            for (column, other) in ALL.into_iter().enumerate() {
                let expected = CONFLICTS[row].as_bytes()[column] == b'x';
                let locks = Arc::new(RowLocks::default());
                let (mut first, mut second) = (locks.hold(), locks.hold());
                assert!(is_taken(&mut first, one) && is_taken(&mut first, one));
                assert_eq!(
                    !is_taken(&mut second, other),
                    expected,
                    "{one:?}, {other:?}"
                );
                drop(first);
                assert!(is_taken(&mut second, other));
                drop(second);
                assert!(!locks.has_tables() && locks.state.lock().whole.is_empty());
            }
        }
    }

    #[test]
    fn who_changes_rows_is_waited_for() {
        let locks = Arc::new(RowLocks::default());
        let (mut one, mut two) = (locks.hold(), locks.hold());
        one.note_change(1);
        one.note_change(1);
        assert!(!locks.has_tables(), "nobody has asked for one");
        assert!(!is_taken(&mut two, Mode::Share));
        assert!(is_taken(&mut two, Mode::ShareUpdateExclusive));
        assert!(locks.has_table(1) && !locks.has_table(2));
        one.release_tables(0);
        assert!(is_taken(&mut two, Mode::Share));
        // What statements need beside it is not asked for.
        let needs = one.lock_table(3, Mode::RowExclusive, false);
        assert!(needs.expect("no deadlock").is_none() && !locks.has_table(3));
        // Rows alone tell it too, and shared ones are in the way of fewer modes.
        let row = |held: &mut HeldLocks, row, mode| held.lock(2, &[row], mode).expect("none");
        assert!(row(&mut one, 5, LockMode::Shared).is_none());
        let of_other = |held: &mut HeldLocks, mode| held.lock_table(2, mode, true).expect("none");
        assert!(of_other(&mut two, Mode::Share).is_none());
        assert!(of_other(&mut two, Mode::Exclusive).is_some());
        let mut three = locks.hold();
        assert!(row(&mut three, 6, LockMode::Exclusive).is_none());
        assert!(of_other(&mut two, Mode::Share).is_some());
        drop((one, two, three));
        assert!(!locks.has_tables() && locks.state.lock().whole.is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_are_served_in_their_order() {
        let locks = Arc::new(RowLocks::default());
        let mut held: Vec<HeldLocks> = (0..3).map(|_| locks.hold()).collect();
        assert!(is_taken(&mut held[0], Mode::RowExclusive));
        let wait = held[1].lock_table(1, Mode::AccessExclusive, true);
        let wait = wait.expect("no deadlock").expect("a wait");
        let queue = held[1].queue_for(1, Mode::AccessExclusive, true);
        let behind = held[2].lock_table(1, Mode::AccessShare, false);
        let behind = behind.expect("no deadlock").expect("a wait");
        assert!(is_taken(&mut held[0], Mode::RowExclusive), "it comes first");
        assert!(is_taken(&mut held[0], Mode::Share), "and so does this");
        held[0].release_tables(0);
        wait.wait().await;
        assert!(is_taken(&mut held[1], Mode::AccessExclusive));
        drop(queue);
        behind.wait().await;
        assert!(!is_taken(&mut held[2], Mode::AccessShare));
        held[1].release_tables(0);
        assert!(is_taken(&mut held[2], Mode::AccessShare));
        drop(held);
        assert!(!locks.has_tables() && locks.state.lock().whole.is_empty());
    }

    #[test]
    fn circles_of_tables_and_rows_are_found() {
        let locks = Arc::new(RowLocks::default());
        let (mut one, mut two) = (locks.hold(), locks.hold());
        assert!(is_taken(&mut one, Mode::Share));
        let row = |held: &mut HeldLocks| held.lock(2, &[5], LockMode::Exclusive);
        assert!(row(&mut two).expect("no deadlock").is_none());
        let _wait = row(&mut one).expect("no deadlock").expect("a wait");
        let circle = two.lock_table(1, Mode::RowExclusive, false);
        assert!(matches!(circle, Err(TransactionError::Deadlock)));
    }
}
