//! How a transaction is committed.

use std::sync::Arc;
use std::time::Duration;

use super::Transaction;
use super::definitions::EnteredTable;
use super::tables::may_change;
use crate::error::{TableError, TransactionError};
use crate::table::{CommitGate, Table};
use crate::transaction::database::{Commits, Database};
use crate::transaction::keys::AddedEntries;
use crate::transaction::log::{CommitLog, CommitRecord};
use crate::transaction::row_locks::HeldLocks;
use crate::transaction::serializable::Registration;
use crate::transaction::table_change::{Change, Changes};
use crate::transaction::waiting::may_wait;

/// How long whoever must not wait does wait for the lock for commits: longer than a small commit takes.
const LOCK_PATIENCE: Duration = Duration::from_micros(500);

/// A log, and what it was told of a transaction.
type Recorded<'a> = (&'a dyn CommitLog, Box<dyn CommitRecord + 'a>);

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
        self.append(&CommitGate::default())?.finish()
    }

    /// The same where that needs no wait: for whoever must not keep its thread. False where the lock for
    /// commits is somebody else's for longer, there is a log, or something is defined, and the transaction is as it was.
    ///
    /// # Errors
    /// As [`Self::commit_async`].
    pub fn try_commit(&self, gate: &CommitGate) -> Result<bool, TableError> {
        if self.database.log().is_some() || self.definitions.lock().is_some() {
            return Ok(false);
        }
        gate.check()?;
        let Some(commits) = self.database.lock_within(LOCK_PATIENCE) else {
            return Ok(false);
        };
        let mut changes = self.changes.lock();
        let is_settled = |changes: &Changes| changes.values().all(|change| change.is_settled());
        if !changes.as_ref().is_none_or(is_settled) {
            return Ok(false);
        }
        let locks = self.locks.lock();
        let is_locked = |table| self.database.row_locks().has_table(table);
        let all = changes.iter().flat_map(Changes::values).map(Box::as_ref);
        if self.meets_locked_tables() && !may_change(locks.as_ref(), is_locked, all) {
            return Ok(false);
        }
        drop(locks);
        let changes = changes.take().unwrap_or_default();
        if changes.is_empty() {
            let registration = self.registration.lock().take();
            registration.map_or(Ok(()), |own| own.end_reading(&commits))?;
            self.locks.lock().take();
            return Ok(true);
        }
        self.database.check_owner()?;
        let mut pending = self.pending(changes);
        pending.install(commits, None, gate)?;
        pending.finish()?;
        Ok(true)
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
        // Nothing is awaited between the gate and the thread that waits for the disk.
        let commit = self.append(gate)?;
        if commit.position.is_none() || may_wait() {
            return commit.finish();
        }
        let finished = tokio::task::spawn_blocking(move || commit.finish());
        finished.await.map_err(|error| TableError::Internal {
            message: error.to_string(),
        })?
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
        pending.finish()
    }

    /// Commits, but for what waits for the disk.
    fn append(&self, gate: &CommitGate) -> Result<PendingCommit, TableError> {
        gate.check()?;
        let changes = self.changes.lock().take().unwrap_or_default();
        let mut pending = self.pending(changes);
        if pending.changes.is_empty() {
            let registration = pending.registration.take();
            registration.map_or(Ok(()), |own| own.end_reading(&self.database.lock()))?;
            return Ok(pending);
        }
        self.database.check_owner()?;
        let record = self.record(&pending.changes, gate)?;
        self.install(&mut pending, record, gate)?;
        Ok(pending)
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

/// A commit that is in memory, and perhaps not on disk.
#[derive(Debug)]
struct PendingCommit {
    database: Arc<Database>,
    changes: Changes,
    /// Tables that are new, or take the places of others.
    entered: Vec<EnteredTable>,
    /// Where the log must be on disk before it is seen.
    position: Option<u64>,
    registration: Option<Registration>,
    /// Let go of when others see the commit, or it has failed.
    locks: Option<HeldLocks>,
}

impl PendingCommit {
    /// Puts the changes, which are settled, into the newest snapshot, and what the log was told of them
    /// into the log.
    fn install(
        &mut self,
        commits: Commits<'_>,
        record: Option<Recorded<'_>>,
        gate: &CommitGate,
    ) -> Result<(), TableError> {
        let database = &self.database;
        let newest = commits.snapshot();
        self.check_locks()?;
        let mut replaced = self.entered.iter().filter_map(|it| it.replaced.as_ref());
        if let Some(changed) = replaced.find(|replaced| !replaced.is_same(&newest)) {
            let table = changed.table.name().to_owned();
            return Err(TransactionError::Conflict { table }.into());
        }
        let onto = self.changes.values_mut();
        let onto = onto.map(|change| change.onto(&newest, database));
        let results = onto.collect::<Result<Vec<_>, TableError>>()?;
        let serializable = database.serializable();
        let serialized = serializable.check(self.registration.as_ref(), &self.changes)?;
        let mut entries = AddedEntries::default();
        for (change, (result, is_late)) in self.changes.values().zip(&results) {
            entries.add(&change.indexes, result, *is_late)?;
        }
        gate.pass()?;
        // Who changes nothing that is kept must not be seen before those that wait.
        self.position = commits.last_wait();
        if let Some((log, record)) = record {
            let position = record.commit()?;
            let waits = log.waits_for_disk() || self.position.is_some();
            self.position = waits.then_some(position);
        }
        entries.keep();
        let tables = self.changes.values();
        let tables = tables.map(|change| change.table.as_ref());
        let results = results.into_iter().map(|(result, _)| result);
        let changed = tables.zip(results).collect();
        let entered = self
            .entered
            .iter()
            .map(|entered| Arc::clone(&entered.table));
        let entered: Vec<Arc<Table>> = entered.collect();
        entered.iter().for_each(|table| database.own(table));
        commits.install_at(self.position, changed, &entered);
        if let Some(serialized) = serialized {
            serializable.record(serialized, commits.snapshot().number());
        }
        commits.bury(
            self.changes
                .values_mut()
                .flat_map(|change| change.dead_keys()),
        );
        Ok(())
    }

    /// Refuses to change a table that another transaction has locked since this one has last looked.
    fn check_locks(&self) -> Result<(), TransactionError> {
        let locks = self.database.row_locks();
        if !locks.has_tables() {
            return Ok(());
        }
        let is_locked = |table| locks.has_table(table);
        for change in self.changes.values() {
            if !may_change(self.locks.as_ref(), is_locked, std::iter::once(&**change)) {
                let table = change.table.name().to_owned();
                return Err(TransactionError::Conflict { table });
            }
        }
        Ok(())
    }

    /// Waits for the disk and lets all see the commit.
    fn finish(self) -> Result<(), TableError> {
        let database = &self.database;
        if let Some((position, log)) = self.position.zip(database.log()) {
            if let Err(error) = log.sync_to(position) {
                let tables = self.changes.values().map(|change| &change.table);
                database.take_back(log.durable(), tables);
                return Err(error);
            }
            database.publish(log.durable());
        }
        let adds_main = |change: &Change| !change.main.is_empty() || change.is_truncated;
        if self.changes.values().map(Box::as_ref).any(adds_main) {
            database.main_changed();
        }
        for change in self.changes.values() {
            database.merges().consider(database, &change.table);
        }
        Ok(())
    }
}
