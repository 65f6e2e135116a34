//! Where commits wait for the disk.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use nearfar_table::error::TableError;
use nearfar_table::table::{CommitGate, Part, RowId, Table, stored_schema};
use nearfar_table::transaction::{
    CommitLog, CommitRecord, Database, MergeLimits, NewRowsBuilder, Transaction, waiting_here,
};

use crate::support::{on, storage};

/// A log that notes which threads have written it to disk.
#[derive(Debug, Default)]
struct Noted {
    wrote: Mutex<Vec<ThreadId>>,
    end: AtomicU64,
    durable: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

impl Noted {
    /// The threads that have written since the last time, and whether each is this one.
    fn take_wrote(&self) -> Vec<bool> {
        let wrote = std::mem::take(&mut *self.wrote.lock().expect("unharmed"));
        let here = thread::current().id();
        wrote.into_iter().map(|id| id == here).collect()
    }
}

struct Record<'a>(&'a Noted);

impl CommitLog for Noted {
    fn begin<'a>(&'a self, _: &'a CommitGate) -> Result<Box<dyn CommitRecord + 'a>, TableError> {
        Ok(Box::new(Record(self)))
    }

    fn waits_for_disk(&self) -> bool {
        true
    }

    fn is_settled(&self, position: u64, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock().expect("unharmed");
        waiting.push(waker.clone());
        self.durable() >= position
    }

    fn sync_to(&self, position: u64) -> Result<(), TableError> {
        let mut waiting = self.waiting.lock().expect("unharmed");
        if self.durable.fetch_max(position, Ordering::SeqCst) < position {
            let mut wrote = self.wrote.lock().expect("unharmed");
            wrote.push(thread::current().id());
            waiting.drain(..).for_each(Waker::wake);
        }
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }
}

impl CommitRecord for Record<'_> {
    fn truncate(&mut self, _: &Table) -> Result<(), TableError> {
        Ok(())
    }

    fn insert(&mut self, _: &Table, _: &[Part]) -> Result<(), TableError> {
        Ok(())
    }

    fn delete(&mut self, _: &Table, _: &[RowId]) -> Result<(), TableError> {
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<u64, TableError> {
        Ok(self.0.end.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// A table that is logged, and what commits a row to it.
struct Logged {
    database: Arc<Database>,
    table: Arc<Table>,
    log: Arc<Noted>,
}

impl Logged {
    fn new() -> Self {
        let database = Database::new(storage(), MergeLimits::default());
        let schema = stored_schema(&row().schema());
        let table = Arc::new(Table::new("t", schema, Vec::new(), on(0)));
        table.keep();
        database.add(&table);
        let log = Arc::new(Noted::default());
        database.set_log(Arc::clone(&log) as _);
        Self {
            database,
            table,
            log,
        }
    }

    /// A transaction that has added a row.
    fn inserted(&self) -> Arc<Transaction> {
        let transaction = Transaction::of_statement(&self.database);
        let mut builder = NewRowsBuilder::new(Arc::clone(&self.table), &storage());
        builder.push(row()).expect("rows");
        let rows = builder.finish().expect("rows").0;
        transaction.insert(&self.table, rows).expect("inserted");
        transaction
    }

    /// The rows that a new transaction reads.
    fn seen(&self) -> u64 {
        let transaction = Transaction::of_statement(&self.database);
        transaction.snapshot(&self.table).expect("a table").rows() as u64
    }
}

fn row() -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values([7]));
    RecordBatch::try_from_iter([("key", keys)]).expect("a batch")
}

/// What a future comes to that is polled once.
fn polled<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_thread_with_nothing_else_to_do_writes_to_disk_itself() {
    let logged = Logged::new();
    let gate = CommitGate::default();
    let transaction = logged.inserted();
    let commit = pin!(transaction.commit_async(&gate));
    let Poll::Ready(committed) = waiting_here(|| polled(commit)) else {
        panic!("it has waited for somebody");
    };
    committed.expect("committed");
    assert_eq!((logged.log.take_wrote(), logged.seen()), (vec![true], 1));
}

#[test]
fn elsewhere_nobody_is_kept_from_other_work() {
    let logged = Logged::new();
    let gate = CommitGate::default();
    let transaction = logged.inserted();
    let mut commit = pin!(transaction.commit_async(&gate));
    assert!(polled(commit.as_mut()).is_pending());
    assert_eq!((logged.log.take_wrote(), logged.seen()), (vec![], 0));
    let (log, end) = (&logged.log, logged.log.end.load(Ordering::SeqCst));
    let writing = || log.sync_to(end).expect("written");
    thread::scope(|scope| scope.spawn(writing).join().expect("another thread"));
    assert!(matches!(polled(commit), Poll::Ready(Ok(()))));
    assert_eq!((logged.log.take_wrote(), logged.seen()), (vec![false], 1));
}

#[test]
fn a_commit_that_nobody_waits_for_comes_to_its_end() {
    let logged = Logged::new();
    let commit = logged.inserted().try_commit(&CommitGate::default());
    let commit = commit.expect("committed").expect("the lock for commits");
    assert!(commit.is_waiting());
    assert_eq!(logged.seen(), 0);
    drop(commit);
    while logged.seen() == 0 {
        thread::yield_now();
    }
    assert_eq!(logged.log.take_wrote(), [false]);
}
