//! What is left of a commit once its changes are in.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::thread;

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

/// A log, and what it was told of a transaction.
pub(super) type Recorded<'a> = (&'a dyn CommitLog, Box<dyn CommitRecord + 'a>);

/// A commit that others see once it is on disk. It comes to its end whether or not anybody waits for that: where it
/// is dropped before, another thread waits.
#[derive(Debug)]
pub struct WaitingCommit(Option<PendingCommit>);

impl WaitingCommit {
    pub(super) fn new(pending: PendingCommit) -> Self {
        Self(Some(pending))
    }

    /// Whether its end takes the disk.
    pub fn is_waiting(&self) -> bool {
        self.log().is_some()
    }

    /// Where the log must be on disk.
    fn log(&self) -> Option<(&dyn CommitLog, u64)> {
        let pending = self.0.as_ref()?;
        Some((pending.database.log()?, pending.position?))
    }

    /// Ends it, and keeps the thread until it is on disk.
    ///
    /// # Errors
    /// A disk that can't be written: nothing is changed, unless the error says that this is in doubt.
    pub fn wait(mut self) -> Result<(), TableError> {
        self.0.take().map_or(Ok(()), PendingCommit::finish)
    }

    /// The same without keeping the thread.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn settled(self) -> Result<(), TableError> {
        if let Some((log, position)) = self.log() {
            poll_fn(|context| match log.is_settled(position, context.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
        self.wait()
    }
}

impl Drop for WaitingCommit {
    fn drop(&mut self) {
        let Some(pending) = self.0.take() else {
            return;
        };
        let pending = Arc::new(Mutex::new(Some(pending)));
        let finish = |pending: &Mutex<Option<PendingCommit>>| {
            let finished = pending.lock().take().map_or(Ok(()), PendingCommit::finish);
            if let Err(error) = finished {
                tracing::error!(%error, "a commit that nobody waits for has failed");
            }
        };
        let given = Arc::clone(&pending);
        let thread = thread::Builder::new().name("nearfar-commit".to_owned());
        if thread.spawn(move || finish(&given)).is_err() {
            finish(&pending);
        }
    }
}

/// A commit that is in memory, and perhaps not on disk.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub database: Arc<Database>,
    pub changes: Changes,
    /// Tables that are new, or take the places of others.
    pub entered: Vec<EnteredTable>,
    /// Where the log must be on disk before it is seen.
    pub position: Option<u64>,
    pub registration: Option<Registration>,
    /// Let go of when others see the commit, or it has failed.
    pub locks: Option<HeldLocks>,
}

impl PendingCommit {
    /// Puts the changes, which are settled, into the newest snapshot, and what the log was told of them
    /// into the log.
    pub fn install(
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
            let late_onto = newest.table(&change.table).filter(|_| *is_late);
            let added = entries.add(&change.indexes, result, late_onto);
            added.map_err(|error| error.of_table(change.table.full_name()))?;
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
