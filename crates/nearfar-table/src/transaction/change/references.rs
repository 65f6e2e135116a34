//! What a transaction keeps for foreign keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Deferral, RowLock, Transaction};
use crate::error::TransactionError;
use crate::table::{RowId, Table};
use crate::transaction::row_locks::LockMode;
use crate::transaction::table_change::{Change, ReferenceStep};

impl Transaction {
    /// Locks keys of a table that rows of others refer to, by [their numbers](crate::table::Keys::numbers), until it ends: shared
    /// where rows are added that refer to them, and alone where they go.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`].
    pub fn lock_references(
        &self,
        table: &Table,
        keys: &[u64],
        mode: LockMode,
    ) -> Result<RowLock, TransactionError> {
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        let wait = held.lock_references(table.id(), keys, mode)?;
        Ok(wait.map_or(RowLock::Taken, RowLock::Held))
    }

    /// Whether one of `rows` of a table, which others have committed, is not among what the transaction reads.
    pub fn is_later(&self, table: &Table, rows: &[RowId]) -> bool {
        let read = Arc::clone(&self.read.lock());
        let base = read.table(table);
        let is_known = |row: &RowId| base.is_some_and(|base| base.locate(*row).is_some());
        !rows.iter().all(is_known)
    }

    /// By row, whether others have deleted or changed it, of rows of a table that the transaction reads. Those that it has
    /// added itself are its own.
    pub fn are_replaced(&self, table: &Table, rows: &[Option<RowId>]) -> Vec<bool> {
        let (read, visible) = (Arc::clone(&self.read.lock()), self.database.snapshot());
        if Arc::ptr_eq(&read, &visible) {
            return vec![false; rows.len()];
        }
        let (base, newest) = (read.table(table), visible.table(table));
        let is_replaced = |row: RowId| {
            let was_there = base.is_some_and(|base| base.locate(row).is_some());
            was_there && newest.is_none_or(|newest| newest.locate(row).is_none())
        };
        rows.iter()
            .map(|row| row.is_some_and(is_replaced))
            .collect()
    }

    /// What its statements have done since this was asked for to tables that take part in foreign keys.
    pub fn take_reference_steps(&self) -> Vec<(Arc<Table>, ReferenceStep)> {
        self.take_steps(|change| &mut change.steps)
    }

    /// What was [deferred](Self::defer) so far.
    pub fn take_deferred_steps(&self) -> Vec<(Arc<Table>, ReferenceStep)> {
        self.take_steps(|change| &mut change.deferred)
    }

    /// Whether a constraint that can be is checked at its end; nothing where it is checked as it was declared.
    pub fn defers_constraint(&self, name: &str) -> Option<bool> {
        let deferral = self.deferral.lock();
        deferral.named.get(name).copied().or(deferral.all)
    }

    /// Says whether constraints that can be are checked at its end: those of these names, or all where there are no
    /// names.
    pub fn set_defers_constraints(&self, names: &[String], defers: bool) {
        let mut deferral = self.deferral.lock();
        if names.is_empty() {
            *deferral = Deferral {
                all: Some(defers),
                named: BTreeMap::new(),
            };
        }
        let named = names.iter().map(|name| (name.clone(), defers));
        deferral.named.extend(named);
    }

    /// Whether something was deferred.
    pub fn has_deferred_steps(&self) -> bool {
        let changes = self.changes.lock();
        let mut changes = changes.iter().flat_map(BTreeMap::values);
        changes.any(|change| !change.deferred.is_empty())
    }

    fn take_steps(
        &self,
        list: impl Fn(&mut Change) -> &mut Vec<ReferenceStep>,
    ) -> Vec<(Arc<Table>, ReferenceStep)> {
        let mut changes = self.changes.lock();
        let changes = changes.iter_mut().flat_map(BTreeMap::values_mut);
        let steps = changes.flat_map(|change| {
            let table = Arc::clone(&change.table);
            let steps = std::mem::take(list(change));
            steps
                .into_iter()
                .map(move |step| (Arc::clone(&table), step))
        });
        steps.collect()
    }

    /// Has a step be held against foreign keys at the transaction's end.
    pub fn defer(&self, table: &Table, step: ReferenceStep) {
        let mut changes = self.changes.lock();
        let change = changes.as_mut().and_then(|all| all.get_mut(&table.id()));
        if let Some(change) = change {
            change.deferred.push(step);
        }
    }
}
