//! A transaction: what it reads, what it has changed, and how that is committed.

mod commit;
mod definitions;
mod pending;
mod references;
mod tables;

pub use definitions::{EnteredTable, ReplacedTable, TakenTable};
pub use pending::WaitingCommit;

use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::database::{Database, DatabaseSnapshot};
use super::row_locks::{HeldLocks, LockMode, RowWait};
use super::rows::NewRows;
use super::savepoints::{Savepoints, State};
use super::serializable::Registration;
use super::table_change::{Change, Changes};
use crate::error::{TableError, TransactionError};
use crate::table::{KeyRange, Keys, RowId, Snapshot, Table, TableId, TableIndex};

/// What a transaction of several statements reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement, what was committed when that began.
    #[default]
    ReadCommitted,
    /// All of them, what was committed when the transaction began.
    Snapshot,
    /// The same, and what is committed can be explained by the transactions having run one after the other.
    Serializable,
}

/// What became of the locks of rows that a transaction is about to change.
#[derive(Debug)]
pub enum RowLock {
    /// They are its own, and the rows are as it has read them.
    Taken,
    /// Another transaction has changed one of the rows, and is over: what is read is to be
    /// [refreshed](Transaction::refresh).
    Changed,
    /// Another transaction has one of the rows.
    Held(RowWait),
}

/// What a transaction defines, as the layer above knows it. Savepoints keep it as it is: another one takes its place for
/// each statement that defines something.
pub type Definitions = Arc<dyn Any + Send + Sync>;

/// A transaction. It is undone when it is dropped before [`Self::commit`].
#[derive(Debug)]
pub struct Transaction {
    database: Arc<Database>,
    /// What it reads.
    read: Mutex<Arc<DatabaseSnapshot>>,
    isolation: Mutex<Isolation>,
    /// What it has read, if it is serializable.
    registration: Mutex<Option<Registration>>,
    /// Whether something was read.
    has_read: AtomicBool,
    /// Whether a statement has run that could have read something.
    has_queried: AtomicBool,
    /// Whether it is one of several statements, and its end is a statement too.
    is_explicit: bool,
    is_read_only: AtomicBool,
    has_failed: AtomicBool,
    /// Nothing after the commit.
    changes: Mutex<Option<Changes>>,
    /// Tables that are no part of the database snapshot: what was read of them first.
    others: Mutex<BTreeMap<TableId, Snapshot>>,
    /// The rows that it has locked, if there are any.
    locks: Mutex<Option<HeldLocks>>,
    savepoints: Mutex<Savepoints>,
    /// What it defines, as the layer above knows it.
    definitions: Mutex<Option<Definitions>>,
    /// The tables that foreign keys lead to which it has defined itself.
    referenced: Mutex<BTreeSet<TableId>>,
    /// Which constraints are checked at its end.
    deferral: Mutex<Deferral>,
}

/// Which constraints, of those that can be, are checked at the end of a transaction: as they were declared where nothing
/// was said.
#[derive(Debug, Default)]
struct Deferral {
    all: Option<bool>,
    /// Said of some by their names, since something was said of all.
    named: BTreeMap<String, bool>,
}

impl Transaction {
    /// A transaction of one statement, which commits what it changes.
    pub fn of_statement(database: &Arc<Database>) -> Arc<Self> {
        Self::begin(database, Isolation::ReadCommitted, false, false)
    }

    /// The same, as one of several statements that are all serializable.
    pub fn of_serializable_statement(database: &Arc<Database>, is_read_only: bool) -> Arc<Self> {
        Self::begin(database, Isolation::Serializable, false, is_read_only)
    }

    /// The same for a statement that may not change data.
    pub fn of_reader(database: &Arc<Database>) -> Arc<Self> {
        Self::begin(database, Isolation::ReadCommitted, false, true)
    }

    /// A transaction of several statements.
    pub fn explicit(
        database: &Arc<Database>,
        isolation: Isolation,
        is_read_only: bool,
    ) -> Arc<Self> {
        Self::begin(database, isolation, true, is_read_only)
    }

    fn begin(
        database: &Arc<Database>,
        isolation: Isolation,
        is_explicit: bool,
        is_read_only: bool,
    ) -> Arc<Self> {
        let (read, registration) = Self::open(database, isolation);
        Arc::new(Self {
            read: Mutex::new(read),
            database: Arc::clone(database),
            isolation: Mutex::new(isolation),
            registration: Mutex::new(registration),
            has_read: AtomicBool::new(false),
            has_queried: AtomicBool::new(false),
            is_explicit,
            is_read_only: AtomicBool::new(is_read_only),
            has_failed: AtomicBool::new(false),
            changes: Mutex::new(Some(BTreeMap::new())),
            others: Mutex::default(),
            locks: Mutex::default(),
            savepoints: Mutex::default(),
            definitions: Mutex::default(),
            referenced: Mutex::default(),
            deferral: Mutex::default(),
        })
    }

    /// What a transaction of this isolation reads that begins now.
    fn open(
        database: &Database,
        isolation: Isolation,
    ) -> (Arc<DatabaseSnapshot>, Option<Registration>) {
        match isolation {
            Isolation::Serializable => {
                let (read, registration) = database.open_serializable();
                (read, Some(registration))
            }
            Isolation::ReadCommitted | Isolation::Snapshot => (database.open(), None),
        }
    }

    /// What its statements read.
    pub fn isolation(&self) -> Isolation {
        *self.isolation.lock()
    }

    /// Has its statements read as `isolation` says, of which none has read anything yet.
    ///
    /// # Errors
    /// [`TransactionError::LateIsolation`].
    pub fn set_isolation(&self, isolation: Isolation) -> Result<(), TransactionError> {
        if isolation != self.isolation() && self.has_begun() {
            return Err(TransactionError::LateIsolation);
        }
        let before = std::mem::replace(&mut *self.isolation.lock(), isolation);
        if before != isolation && [before, isolation].contains(&Isolation::Serializable) {
            let (newest, registration) = Self::open(&self.database, isolation);
            *self.registration.lock() = registration;
            let before = std::mem::replace(&mut *self.read.lock(), newest);
            self.database.close(&before);
        }
        Ok(())
    }

    /// Says that a statement has run that could have read something.
    pub fn note_query(&self) {
        self.has_queried.store(true, Ordering::Relaxed);
    }

    /// Whether something was asked, read or changed.
    fn has_begun(&self) -> bool {
        let changes = self.changes.lock();
        self.has_queried.load(Ordering::Relaxed)
            || self.has_read.load(Ordering::Relaxed)
            || changes.as_ref().is_some_and(|changes| !changes.is_empty())
    }

    /// Has a transaction that is read committed read what is committed now, under what it has done itself:
    /// for each of its statements that begins, and again when a row was changed by somebody else. Any other
    /// stays as it is.
    ///
    /// # Errors
    /// [`TransactionError::Conflict`]: another one has changed a row that it has changed too.
    pub fn refresh(&self) -> Result<(), TableError> {
        if self.isolation() != Isolation::ReadCommitted {
            return Ok(());
        }
        let mut changes = self.changes.lock();
        let mut read = self.read.lock();
        if Arc::ptr_eq(&read, &self.database.snapshot()) {
            return Ok(());
        }
        let newest = self.database.open();
        let mut changed = changes.iter_mut().flat_map(BTreeMap::values_mut);
        let rebased = changed.try_for_each(|change| change.rebase(&newest));
        let before = std::mem::replace(&mut *read, newest);
        drop(read);
        self.database.close(&before);
        self.others.lock().clear();
        rebased
    }

    /// Locks all rows of a table, which it is about to change, until it ends.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`].
    pub fn lock_all(&self, table: &Table) -> Result<RowLock, TransactionError> {
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        let wait = held.lock_all(table.id())?;
        Ok(wait.map_or(RowLock::Taken, RowLock::Held))
    }

    /// Locks rows of a table, which it has read, until it ends: alone where it is about to change them, or shared
    /// with others that do not.
    ///
    /// # Errors
    /// [`TransactionError::Conflict`] where another one has changed a row since a transaction that reads one
    /// snapshot began; [`TransactionError::Deadlock`].
    pub fn lock(
        &self,
        table: &Table,
        rows: &[RowId],
        mode: LockMode,
    ) -> Result<RowLock, TransactionError> {
        if table.owner().is_none() {
            return Ok(RowLock::Taken);
        }
        let read = Arc::clone(&self.read.lock());
        let Some(base) = read.table(table) else {
            return Ok(RowLock::Taken);
        };
        let changes = self.changes.lock();
        let has_own = changes
            .as_ref()
            .is_some_and(|all| all.contains_key(&table.id()));
        drop(changes);
        // Those that it has added itself are nobody else's.
        let is_others = |row: &RowId| !has_own || base.locate(*row).is_some();
        let others: Vec<RowId> = rows.iter().copied().filter(is_others).collect();
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        if let Some(wait) = held.lock(table.id(), &others, mode)? {
            return Ok(RowLock::Held(wait));
        }
        let visible = self.database.snapshot();
        let is_there = |row: &RowId| {
            visible
                .table(table)
                .is_some_and(|t| t.locate(*row).is_some())
        };
        let is_same = Arc::ptr_eq(&read, &visible) || others.iter().all(is_there);
        match (is_same, self.isolation()) {
            (true, _) => Ok(RowLock::Taken),
            (false, Isolation::ReadCommitted) => Ok(RowLock::Changed),
            (false, Isolation::Snapshot | Isolation::Serializable) => {
                Err(TransactionError::Conflict {
                    table: table.name().to_owned(),
                })
            }
        }
    }

    /// Locks keys of a table until it ends, by [their numbers](Keys::numbers): those that a row may get of whom two
    /// transactions want to add one each.
    ///
    /// # Errors
    /// [`TransactionError::Deadlock`].
    pub fn lock_keys(&self, table: &Table, keys: &[u64]) -> Result<RowLock, TransactionError> {
        if table.owner().is_none() {
            return Ok(RowLock::Taken);
        }
        let mut locks = self.locks.lock();
        let held = locks.get_or_insert_with(|| self.database.row_locks().hold());
        let wait = held.lock_keys(table.id(), keys)?;
        Ok(wait.map_or(RowLock::Taken, RowLock::Held))
    }

    /// Begins a part of it that can be undone by itself.
    pub fn set_savepoint(&self, name: &str) {
        let state = State {
            changes: self.changes.lock().clone(),
            definitions: self.definitions(),
            tables: self.locks.lock().as_ref().map_or(0, HeldLocks::tables),
        };
        self.savepoints.lock().set(name, state);
    }

    /// Forgets a savepoint and those after it; what was done since stays.
    ///
    /// # Errors
    /// [`TransactionError::NoSavepoint`].
    pub fn release_savepoint(&self, name: &str) -> Result<(), TransactionError> {
        self.savepoints.lock().release(name)
    }

    /// Undoes what was done since a savepoint, and an error since then. Rows that were locked stay so, tables do not.
    ///
    /// # Errors
    /// [`TransactionError::NoSavepoint`].
    pub fn roll_back_to(&self, name: &str) -> Result<(), TableError> {
        let before = self.savepoints.lock().roll_back_to(name)?;
        let mut changes = self.changes.lock();
        if changes.is_none() {
            return Err(TransactionError::Over.into());
        }
        *changes = before.changes;
        *self.definitions.lock() = before.definitions;
        if let Some(locks) = self.locks.lock().as_mut() {
            locks.release_tables(before.tables);
        }
        let read = Arc::clone(&self.read.lock());
        let mut changed = changes.iter_mut().flat_map(BTreeMap::values_mut);
        changed.try_for_each(|change| change.rebase(&read))?;
        self.has_failed.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Undoes it, and lets others go on that wait for it, where somebody still reads its rows.
    pub fn roll_back(&self) {
        let changes = self.changes.lock().take();
        let locks = self.locks.lock().take();
        let registration = self.registration.lock().take();
        let definitions = self.definitions.lock().take();
        drop((changes, locks, registration, definitions));
    }

    /// Whether it goes on after the statement.
    pub fn is_explicit(&self) -> bool {
        self.is_explicit
    }

    /// Refuses all that follows, where it goes on after the statement. Others need not wait for it any
    /// longer, unless it can go on from a savepoint.
    pub fn fail(&self) {
        if !self.is_explicit {
            return;
        }
        self.has_failed.store(true, Ordering::Relaxed);
        if self.savepoints.lock().is_empty() {
            self.roll_back();
        }
    }

    /// Whether a statement of it has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Refuses all of its statements that would change data from now on.
    pub fn set_read_only(&self) {
        self.is_read_only.store(true, Ordering::Relaxed);
    }

    /// Refuses a statement that changes data where that may not be.
    ///
    /// # Errors
    /// [`TransactionError::ReadOnly`].
    pub fn check_writable(&self, statement: &'static str) -> Result<(), TransactionError> {
        match self.is_read_only.load(Ordering::Relaxed) {
            true => Err(TransactionError::ReadOnly { statement }),
            false => Ok(()),
        }
    }

    /// What it reads of a table.
    ///
    /// # Errors
    /// [`TransactionError::TooNew`]; [`TransactionError::Conflict`] where it reads another definition of the table.
    pub fn snapshot(&self, table: &Table) -> Result<Snapshot, TransactionError> {
        if let Some(changes) = self.changes.lock().as_mut()
            && let Some(change) = changes.get_mut(&table.id())
        {
            return change.view();
        }
        self.base(table)
    }

    /// All of a table is read, or more of it than [`Self::find`] finds.
    pub fn reads_all(&self, table: &Table) {
        if let Some(registration) = self.registration.lock().as_ref() {
            registration.add_all(table.id());
        }
    }

    fn base(&self, table: &Table) -> Result<Snapshot, TransactionError> {
        self.has_read.store(true, Ordering::Relaxed);
        let read = Arc::clone(&self.read.lock());
        if let Some(snapshot) = read.table(table) {
            return Ok(snapshot.clone());
        }
        if self.is_explicit && table.owner().is_some() {
            let table_name = table.name().to_owned();
            return Err(match read.has_table(table.id()) {
                true => TransactionError::Conflict { table: table_name },
                false => TransactionError::TooNew { table: table_name },
            });
        }
        let mut others = self.others.lock();
        let known = others.get(&table.id());
        if let Some(known) = known.filter(|known| known.is_of(table)) {
            return Ok(known.clone());
        }
        let snapshot = table.snapshot();
        others.insert(table.id(), snapshot.clone());
        Ok(snapshot)
    }

    /// Where the rows are, in the parts of [`Self::snapshot`], whose keys in `index` are in `range`. None where
    /// there are more than `rows_max`.
    ///
    /// # Errors
    /// Entries that can't be made; a table that the transaction does not see.
    pub fn find(
        &self,
        table: &Table,
        index: &Arc<TableIndex>,
        range: &KeyRange,
        rows_max: usize,
    ) -> Result<Option<Vec<(usize, usize)>>, TableError> {
        self.find_in((table, index, range), |snapshot, own| {
            index.find(snapshot, range, own, rows_max)
        })
    }

    /// The first `count` of the rows that [`Self::find`] finds, in the order of their keys.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_first(
        &self,
        table: &Table,
        index: &Arc<TableIndex>,
        range: &KeyRange,
        count: usize,
    ) -> Result<Vec<(usize, usize)>, TableError> {
        self.find_in((table, index, range), |snapshot, own| {
            index.find_first(snapshot, range, own, count)
        })
    }

    /// What `find` finds in what is read of a table, and among the entries from the beginning of a range on that
    /// the transaction has made itself.
    fn find_in<T>(
        &self,
        (table, index, range): (&Table, &Arc<TableIndex>, &KeyRange),
        find: impl FnOnce(&Snapshot, &mut dyn Iterator<Item = (&[u8], RowId)>) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        if let Some(registration) = self.registration.lock().as_ref() {
            registration.add_range(table.id(), index, range);
        }
        let mut changes = self.changes.lock();
        let change = changes.as_mut();
        let Some(change) = change.and_then(|all| all.get_mut(&table.id())) else {
            let snapshot = self.base(table)?;
            return find(&snapshot, &mut std::iter::empty());
        };
        // The rows that are entered are those of what was read first.
        index.entries(&change.base)?;
        let view = change.view()?;
        let mut own = change.indexes.entries_from(index, range.from());
        find(&view, &mut own)
    }

    /// Where the row is, in the parts of [`Self::snapshot`], that has each of `keys` in a unique index. A key
    /// with a null is no row's.
    ///
    /// # Errors
    /// [`TransactionError::Conflict`] where a row that others have added has the key, and the transaction
    /// reads a snapshot from before that; entries that can't be made.
    pub fn find_keys(
        &self,
        table: &Table,
        index: &Arc<TableIndex>,
        keys: &Keys,
    ) -> Result<Vec<Option<(usize, usize)>>, TableError> {
        self.reads_all(table);
        self.find_known_keys(table, index, keys)
    }

    /// The same without a trace in what a serializable transaction has read: what keeps the answer true is a lock.
    ///
    /// # Errors
    /// As [`Self::find_keys`].
    pub fn find_known_keys(
        &self,
        table: &Table,
        index: &Arc<TableIndex>,
        keys: &Keys,
    ) -> Result<Vec<Option<(usize, usize)>>, TableError> {
        let mut changes = self.changes.lock();
        let mut change = changes.as_mut().and_then(|all| all.get_mut(&table.id()));
        let base = self.base(table)?;
        let view = match &mut change {
            Some(change) => change.view()?,
            None => base.clone(),
        };
        let change = change.as_deref();
        let visible = self.database.snapshot();
        let newest = visible.table(table);
        let entries = index.entries(&base)?;
        let found = keys.iter().map(|(key, has_null)| {
            if has_null {
                return Ok(None);
            }
            let own = change.and_then(|change| change.indexes.entry(index, key));
            let mut known = own.into_iter().chain(entries.get(key));
            let place = known.find_map(|row| view.locate(row));
            let is_later = |row| {
                base.locate(row).is_none()
                    && newest.is_some_and(|newest| newest.locate(row).is_some())
            };
            match place.is_none() && entries.get(key).any(is_later) {
                true => Err(TransactionError::Conflict {
                    table: table.name().to_owned(),
                }
                .into()),
                false => Ok(place),
            }
        });
        found.collect()
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
        self.replace(table, ids, NewRows::none(table))
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
        self.change(table, |change, _| change.truncate())
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
            .or_insert_with(|| {
                self.note_table(table);
                let is_referenced_here = self.referenced.lock().contains(&table.id());
                Box::new(Change::new(table, base, is_referenced_here))
            });
        make(change, &self.database)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.database.close(self.read.get_mut());
    }
}
