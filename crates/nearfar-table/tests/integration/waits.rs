//! Where commits wait for the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use nearfar_table::error::TableError;
use nearfar_table::table::{CommitGate, Part, RowId, Table, stored_schema};
use nearfar_table::transaction::{
    CommitLog, CommitRecord, Database, MergeLimits, NewRowsBuilder, Transaction, waiting_here,
};

use crate::support::{on, storage};

/// A log that notes which threads have waited for it.
#[derive(Debug, Default)]
struct Noted {
    waited: Mutex<Vec<ThreadId>>,
    end: AtomicU64,
}

struct Record<'a>(&'a Noted);

impl CommitLog for Noted {
    fn begin<'a>(&'a self, _: &'a CommitGate) -> Result<Box<dyn CommitRecord + 'a>, TableError> {
        Ok(Box::new(Record(self)))
    }

    fn waits_for_disk(&self) -> bool {
        true
    }

    fn sync_to(&self, _: u64) -> Result<(), TableError> {
        let mut waited = self.waited.lock().expect("unharmed");
        waited.push(thread::current().id());
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.end.load(Ordering::SeqCst)
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

#[test]
fn a_thread_with_nothing_else_to_do_waits_for_the_disk_itself() {
    let storage = storage();
    let database = Database::new(storage.clone(), MergeLimits::default());
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values([7]));
    let batch = RecordBatch::try_from_iter([("key", keys)]).expect("a batch");
    let schema = stored_schema(&batch.schema());
    let table = Arc::new(Table::new("t", schema, Vec::new(), on(0)));
    table.keep();
    database.add(&table);
    let log = Arc::new(Noted::default());
    database.set_log(Arc::clone(&log) as _);
    let insert = async || {
        let transaction = Transaction::of_statement(&database);
        let mut builder = NewRowsBuilder::new(Arc::clone(&table), &storage);
        builder.push(batch.clone()).expect("rows");
        let rows = builder.finish().expect("rows").0;
        transaction.insert(&table, rows).expect("inserted");
        let committed = transaction.commit_async(&CommitGate::default()).await;
        committed.expect("committed");
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().expect("a runtime");
    runtime.block_on(insert());
    waiting_here(|| runtime.block_on(insert()));
    runtime.block_on(insert());
    let waited = log.waited.lock().expect("unharmed");
    let here = waited.iter().map(|id| *id == thread::current().id());
    assert_eq!(here.collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(table.snapshot().rows(), 3);
}
