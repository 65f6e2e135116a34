//! What a transaction has to do with locks of tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Isolation, Transaction};
use crate::error::TransactionError;
use crate::table::{Table, TableId};
use crate::transaction::row_locks::{HeldLocks, RowWait};
use crate::transaction::table_change::Change;
use crate::transaction::table_locks::{TableLockMode, TableQueue};

impl Transaction {
    /// Whether some statement has asked for a lock of any table, so that others have to look before they read or change
    /// one.
    pub fn meets_locked_tables(&self) -> bool {
        self.database.row_locks().has_tables()
    }

    /// The same for one table.
    pub fn meets_locked(&self, table: TableId) -> bool {
        self.database.row_locks().has_table(table)
    }

    /// Locks a table until it ends, which a statement has asked for, or needs for what it does. None where it is locked; else another transaction has a lock that does not go with
    /// it, whose end is to be waited for.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`].
    pub fn lock_table(
        &self,
        table: &Table,
        mode: TableLockMode,
        is_asked: bool,
    ) -> Result<Option<RowWait>, TransactionError> {
        if table.owner().is_none() {
            return Ok(None);
        }
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        held.lock_table(table.id(), mode, is_asked)
    }

    /// Has those who come later wait behind it for a table, until what is returned is dropped.
    pub fn queue_for(&self, table: &Table, mode: TableLockMode, is_asked: bool) -> TableQueue {
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        held.queue_for(table.id(), mode, is_asked)
    }

    /// Whether it has locked a table in this mode.
    pub fn has_locked(&self, table: TableId, mode: TableLockMode) -> bool {
        let locks = self.locks.lock();
        locks
            .as_ref()
            .is_some_and(|held| held.has_table(table, mode))
    }

    /// Waits for the commits that began before a table was locked, and has what reads one snapshot and has read nothing
    /// yet read the newest.
    pub fn settle_locked(&self) {
        drop(self.database.lock());
        let reads_one = self.isolation() != Isolation::ReadCommitted;
        if reads_one && !self.has_read.load(std::sync::atomic::Ordering::Relaxed) {
            let (newest, registration) = Self::open(&self.database, self.isolation());
            *self.registration.lock() = registration;
            let before = std::mem::replace(&mut *self.read.lock(), newest);
            self.database.close(&before);
        }
    }

    /// The tables that it has changed and that its commit has to wait for, since another transaction has locked them.
    pub fn tables_to_wait_for(&self) -> Vec<Arc<Table>> {
        if !self.meets_locked_tables() {
            return Vec::new();
        }
        let changes = self.changes.lock();
        let changed = changes.iter().flat_map(BTreeMap::values);
        let waits = changed.filter(|change| {
            let id = change.table.id();
            self.meets_locked(id) && !self.has_locked(id, TableLockMode::RowExclusive)
        });
        waits.map(|change| Arc::clone(&change.table)).collect()
    }

    /// Notes that it changes rows of a table, if it goes on after the statement: whoever wants to lock the table waits
    /// for its end. A statement alone looks at its end.
    pub(super) fn note_table(&self, table: &Table) {
        if self.is_explicit && table.owner().is_some() {
            let mut locks = self.locks.lock();
            let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
            held.note_change(table.id());
        }
    }
}

/// Whether a commit, under the lock for commits, may change what it does: nobody else has locked one of the tables
/// that it has not locked itself.
pub(super) fn may_change<'a>(
    held: Option<&HeldLocks>,
    is_locked: impl Fn(TableId) -> bool,
    mut changes: impl Iterator<Item = &'a Change>,
) -> bool {
    changes.all(|change| {
        let id = change.table.id();
        let has = |held: &HeldLocks| held.has_table(id, TableLockMode::RowExclusive);
        !is_locked(id) || held.is_some_and(has)
    })
}
