//! The newest snapshot of all tables.

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::dead_keys::{DeadKey, DeadKeys};
use super::log::CommitLog;
use super::merges::{MergeLimits, Merges};
use super::row_locks::RowLocks;
use super::serializable::{Registration, Serializable};
use crate::error::TableError;
use crate::placement::Storage;
use crate::table::{CommitsHeld, Snapshot, Table, TableId, TableOwner};

/// The tables of an engine at one moment.
#[derive(Debug, Clone, Default)]
pub struct DatabaseSnapshot {
    tables: HashMap<TableId, Snapshot>,
    /// One more than that of the snapshot that it was made of by a commit.
    number: u64,
}

impl DatabaseSnapshot {
    /// What it has of a table, if that is part of it under this definition.
    pub fn table(&self, table: &Table) -> Option<&Snapshot> {
        let known = self.tables.get(&table.id());
        known.filter(|known| known.is_of(table))
    }

    /// Whether a table is part of it.
    pub fn has_table(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }

    /// How many commits it has behind it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Tables whose rows are others than in `before`.
    pub(super) fn tables_changed_since(&self, before: &Self) -> HashSet<TableId> {
        let has_changed = |&(id, snapshot): &(&TableId, &Snapshot)| {
            let before = before.tables.get(id);
            before.is_none_or(|before| !snapshot.has_rows_of(before))
        };
        let changed = self.tables.iter().filter(has_changed);
        changed.map(|(id, _)| *id).collect()
    }
}

/// What is committed, and how much of it is known to all.
#[derive(Debug, Default)]
struct DatabaseSnapshots {
    /// What transactions that begin now read.
    visible: Arc<DatabaseSnapshot>,
    /// What was committed last, which the next commit changes.
    newest: Arc<DatabaseSnapshot>,
    /// Those that are seen once the log is on disk up to their positions, in their order. The
    /// last is the newest.
    waiting: VecDeque<(u64, Arc<DatabaseSnapshot>)>,
}

impl DatabaseSnapshots {
    /// Takes in a newer one: to be seen immediately, or once the log is on disk up to `position`.
    /// One that waits for nothing of its own waits for those before it.
    fn push(&mut self, snapshot: Arc<DatabaseSnapshot>, position: Option<u64>) {
        self.newest = Arc::clone(&snapshot);
        match position.or(self.last_wait()) {
            Some(position) => self.waiting.push_back((position, snapshot)),
            None => self.visible = snapshot,
        }
    }

    fn last_wait(&self) -> Option<u64> {
        self.waiting.back().map(|(position, _)| *position)
    }

    /// Lets all see what is on disk. Returns what is no longer needed.
    fn publish(&mut self, durable: u64) -> Vec<Arc<DatabaseSnapshot>> {
        let mut before = Vec::new();
        while let Some((_, snapshot)) = self.waiting.pop_front_if(|(at, _)| *at <= durable) {
            before.push(std::mem::replace(&mut self.visible, snapshot));
        }
        before
    }

    /// Forgets what waits and is not on disk. Returns what is no longer needed.
    fn take_back(&mut self, durable: u64) -> Vec<Arc<DatabaseSnapshot>> {
        let mut before = self.publish(durable);
        before.extend(self.waiting.drain(..).map(|(_, snapshot)| snapshot));
        before.push(std::mem::replace(
            &mut self.newest,
            Arc::clone(&self.visible),
        ));
        before
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Arc<DatabaseSnapshot>> {
        let waiting = self.waiting.iter_mut().map(|(_, snapshot)| snapshot);
        [&mut self.visible, &mut self.newest]
            .into_iter()
            .chain(waiting)
    }
}

/// Who is told of changes of main storage.
struct MainObserver(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for MainObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MainObserver")
    }
}

impl TableOwner for Database {
    fn hold_commits(&self) -> Box<dyn CommitsHeld + '_> {
        Box::new(self.lock())
    }

    fn forget(&self, table: &Table) {
        self.forget(table);
    }
}

impl CommitsHeld for Commits<'_> {}

/// The tables of an engine, and their changes.
#[derive(Debug)]
pub struct Database {
    storage: Storage,
    snapshots: RwLock<DatabaseSnapshots>,
    /// Whether rows keep their identities for good.
    is_durable: bool,
    /// Where changes are written before they count; none while what is on disk is read.
    log: OnceLock<Arc<dyn CommitLog>>,
    /// Held by the one commit, or the one merge or move, that is putting its result in.
    commit: Mutex<()>,
    /// Transactions that have begun and not ended, by the numbers of the snapshots that they read.
    open: Mutex<BTreeMap<u64, usize>>,
    dead_keys: DeadKeys,
    row_locks: Arc<RowLocks>,
    serializable: Arc<Serializable>,
    merges: Merges,
    /// Who is told of changes of main storage.
    observer: OnceLock<MainObserver>,
}

impl Database {
    /// A database without tables, whose rows are put into `storage`.
    pub fn new(storage: Storage, limits: MergeLimits) -> Arc<Self> {
        Self::with_identities(storage, limits, false)
    }

    /// A database without tables whose rows are known by their identities in a log, which a merge
    /// must not change.
    pub fn durable(storage: Storage, limits: MergeLimits) -> Arc<Self> {
        Self::with_identities(storage, limits, true)
    }

    fn with_identities(storage: Storage, limits: MergeLimits, is_durable: bool) -> Arc<Self> {
        Arc::new(Self {
            storage,
            snapshots: RwLock::default(),
            is_durable,
            log: OnceLock::new(),
            commit: Mutex::new(()),
            open: Mutex::default(),
            dead_keys: DeadKeys::default(),
            row_locks: Arc::default(),
            serializable: Arc::default(),
            merges: Merges::new(limits),
            observer: OnceLock::new(),
        })
    }

    /// Where rows are put.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The merges of its tables.
    pub fn merges(&self) -> &Merges {
        &self.merges
    }

    /// The log, where there is a data directory.
    pub fn log(&self) -> Option<&dyn CommitLog> {
        self.log.get().map(Arc::as_ref)
    }

    /// Has all changes from now on written to `log`.
    pub fn set_log(&self, log: Arc<dyn CommitLog>) {
        self.log.get_or_init(|| log);
    }

    /// Whether this process may change what there is: where main storage is in a pool, as long as
    /// that is its own.
    ///
    /// # Errors
    /// Another process has taken it over.
    pub fn check_owner(&self) -> Result<(), TableError> {
        let pool = self.storage.pool.as_ref();
        pool.map_or(Ok(()), |pool| pool.check_owner())
    }

    /// Calls `observer` after every change of main storage or of definitions from now on. Once.
    pub fn on_main_changed(&self, observer: impl Fn() + Send + Sync + 'static) {
        self.observer
            .get_or_init(|| MainObserver(Box::new(observer)));
    }

    /// To be called after main storage or definitions have changed, without a lock.
    pub fn main_changed(&self) {
        if let Some(MainObserver(observer)) = self.observer.get() {
            observer();
        }
    }

    /// Makes `table` part of the database, in place of one of the same identity.
    pub fn add(self: &Arc<Self>, table: &Arc<Table>) {
        let _no_commits = self.lock();
        self.own(table);
        let (id, snapshot) = (table.id(), table.snapshot());
        self.change_all(|snapshots| {
            snapshots.insert(id, snapshot.clone());
        });
    }

    /// Has a table's changes committed here from now on.
    pub(super) fn own(self: &Arc<Self>, table: &Table) {
        let owner: Arc<dyn TableOwner> = Arc::clone(self) as _;
        table.enter(Arc::downgrade(&owner));
        self.settle_indexes(&table.snapshot());
    }

    /// Has new indexes take their nodes from the memory that segments come from.
    fn settle_indexes(&self, snapshot: &Snapshot) {
        let indexes = snapshot.indexes().iter();
        indexes.for_each(|index| index.settle(&self.storage));
    }

    /// Takes a table out, unless it is there under another definition: transactions that have changed it can't commit.
    pub fn forget(&self, table: &Table) {
        self.change_all(|snapshots| forget_in(snapshots, table));
    }

    /// The lock for commits. No table must be let go of while it is held. What is replaced under it
    /// is let go of behind it, since regions may go with it.
    pub fn lock(&self) -> Commits<'_> {
        Commits::new(self, self.commit.lock())
    }

    /// The same, if it can be had within a time.
    pub(super) fn lock_within(&self, patience: Duration) -> Option<Commits<'_>> {
        let alone = self.commit.try_lock_for(patience)?;
        Some(Commits::new(self, alone))
    }

    /// What all see: what was committed last, but for commits that wait for the log.
    pub fn snapshot(&self) -> Arc<DatabaseSnapshot> {
        Arc::clone(&self.snapshots.read().visible)
    }

    /// Lets all see what was committed up to this position of the log.
    pub(super) fn publish(&self, durable: u64) {
        let before = self.snapshots.write().publish(durable);
        // Outside of the lock: memory may go with it.
        drop(before);
    }

    /// Takes back what waits for a log that can't be written any more, and is on disk up to `durable`
    /// only: commits before that may have been acknowledged. `tables` are those that a commit of it has
    /// changed; every commit that waits does the same for its own.
    pub(super) fn take_back<'a>(&self, durable: u64, tables: impl Iterator<Item = &'a Arc<Table>>) {
        let commits = self.lock();
        let (visible, before) = {
            let mut snapshots = self.snapshots.write();
            let before = snapshots.take_back(durable);
            (Arc::clone(&snapshots.visible), before)
        };
        let replaced: Vec<Snapshot> = tables
            .filter_map(|table| Some(table.install(visible.table(table)?.clone())))
            .collect();
        drop(commits);
        drop((before, replaced));
    }

    /// The locks of rows.
    pub(super) fn row_locks(&self) -> &Arc<RowLocks> {
        &self.row_locks
    }

    /// Transactions that have begun and not ended.
    pub fn open_transactions(&self) -> usize {
        self.open.lock().values().sum()
    }

    /// Counts a transaction and gives it the snapshot that it reads. Both under the lock of snapshots: a
    /// merge that sees no transaction gives rows new identities before one can have read the old, and what
    /// is seen by all does not change between the two.
    pub(super) fn open(&self) -> Arc<DatabaseSnapshot> {
        let snapshots = self.snapshots.read();
        let snapshot = Arc::clone(&snapshots.visible);
        *self.open.lock().entry(snapshot.number).or_default() += 1;
        snapshot
    }

    /// The same for a serializable transaction.
    pub(super) fn open_serializable(&self) -> (Arc<DatabaseSnapshot>, Registration) {
        let commits = self.lock();
        let snapshot = self.open();
        let registration = Registration::new(&self.serializable, &commits, &snapshot);
        (snapshot, registration)
    }

    /// The serializable transactions.
    pub(super) fn serializable(&self) -> &Serializable {
        &self.serializable
    }

    /// Ends a transaction that has read `snapshot`.
    pub(super) fn close(&self, snapshot: &DatabaseSnapshot) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&snapshot.number) {
            *count -= 1;
            if *count == 0 {
                open.remove(&snapshot.number);
            }
        }
    }

    /// The number of the oldest snapshot that a transaction reads or will read.
    fn oldest_read(&self) -> u64 {
        let snapshots = self.snapshots.read();
        let oldest = self.open.lock().keys().next().copied();
        let visible = snapshots.visible.number;
        oldest.map_or(visible, |oldest| oldest.min(visible))
    }

    /// Changes the newest snapshot, to be seen by all immediately, or once the log is on disk up to
    /// `position`. The snapshots before, which memory may go with.
    #[must_use]
    fn replace(
        &self,
        position: Option<u64>,
        change: impl FnOnce(&mut HashMap<TableId, Snapshot>),
    ) -> [Arc<DatabaseSnapshot>; 2] {
        let mut snapshots = self.snapshots.write();
        let mut snapshot = snapshots.newest.as_ref().clone();
        change(&mut snapshot.tables);
        snapshot.number += 1;
        let before = [
            Arc::clone(&snapshots.newest),
            Arc::clone(&snapshots.visible),
        ];
        snapshots.push(Arc::new(snapshot), position);
        before
    }

    /// Changes what there is of tables, for all in one step.
    fn change_all(&self, change: impl Fn(&mut HashMap<TableId, Snapshot>)) {
        let before: Vec<Arc<DatabaseSnapshot>> = {
            let mut snapshots = self.snapshots.write();
            let changed = snapshots.all_mut().map(|snapshot| {
                let mut new = snapshot.as_ref().clone();
                change(&mut new.tables);
                std::mem::replace(snapshot, Arc::new(new))
            });
            changed.collect()
        };
        drop(before);
    }
}

/// Puts a newer snapshot of a table in. One that was dropped, or has another definition by now, stays so.
fn replace_in(snapshots: &mut HashMap<TableId, Snapshot>, table: &Table, snapshot: Snapshot) {
    let current = snapshots.get_mut(&table.id());
    if let Some(current) = current.filter(|current| current.is_of(table)) {
        *current = snapshot;
    }
}

fn forget_in(snapshots: &mut HashMap<TableId, Snapshot>, table: &Table) {
    if snapshots
        .get(&table.id())
        .is_some_and(|known| known.is_of(table))
    {
        snapshots.remove(&table.id());
    }
}

/// The right to change what is committed.
#[derive(Debug)]
pub struct Commits<'a> {
    database: &'a Database,
    _alone: MutexGuard<'a, ()>,
    /// Let go of after the lock: fields are dropped in this order.
    replaced: RefCell<Vec<Replaced>>,
}

/// What was there before a change, which memory may go with.
type Replaced = ([Arc<DatabaseSnapshot>; 2], Vec<Snapshot>);

impl<'a> Commits<'a> {
    fn new(database: &'a Database, alone: MutexGuard<'a, ()>) -> Self {
        Self {
            database,
            _alone: alone,
            replaced: RefCell::default(),
        }
    }

    /// What is committed now.
    pub fn snapshot(&self) -> Arc<DatabaseSnapshot> {
        Arc::clone(&self.database.snapshots.read().newest)
    }

    /// Puts new snapshots of tables in, in one step. Tables that were dropped stay so.
    pub fn install_all(&self, changes: Vec<(&Table, Snapshot)>) {
        self.install_at(None, changes, &[]);
    }

    /// The same, to be seen by transactions that begin once the log is on disk up to `position`, with tables that are
    /// new, or take the places of others.
    pub(super) fn install_at(
        &self,
        position: Option<u64>,
        changes: Vec<(&Table, Snapshot)>,
        entered: &[Arc<Table>],
    ) {
        let replaced = changes
            .iter()
            .map(|(table, snapshot)| table.install(snapshot.clone()))
            .collect();
        let before = self.database.replace(position, |snapshots| {
            for table in entered {
                snapshots.insert(table.id(), table.snapshot());
            }
            for (table, snapshot) in changes {
                replace_in(snapshots, table, snapshot);
            }
        });
        self.replaced.borrow_mut().push((before, replaced));
    }

    /// Takes the entries of deleted rows, to take them out of the indexes once nobody needs them.
    pub(super) fn bury(&self, dead: impl Iterator<Item = DeadKey>) {
        let oldest = self.database.oldest_read();
        self.database.dead_keys.add(dead, oldest, &self.snapshot());
    }

    /// The position that the last of the commits waits for that wait for the log.
    pub(super) fn last_wait(&self) -> Option<u64> {
        self.database.snapshots.read().last_wait()
    }

    /// The same for one table.
    pub fn install(&self, table: &Table, snapshot: Snapshot) {
        self.database.settle_indexes(&snapshot);
        self.install_all(vec![(table, snapshot)]);
    }

    /// The same for a snapshot that depends on whether rows may get new identities: where no
    /// transaction is open, none can have begun that has read the one before, and no log names them.
    pub fn install_merged(&self, table: &Table, snapshot: impl FnOnce(bool) -> Snapshot) {
        let mut replaced = Vec::new();
        let before = self.database.replace(None, |snapshots| {
            let is_alone = self.database.open.lock().is_empty();
            let snapshot = snapshot(is_alone && !self.database.is_durable);
            replaced.push(table.install(snapshot.clone()));
            replace_in(snapshots, table, snapshot);
        });
        self.replaced.borrow_mut().push((before, replaced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_disk_is_not_taken_back() {
        let mut snapshots = DatabaseSnapshots::default();
        let made: Vec<Arc<DatabaseSnapshot>> = (0..3).map(|_| Arc::default()).collect();
        for (snapshot, position) in made.iter().zip([10, 20, 30]) {
            snapshots.push(Arc::clone(snapshot), Some(position));
        }
        snapshots.take_back(10);
        assert!(Arc::ptr_eq(&snapshots.visible, &made[0]));
        assert!(Arc::ptr_eq(&snapshots.newest, &made[0]));
        assert!(snapshots.waiting.is_empty());
    }
}
