//! The newest version of all tables.

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::merges::{MergeLimits, Merges};
use crate::placement::Storage;
use crate::table::{Snapshot, Table, TableId};

/// The tables of an engine at one moment.
#[derive(Debug, Default)]
pub struct Version {
    snapshots: HashMap<TableId, Snapshot>,
}

impl Version {
    /// What it has of a table, if that is part of it.
    pub fn snapshot(&self, table: &Table) -> Option<&Snapshot> {
        self.snapshots.get(&table.id())
    }
}

/// The tables of an engine, and their changes.
#[derive(Debug)]
pub struct Database {
    storage: Storage,
    version: RwLock<Arc<Version>>,
    /// Held by the one commit, or the one merge or move, that is putting its result in.
    commit: Mutex<()>,
    /// Transactions that have begun and not ended.
    open: AtomicUsize,
    merges: Merges,
}

impl Database {
    /// A database without tables, whose rows are put into `storage`.
    pub fn new(storage: Storage, limits: MergeLimits) -> Arc<Self> {
        Arc::new(Self {
            storage,
            version: RwLock::default(),
            commit: Mutex::new(()),
            open: AtomicUsize::new(0),
            merges: Merges::new(limits),
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

    /// Makes `table` part of the database.
    pub fn add(self: &Arc<Self>, table: &Arc<Table>) {
        let _no_commits = self.lock();
        table.enter(self);
        let (id, snapshot) = (table.id(), table.snapshot());
        drop(self.replace(|snapshots| {
            snapshots.insert(id, snapshot);
        }));
    }

    /// Takes a table out: transactions that have changed it can't commit.
    pub fn forget(&self, table: TableId) {
        drop(self.replace(|snapshots| {
            snapshots.remove(&table);
        }));
    }

    /// The lock for commits. No table must be let go of while it is held. What is replaced under it
    /// is let go of behind it, since regions may go with it.
    pub fn lock(&self) -> Commits<'_> {
        Commits {
            database: self,
            _alone: self.commit.lock(),
            replaced: RefCell::default(),
        }
    }

    /// What was committed last.
    pub fn version(&self) -> Arc<Version> {
        Arc::clone(&self.version.read())
    }

    /// Counts a transaction and gives it the version that it reads. In this order, so that a merge
    /// that sees no transaction gives rows new identities before one can have read the old.
    pub(super) fn open(&self) -> Arc<Version> {
        self.open.fetch_add(1, Ordering::SeqCst);
        self.version()
    }

    pub(super) fn close(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// The version before, which memory may go with.
    #[must_use]
    fn replace(&self, change: impl FnOnce(&mut HashMap<TableId, Snapshot>)) -> Arc<Version> {
        let mut version = self.version.write();
        let mut snapshots = version.snapshots.clone();
        change(&mut snapshots);
        std::mem::replace(&mut *version, Arc::new(Version { snapshots }))
    }
}

/// The right to change what is committed.
#[derive(Debug)]
pub struct Commits<'a> {
    database: &'a Database,
    _alone: MutexGuard<'a, ()>,
    /// Let go of after the lock: fields are dropped in this order.
    replaced: RefCell<Vec<(Arc<Version>, Vec<Snapshot>)>>,
}

impl Commits<'_> {
    /// What is committed now.
    pub fn version(&self) -> Arc<Version> {
        self.database.version()
    }

    /// Puts new snapshots of tables in, all at once. Tables that were dropped stay so.
    pub fn install_all(&self, changes: Vec<(&Table, Snapshot)>) {
        let replaced = changes
            .iter()
            .map(|(table, snapshot)| table.install(snapshot.clone()))
            .collect();
        let before = self.database.replace(|snapshots| {
            for (table, snapshot) in changes {
                if let Some(current) = snapshots.get_mut(&table.id()) {
                    *current = snapshot;
                }
            }
        });
        self.replaced.borrow_mut().push((before, replaced));
    }

    /// The same for one table.
    pub fn install(&self, table: &Table, snapshot: Snapshot) {
        self.install_all(vec![(table, snapshot)]);
    }

    /// The same for a snapshot that depends on whether no transaction is open and none can have
    /// begun that has read the one before.
    pub fn install_merged(&self, table: &Table, snapshot: impl FnOnce(bool) -> Snapshot) {
        let mut replaced = Vec::new();
        let before = self.database.replace(|snapshots| {
            let is_alone = self.database.open.load(Ordering::SeqCst) == 0;
            let snapshot = snapshot(is_alone);
            replaced.push(table.install(snapshot.clone()));
            if let Some(current) = snapshots.get_mut(&table.id()) {
                *current = snapshot;
            }
        });
        self.replaced.borrow_mut().push((before, replaced));
    }
}
