//! How a transaction is committed.

use std::sync::Arc;
use std::time::Duration;

use super::Transaction;
use super::definitions::EnteredTable;
use super::pending::{PendingCommit, Recorded, WaitingCommit};
use super::tables::may_change;
use crate::error::{TableError, TransactionError};
use crate::table::CommitGate;
use crate::transaction::log::CommitRecord;
use crate::transaction::table_change::{Change, Changes};
use crate::transaction::waiting::may_wait;

/// How long whoever must not wait does wait for the lock for commits: longer than a small commit takes.
const LOCK_PATIENCE: Duration = Duration::from_micros(500);

impl Transaction {
    /// Commits where the statement is all there is.
    ///
    /// # Errors
    /// As [`Self::commit_async`].
    pub async fn end_statement(&self, gate: &CommitGate) -> Result<(), TableError> {
        match self.is_explicit {
            true => Ok(()),
            false => self.commit_async(gate).await,
        }
    }

    /// Makes the changes known to all in one step, or none of them. Where there is a log, once they
    /// are on disk, if the setting `log_sync` says so.
    ///
    /// # Errors
    /// [`TransactionError`] where another transaction was first; a region that a tier has no room
    /// for; what the log reports.
    pub fn commit(&self) -> Result<(), TableError> {
        self.append(&CommitGate::default())?.wait()
    }

    /// The same up to where it waits for the disk: for whoever must not keep its thread. None where the lock for
    /// commits is somebody else's for longer, or something is defined, and the transaction is as it was.
    ///
    /// # Errors
    /// As [`Self::commit_async`].
    pub fn try_commit(&self, gate: &CommitGate) -> Result<Option<WaitingCommit>, TableError> {
        if self.definitions.lock().is_some() {
            return Ok(None);
        }
        gate.check()?;
        let mut changes = self.changes.lock();
        let record = match changes.as_ref() {
            Some(changes) => self.record(changes, gate)?,
            None => None,
        };
        let Some(commits) = self.database.lock_within(LOCK_PATIENCE) else {
            return Ok(None);
        };
        let is_settled = |changes: &Changes| changes.values().all(|change| change.is_settled());
        if !changes.as_ref().is_none_or(is_settled) {
            return Ok(None);
        }
        let locks = self.locks.lock();
        let is_locked = |table| self.database.row_locks().has_table(table);
        let all = changes.iter().flat_map(Changes::values).map(Box::as_ref);
        if self.meets_locked_tables() && !may_change(locks.as_ref(), is_locked, all) {
            return Ok(None);
        }
        drop(locks);
        let mut pending = self.pending(changes.take().unwrap_or_default());
        if pending.changes.is_empty() {
            let registration = pending.registration.take();
            registration.map_or(Ok(()), |own| own.end_reading(&commits))?;
            return Ok(Some(WaitingCommit::new(pending)));
        }
        self.database.check_owner()?;
        pending.install(commits, record, gate)?;
        Ok(Some(WaitingCommit::new(pending)))
    }

    /// Ends a statement that is a transaction of its own and has changed nothing: what it has read is part of the order of
    /// serializable transactions, as if it had committed. Nothing for others.
    ///
    /// # Errors
    /// [`TransactionError::NotSerializable`].
    pub fn end_reading(&self) -> Result<(), TransactionError> {
        let has_changed = |changes: &Changes| !changes.is_empty();
        let is_another = self.is_explicit()
            || self.has_failed()
            || self.changes.lock().as_ref().is_none_or(has_changed);
        if is_another {
            return Ok(());
        }
        let registration = self.registration.lock().take();
        registration.map_or(Ok(()), |own| own.end_reading(&self.database.lock()))
    }

    /// Whether few rows of few statements are changed, so that the commit is soon done.
    pub fn is_small(&self) -> bool {
        let changes = self.changes.lock();
        let mut changes = changes.iter().flat_map(Changes::values);
        changes.all(|change| change.is_small())
    }

    /// The same without holding on to a thread of the runtime while the disk writes, but for those that
    /// [may wait](crate::transaction::waiting_here), and only if `gate` lets it through. From there on the commit comes to its end whether or not the future is
    /// polled again.
    ///
    /// # Errors
    /// As [`Self::commit`]; [`TableError::Cancelled`], and nothing is changed.
    pub async fn commit_async(&self, gate: &CommitGate) -> Result<(), TableError> {
        let commit = self.append(gate)?;
        match may_wait() {
            true => commit.wait(),
            false => commit.settled().await,
        }
    }

    /// Commits what was done, and what was defined: `entered` are tables that are new, or take the places of others.
    /// `record` is what the log is told of them, whose last part are rows of tables that were there before.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_defining(
        &self,
        gate: &CommitGate,
        record: Option<Box<dyn CommitRecord + '_>>,
        entered: Vec<EnteredTable>,
    ) -> Result<(), TableError> {
        gate.check()?;
        let changes = self.changes.lock().take().unwrap_or_default();
        let mut pending = self.pending(changes);
        pending.entered = entered;
        let record = match self.database.log().zip(record) {
            Some((log, mut record)) => {
                let kept = pending.changes.values().filter(|c| c.table.is_kept());
                kept.into_iter()
                    .try_for_each(|change| tell(record.as_mut(), change))?;
                Some((log, record))
            }
            None => None,
        };
        self.install(&mut pending, record, gate)?;
        WaitingCommit::new(pending).wait()
    }

    /// Commits, but for what waits for the disk.
    fn append(&self, gate: &CommitGate) -> Result<WaitingCommit, TableError> {
        gate.check()?;
        let changes = self.changes.lock().take().unwrap_or_default();
        let mut pending = self.pending(changes);
        if pending.changes.is_empty() {
            let registration = pending.registration.take();
            registration.map_or(Ok(()), |own| own.end_reading(&self.database.lock()))?;
            return Ok(WaitingCommit::new(pending));
        }
        self.database.check_owner()?;
        let record = self.record(&pending.changes, gate)?;
        self.install(&mut pending, record, gate)?;
        Ok(WaitingCommit::new(pending))
    }

    /// Puts the changes in, once those that were added lie where their tables do.
    fn install(
        &self,
        pending: &mut PendingCommit,
        record: Option<Recorded<'_>>,
        gate: &CommitGate,
    ) -> Result<(), TableError> {
        loop {
            for change in pending.changes.values_mut() {
                change.settle(&self.database)?;
            }
            let commits = self.database.lock();
            if pending.changes.values().all(|change| change.is_settled()) {
                return pending.install(commits, record, gate);
            }
        }
    }

    fn pending(&self, changes: Changes) -> PendingCommit {
        PendingCommit {
            database: Arc::clone(&self.database),
            changes,
            entered: Vec::new(),
            position: None,
            registration: self.registration.lock().take(),
            locks: self.locks.lock().take(),
        }
    }

    /// What the log is told of `changes`; nothing where there is no log, or none of them are kept.
    fn record<'a>(
        &'a self,
        changes: &Changes,
        gate: &'a CommitGate,
    ) -> Result<Option<Recorded<'a>>, TableError> {
        let Some(log) = self.database.log() else {
            return Ok(None);
        };
        let mut kept = changes.values().filter(|c| c.table.is_kept()).peekable();
        if kept.peek().is_none() {
            return Ok(None);
        }
        let mut record = log.begin(gate)?;
        kept.try_for_each(|change| tell(record.as_mut(), change))?;
        Ok(Some((log, record)))
    }
}

/// Tells the log what was done to the rows of a table.
fn tell(record: &mut (dyn CommitRecord + '_), change: &Change) -> Result<(), TableError> {
    let table = &change.table;
    if change.is_truncated {
        record.truncate(table)?;
    }
    record.insert(table, &change.main)?;
    record.insert(table, &change.delta)?;
    record.delete(table, &change.deleted)
}
