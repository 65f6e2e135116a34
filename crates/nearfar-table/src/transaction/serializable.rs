//! Serializable transactions: what each has read, and whether that makes an order of them impossible.
//!
//! Such a transaction reads one snapshot. Where it has read what a concurrent one changes, it has to come
//! before that one in any serial order: a *read-write dependency* between the two. Each order that is impossible
//! has two such dependencies in a row, one → two → three, of which three has committed first (Cahill, Röhm,
//! Fekete, SIGMOD 2008; the order of commits: Ports, Grittner, VLDB 2012). A commit that completes such a row is
//! refused, so that what is committed can be put into an order.
//!
//! What was read is known by tables and by ranges of keys, so that rows that were not there are covered too, and
//! some commits are refused without need. Everything is decided under the lock for commits.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::database::{Commits, DatabaseSnapshot};
use super::keys::IndexEntries;
use super::table_change::Changes;
use crate::error::TransactionError;
use crate::table::{KeyRange, TableId, TableIndex};

/// The ranges of keys of a table that are told apart; a transaction that reads more has read all of it.
const RANGES_MAX: usize = 1 << 10;

/// A range of keys of an index.
type IndexRange = (Arc<TableIndex>, KeyRange);

/// What was read of a table.
#[derive(Debug)]
enum TableReads {
    All,
    Ranges(Vec<IndexRange>),
}

impl TableReads {
    fn meets(&self, writes: &TableWrites) -> bool {
        match (self, writes) {
            (Self::All, _) | (_, TableWrites::All) => true,
            (Self::Ranges(ranges), TableWrites::Entries(changed)) => {
                ranges.iter().any(|(index, range)| {
                    let mut changed = changed.iter();
                    // Nobody knows which keys of another index are changed.
                    changed
                        .find(|(other, _)| Arc::ptr_eq(other, index))
                        .is_none_or(|(_, entries)| has_in(entries, range))
                })
            }
        }
    }
}

fn has_in(entries: &[Box<[u8]>], range: &KeyRange) -> bool {
    let from = entries.partition_point(|entry| **entry < *range.from());
    entries.get(from).is_some_and(|entry| range.has(entry))
}

/// What was changed of a table.
#[derive(Debug)]
enum TableWrites {
    /// Any of its rows.
    All,
    /// Rows with these entries, of every index.
    Entries(Vec<IndexEntries>),
}

/// What a transaction has read.
#[derive(Debug, Default)]
struct Reads(HashMap<TableId, TableReads>);

impl Reads {
    fn add_all(&mut self, table: TableId) {
        self.0.insert(table, TableReads::All);
    }

    fn add(&mut self, table: TableId, range: IndexRange) {
        let none = || TableReads::Ranges(Vec::new());
        let reads = self.0.entry(table).or_insert_with(none);
        match reads {
            TableReads::All => {}
            TableReads::Ranges(ranges) if ranges.len() < RANGES_MAX => ranges.push(range),
            TableReads::Ranges(_) => *reads = TableReads::All,
        }
    }

    fn meets(&self, writes: &Writes) -> bool {
        let mut writes = writes.0.iter();
        writes.any(|(table, writes)| self.0.get(table).is_some_and(|reads| reads.meets(writes)))
    }

    fn has_any_of(&self, tables: &HashSet<TableId>) -> bool {
        self.0.keys().any(|table| tables.contains(table))
    }
}

/// What a transaction has changed.
#[derive(Debug, Default)]
struct Writes(Vec<(TableId, TableWrites)>);

impl Writes {
    fn of(changes: &Changes) -> Self {
        let writes = changes.iter().map(|(table, change)| {
            let writes = match change.is_truncated {
                true => TableWrites::All,
                false => TableWrites::Entries(change.indexes.changed_entries()),
            };
            (*table, writes)
        });
        Self(writes.collect())
    }
}

/// A transaction that has not ended.
#[derive(Debug)]
struct Active {
    /// The number of the snapshot that it reads.
    snapshot: u64,
    reads: Reads,
    /// Tables that were committed and not seen by all when it began.
    unseen: HashSet<TableId>,
}

/// A transaction that has committed, beside one that is active.
#[derive(Debug)]
struct Committed {
    /// The number of the snapshot that it has made.
    number: u64,
    at: u64,
    reads: Reads,
    writes: Writes,
    /// Whether it has to come before one that committed before it.
    has_earlier_successor: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Begins and commits are counted by it.
    clock: u64,
    /// By when they began.
    active: BTreeMap<u64, Active>,
    committed: Vec<Committed>,
}

impl State {
    /// Whether the transaction that began at `own`, or one that is not serializable, may commit `writes`; if
    /// so, whether it has to come before one that has committed.
    fn check(&self, own: Option<u64>, writes: &Writes) -> Result<bool, TransactionError> {
        let Some((began, own)) = own.and_then(|at| Some((at, self.active.get(&at)?))) else {
            return Ok(false);
        };
        let mut has_successor = own.reads.has_any_of(&own.unseen);
        for other in &self.committed {
            if other.number > own.snapshot && own.reads.meets(&other.writes) {
                if other.has_earlier_successor {
                    return Err(TransactionError::NotSerializable);
                }
                has_successor = true;
            }
        }
        let committed = self.committed.iter().filter(|other| other.at > began);
        let active = self.active.iter().filter(|(at, _)| **at != began);
        let mut others = committed
            .map(|other| &other.reads)
            .chain(active.map(|(_, other)| &other.reads));
        match has_successor && others.any(|reads| reads.meets(writes)) {
            true => Err(TransactionError::NotSerializable),
            false => Ok(has_successor),
        }
    }

    fn forget_what_nobody_needs(&mut self) {
        let active = || self.active.iter();
        let Some(began_first) = active().map(|(at, _)| *at).next() else {
            self.committed.clear();
            return;
        };
        let oldest = active().map(|(_, one)| one.snapshot).min();
        let oldest = oldest.unwrap_or_default();
        self.committed
            .retain(|other| other.at > began_first || other.number > oldest);
    }
}

/// The serializable transactions of a database.
#[derive(Debug, Default)]
pub(super) struct Serializable {
    /// Whether there are any, for commits of others.
    is_active: AtomicBool,
    state: Mutex<State>,
}

/// A commit that may be made.
#[derive(Debug)]
pub(super) struct Serialized {
    own: Option<u64>,
    writes: Writes,
    has_earlier_successor: bool,
}

impl Serializable {
    /// Has a transaction begin that reads `snapshot`, and says by which number it is known. Under the lock for
    /// commits, so that none is between what the snapshot has and what is counted.
    fn begin(&self, commits: &Commits<'_>, snapshot: &DatabaseSnapshot) -> u64 {
        let unseen = commits.snapshot().tables_changed_since(snapshot);
        let mut state = self.state.lock();
        state.clock += 1;
        let at = state.clock;
        let active = Active {
            snapshot: snapshot.number(),
            reads: Reads::default(),
            unseen,
        };
        state.active.insert(at, active);
        self.is_active.store(true, Ordering::Relaxed);
        at
    }

    fn end(&self, own: u64) {
        let mut state = self.state.lock();
        if state.active.remove(&own).is_some() {
            state.forget_what_nobody_needs();
        }
        self.is_active
            .store(!state.active.is_empty(), Ordering::Relaxed);
    }

    /// Whether a commit of `changes` leaves an order of all transactions; nothing where nobody asks.
    /// Under the lock for commits, as [`Self::record`].
    ///
    /// # Errors
    /// [`TransactionError::NotSerializable`].
    pub fn check(
        &self,
        own: Option<&Registration>,
        changes: &Changes,
    ) -> Result<Option<Serialized>, TransactionError> {
        if !self.is_active.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let own = own.map(|own| own.at);
        let writes = Writes::of(changes);
        let has_earlier_successor = self.state.lock().check(own, &writes)?;
        Ok(Some(Serialized {
            own,
            writes,
            has_earlier_successor,
        }))
    }

    /// Takes in a commit that was checked and has made the snapshot of this number.
    pub fn record(&self, commit: Serialized, number: u64) {
        let mut state = self.state.lock();
        state.clock += 1;
        let own = commit.own.and_then(|own| state.active.remove(&own));
        let committed = Committed {
            number,
            at: state.clock,
            reads: own.map(|own| own.reads).unwrap_or_default(),
            writes: commit.writes,
            has_earlier_successor: commit.has_earlier_successor,
        };
        state.committed.push(committed);
        state.forget_what_nobody_needs();
        self.is_active
            .store(!state.active.is_empty(), Ordering::Relaxed);
    }
}

/// A serializable transaction among those of its database; it is over when this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    all: Arc<Serializable>,
    at: u64,
}

impl Registration {
    /// That of a transaction that begins now and reads `snapshot`.
    pub fn new(
        all: &Arc<Serializable>,
        commits: &Commits<'_>,
        snapshot: &DatabaseSnapshot,
    ) -> Self {
        Self {
            all: Arc::clone(all),
            at: all.begin(commits, snapshot),
        }
    }

    /// The transaction has read all of a table.
    pub fn add_all(&self, table: TableId) {
        self.with_reads(|reads| reads.add_all(table));
    }

    /// The transaction has read the rows of a table whose keys are in a range.
    pub fn add_range(&self, table: TableId, index: &Arc<TableIndex>, range: &KeyRange) {
        self.with_reads(|reads| reads.add(table, (Arc::clone(index), range.clone())));
    }

    /// Ends a transaction that has changed nothing.
    ///
    /// # Errors
    /// As [`Serializable::check`].
    pub fn end_reading(self, commits: &Commits<'_>) -> Result<(), TransactionError> {
        let checked = self.all.check(Some(&self), &BTreeMap::new())?;
        if let Some(checked) = checked {
            self.all.record(checked, commits.snapshot().number());
        }
        Ok(())
    }

    fn with_reads(&self, add: impl FnOnce(&mut Reads)) {
        if let Some(own) = self.all.state.lock().active.get_mut(&self.at) {
            add(&mut own.reads);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.all.end(self.at);
    }
}
