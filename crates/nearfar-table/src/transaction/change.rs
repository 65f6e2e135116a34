//! A transaction: what it reads, what it has changed, and how that is committed.

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::database::{Commits, Database, DatabaseSnapshot};
use super::dead_keys::DeadKey;
use super::keys::{AddedEntries, ChangedRows, IndexChanges};
use super::log::{CommitLog, CommitRecord};
use super::rows::NewRows;
use crate::error::TableError;
use crate::error::TransactionError;
use crate::placement::ColumnPlacements;
use crate::table::{
    CommitGate, Part, RowId, RowIds, Segment, Snapshot, Table, TableId, TableIndex, delta_segment,
    join_small,
};

/// How long whoever must not wait does wait for the lock for commits: longer than a small commit takes.
const LOCK_PATIENCE: Duration = Duration::from_micros(500);

/// Rows that are changed by a small transaction at most.
const SMALL_ROWS: usize = 1 << 10;

/// What a transaction has done to one table.
#[derive(Debug)]
struct Change {
    table: Arc<Table>,
    /// What it read first.
    base: Snapshot,
    /// What it reads now.
    view: Snapshot,
    /// Segments that it added, and where their columns are.
    main: Vec<Part>,
    placed: ColumnPlacements,
    /// What it added to the delta, as one snapshot for as long as small parts are put together.
    delta: Vec<Part>,
    deleted: Vec<RowId>,
    is_truncated: bool,
    indexes: IndexChanges,
}

/// A log, and what it was told of a transaction.
type Recorded<'a> = (&'a dyn CommitLog, Box<dyn CommitRecord + 'a>);

/// A transaction. It is undone when it is dropped before [`Self::commit`].
#[derive(Debug)]
pub struct Transaction {
    database: Arc<Database>,
    begin: Arc<DatabaseSnapshot>,
    /// Whether it is one of several statements, and its end is a statement too.
    is_explicit: bool,
    is_read_only: bool,
    has_failed: AtomicBool,
    /// Nothing after the commit.
    changes: Mutex<Option<BTreeMap<TableId, Change>>>,
    /// Tables that are no part of the database snapshot: what was read of them first.
    others: Mutex<BTreeMap<TableId, Snapshot>>,
}

impl Transaction {
    /// A transaction of one statement, which commits what it changes.
    pub fn of_statement(database: &Arc<Database>) -> Arc<Self> {
        Self::begin(database, false, false)
    }

    /// The same for a statement that may not change data.
    pub fn of_reader(database: &Arc<Database>) -> Arc<Self> {
        Self::begin(database, false, true)
    }

    /// A transaction of several statements.
    pub fn explicit(database: &Arc<Database>, is_read_only: bool) -> Arc<Self> {
        Self::begin(database, true, is_read_only)
    }

    fn begin(database: &Arc<Database>, is_explicit: bool, is_read_only: bool) -> Arc<Self> {
        Arc::new(Self {
            begin: database.open(),
            database: Arc::clone(database),
            is_explicit,
            is_read_only,
            has_failed: AtomicBool::new(false),
            changes: Mutex::new(Some(BTreeMap::new())),
            others: Mutex::default(),
        })
    }

    /// Whether it goes on after the statement.
    pub fn is_explicit(&self) -> bool {
        self.is_explicit
    }

    /// Refuses all that follows, where it goes on after the statement.
    pub fn fail(&self) {
        self.has_failed.store(self.is_explicit, Ordering::Relaxed);
    }

    /// Whether a statement of it has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Refuses a statement that changes data where that may not be.
    ///
    /// # Errors
    /// [`TransactionError::ReadOnly`].
    pub fn check_writable(&self, statement: &'static str) -> Result<(), TransactionError> {
        match self.is_read_only {
            true => Err(TransactionError::ReadOnly { statement }),
            false => Ok(()),
        }
    }

    /// What it reads of a table.
    ///
    /// # Errors
    /// [`TransactionError::TooNew`].
    pub fn snapshot(&self, table: &Table) -> Result<Snapshot, TransactionError> {
        if let Some(changes) = self.changes.lock().as_ref()
            && let Some(change) = changes.get(&table.id())
        {
            return Ok(change.view.clone());
        }
        self.base(table)
    }

    fn base(&self, table: &Table) -> Result<Snapshot, TransactionError> {
        if let Some(snapshot) = self.begin.table(table) {
            return Ok(snapshot.clone());
        }
        if self.is_explicit && table.owner().is_some() {
            return Err(TransactionError::TooNew {
                table: table.name().to_owned(),
            });
        }
        let mut others = self.others.lock();
        let snapshot = others.entry(table.id()).or_insert_with(|| table.snapshot());
        Ok(snapshot.clone())
    }

    /// Where the rows are, in the parts of [`Self::snapshot`], whose first key columns in `index` have
    /// these values, one of each. None where they are more than `rows_max`, or the table has no such index
    /// for this transaction.
    ///
    /// # Errors
    /// Entries that can't be made; values of other types than the columns'.
    pub fn find(
        &self,
        table: &Table,
        index: &Arc<TableIndex>,
        values: &[ArrayRef],
        rows_max: usize,
    ) -> Result<Option<Vec<(usize, usize)>>, TableError> {
        let prefix = index.encoder().prefix(values)?;
        let has_null = values.iter().any(|value| value.is_null(0));
        let is_whole = values.len() == index.definition().columns.len();
        let key = (&*prefix, is_whole && index.is_alone(has_null));
        let changes = self.changes.lock();
        let change = changes.as_ref().and_then(|all| all.get(&table.id()));
        let Some(change) = change else {
            let snapshot = self.base(table)?;
            let own = std::iter::empty();
            return index.find(&snapshot, key, own, rows_max);
        };
        // The rows that are entered are those of what was read first.
        index.entries(&change.base)?;
        let own = change.indexes.rows_of(index, &prefix);
        index.find(&change.view, key, own, rows_max)
    }

    /// Adds rows to a table.
    ///
    /// # Errors
    /// A region that the near tier has no room for; [`TransactionError`]. Nothing is added then.
    pub fn insert(&self, table: &Arc<Table>, rows: NewRows) -> Result<(), TableError> {
        self.replace(table, Vec::new(), rows)
    }

    /// Deletes rows of a table that it has read.
    ///
    /// # Errors
    /// [`TransactionError`]. Nothing is deleted then.
    pub fn delete(&self, table: &Arc<Table>, ids: Vec<RowId>) -> Result<(), TableError> {
        let none = NewRows {
            segments: Vec::new(),
            placed: table.placements(),
            batches: Vec::new(),
        };
        self.replace(table, ids, none)
    }

    /// Deletes rows of a table that it has read, and adds others.
    ///
    /// # Errors
    /// As [`Self::insert`] and [`Self::delete`]; nothing is changed then.
    pub fn replace(
        &self,
        table: &Arc<Table>,
        ids: Vec<RowId>,
        rows: NewRows,
    ) -> Result<(), TableError> {
        if ids.is_empty() && rows.is_empty() {
            return Ok(());
        }
        self.change(table, |change, database| {
            change.replace(ids, rows, database)
        })
    }

    /// Deletes all rows of a table.
    ///
    /// # Errors
    /// [`TransactionError`].
    pub fn truncate(&self, table: &Arc<Table>) -> Result<(), TableError> {
        self.change(table, |change, _| {
            change.view = change.view.truncated()?;
            change.indexes = IndexChanges::of(&change.view);
            change.main.clear();
            change.delta.clear();
            change.deleted.clear();
            change.is_truncated = true;
            Ok(())
        })
    }

    fn change(
        &self,
        table: &Arc<Table>,
        make: impl FnOnce(&mut Change, &Database) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        self.check_writable("a statement that changes rows")?;
        let base = self.base(table)?;
        let mut changes = self.changes.lock();
        let change = changes
            .as_mut()
            .ok_or(TransactionError::Over)?
            .entry(table.id())
            .or_insert_with(|| Change::new(table, base));
        make(change, &self.database)
    }

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
    /// commits is somebody else's for longer, or there is a log, and the transaction is as it was.
    ///
    /// # Errors
    /// As [`Self::commit_async`].
    pub fn try_commit(&self, gate: &CommitGate) -> Result<bool, TableError> {
        if self.database.log().is_some() {
            return Ok(false);
        }
        gate.check()?;
        let Some(commits) = self.database.lock_within(LOCK_PATIENCE) else {
            return Ok(false);
        };
        let mut changes = self.changes.lock();
        let is_settled =
            |changes: &BTreeMap<TableId, Change>| changes.values().all(Change::is_settled);
        if !changes.as_ref().is_none_or(is_settled) {
            return Ok(false);
        }
        let changes = changes.take().unwrap_or_default();
        if changes.is_empty() {
            return Ok(true);
        }
        self.database.check_owner()?;
        let mut pending = PendingCommit::new(&self.database, changes);
        pending.install(commits, None, gate)?;
        pending.finish()?;
        Ok(true)
    }

    /// Whether few rows of few statements are changed, so that the commit is soon done.
    pub fn is_small(&self) -> bool {
        let changes = self.changes.lock();
        let mut changes = changes.iter().flat_map(BTreeMap::values);
        changes.all(Change::is_small)
    }

    /// The same without holding on to a thread of the runtime while the disk writes, and only if
    /// `gate` lets it through. From there on the commit comes to its end whether or not the future is
    /// polled again.
    ///
    /// # Errors
    /// As [`Self::commit`]; [`TableError::Cancelled`], and nothing is changed.
    pub async fn commit_async(&self, gate: &CommitGate) -> Result<(), TableError> {
        // Nothing is awaited between the gate and the thread that waits for the disk.
        let commit = self.append(gate)?;
        if commit.position.is_none() {
            return commit.finish();
        }
        let finished = tokio::task::spawn_blocking(move || commit.finish());
        finished.await.map_err(|error| TableError::Internal {
            message: error.to_string(),
        })?
    }

    /// Commits, but for what waits for the disk.
    fn append(&self, gate: &CommitGate) -> Result<PendingCommit, TableError> {
        gate.check()?;
        let changes = self.changes.lock().take().unwrap_or_default();
        let mut pending = PendingCommit::new(&self.database, changes);
        if pending.changes.is_empty() {
            return Ok(pending);
        }
        self.database.check_owner()?;
        let record = self.record(&pending.changes, gate)?;
        loop {
            for change in pending.changes.values_mut() {
                change.settle(&self.database)?;
            }
            let commits = self.database.lock();
            if pending.changes.values().all(Change::is_settled) {
                pending.install(commits, record, gate)?;
                return Ok(pending);
            }
        }
    }

    /// What the log is told of `changes`; nothing where there is no log, or none of them are kept.
    fn record<'a>(
        &'a self,
        changes: &BTreeMap<TableId, Change>,
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
        for change in kept {
            let table = &change.table;
            if change.is_truncated {
                record.truncate(table)?;
            }
            record.insert(table, &change.main)?;
            record.insert(table, &change.delta)?;
            record.delete(table, &change.deleted)?;
        }
        Ok(Some((log, record)))
    }
}

/// A commit that is in memory, and perhaps not on disk.
#[derive(Debug)]
struct PendingCommit {
    database: Arc<Database>,
    changes: BTreeMap<TableId, Change>,
    /// Where the log must be on disk before it is seen.
    position: Option<u64>,
}

impl PendingCommit {
    fn new(database: &Arc<Database>, changes: BTreeMap<TableId, Change>) -> Self {
        Self {
            database: Arc::clone(database),
            changes,
            position: None,
        }
    }

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
        let onto = self.changes.values_mut();
        let onto = onto.map(|change| change.onto(&newest, database));
        let results = onto.collect::<Result<Vec<_>, TableError>>()?;
        let mut entries = AddedEntries::default();
        for (change, result) in self.changes.values().zip(&results) {
            entries.add(&change.indexes, result, !result.is(&change.view))?;
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
        commits.install_at(self.position, tables.zip(results).collect());
        commits.bury(self.changes.values_mut().flat_map(Change::dead_keys));
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
        if self.changes.values().any(adds_main) {
            database.main_changed();
        }
        for change in self.changes.values() {
            database.merges().consider(database, &change.table);
        }
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.database.close(&self.begin);
    }
}

impl Change {
    fn new(table: &Arc<Table>, base: Snapshot) -> Self {
        let indexes = IndexChanges::of(&base);
        Self {
            table: Arc::clone(table),
            view: base.clone(),
            base,
            main: Vec::new(),
            placed: table.placements(),
            delta: Vec::new(),
            deleted: Vec::new(),
            is_truncated: false,
            indexes,
        }
    }

    fn replace(
        &mut self,
        ids: Vec<RowId>,
        rows: NewRows,
        database: &Database,
    ) -> Result<(), TableError> {
        let table = &self.table;
        let whole = |segment: Arc<Segment>| {
            let rows = segment.rows();
            let ids = RowIds::consecutive(table.take_row_ids(rows), rows);
            Part::whole(segment, ids)
        };
        let storage = &table.storage(database.storage());
        let delta = match rows.batches.is_empty() {
            true => None,
            false => Some(whole(delta_segment(
                table.schema(),
                &rows.batches,
                storage,
            )?)),
        };
        let main: Vec<Part> = rows.segments.into_iter().map(whole).collect();
        if !main.is_empty() && rows.placed != self.placed {
            table.place(&main, &self.placed, storage)?;
        }
        let gone = |_| TransactionError::Conflict {
            table: table.name().to_owned(),
        };
        let view = self.view.without(&ids).map_err(gone)?;
        let new = [&main[..], delta.as_slice()].concat();
        let view = join_small(view.appended(&main, delta.as_slice()), storage)?;
        let rows = ChangedRows {
            before: &self.view,
            after: &view,
            deleted: &ids,
            new: &new,
        };
        self.indexes.add(&rows)?;
        let own = Snapshot::of_main(Arc::clone(table.schema()), Vec::new());
        let own = join_small(
            own.appended(&[], &[&self.delta[..], delta.as_slice()].concat()),
            storage,
        )?;
        self.delta = own.delta().to_vec();
        self.main.extend(main);
        self.deleted.extend(ids);
        self.view = view;
        Ok(())
    }

    fn is_small(&self) -> bool {
        let delta_rows: usize = self.delta.iter().map(Part::rows).sum();
        self.main.is_empty() && !self.is_truncated && delta_rows + self.deleted.len() <= SMALL_ROWS
    }

    fn is_settled(&self) -> bool {
        self.main.is_empty() || self.placed == self.table.placements()
    }

    /// Moves the segments that were added to where the table has been moved meanwhile.
    fn settle(&mut self, database: &Database) -> Result<(), TableError> {
        while !self.is_settled() {
            let wanted = self.table.placements();
            self.table.place(&self.main, &wanted, database.storage())?;
            self.placed = wanted;
        }
        Ok(())
    }

    /// The table's newest snapshot with this change.
    fn onto(
        &mut self,
        newest: &DatabaseSnapshot,
        database: &Database,
    ) -> Result<Snapshot, TableError> {
        let table = || self.table.name().to_owned();
        let known = newest.table(&self.table);
        let current = known.ok_or_else(|| TransactionError::Dropped { table: table() })?;
        if current.is(&self.base) {
            return Ok(self.view.clone());
        }
        if self.is_truncated {
            return match current.has_rows_of(&self.base) {
                true => Ok(self.view.clone()),
                false => Err(TransactionError::TruncateConflict { table: table() }.into()),
            };
        }
        let conflict = |_| TransactionError::Conflict { table: table() };
        let appended = current.appended(&self.main, &self.delta);
        let changed = appended.without(&self.deleted).map_err(conflict)?;
        let own = [&self.main[..], &self.delta[..]].concat();
        self.indexes
            .meet((current, &changed), &own, &self.deleted)?;
        join_small(changed, &self.table.storage(database.storage()))
    }

    /// The entries of the rows that it has deleted, once it is committed.
    fn dead_keys(&mut self) -> Vec<DeadKey> {
        std::mem::take(&mut self.indexes).into_dead_keys(&self.table)
    }
}
