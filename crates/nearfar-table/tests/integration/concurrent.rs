//! Transactions, merges, moves and readers of one table concurrently, for the test itself and for
//! ThreadSanitizer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use nearfar_table::error::TableError;
use nearfar_table::placement::Storage;
use nearfar_table::segment::RowSet;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexRole, RowId, Snapshot, Table,
    TableIndex, stored_schema,
};
use nearfar_table::transaction::{
    Database, Isolation, MergeLimits, MergeScope, NewRows, NewRowsBuilder, Transaction,
    TransactionError,
};

use crate::support::{on, storage};

const ACCOUNTS: i64 = 40;
const BALANCE: i64 = 1000;
const WRITERS: u64 = 3;
const TRANSFERS: u64 = 40;

fn batch(balances: impl IntoIterator<Item = i64>) -> RecordBatch {
    let balances = Arc::new(Int64Array::from_iter_values(balances)) as ArrayRef;
    RecordBatch::try_from_iter([("balance", balances)]).expect("a batch")
}

/// A table of accounts, and its database, which merges after a few rows.
struct Bank {
    storage: Storage,
    database: Arc<Database>,
    table: Arc<Table>,
}

impl Bank {
    fn new() -> Self {
        let storage = storage();
        let limits = MergeLimits::default();
        limits.set_rows(16);
        let database = Database::new(storage.clone(), limits);
        let schema = stored_schema(&batch([]).schema());
        let table = Arc::new(Table::new("accounts", schema, Vec::new(), on(0)));
        database.add(&table);
        let definition = IndexDefinition {
            name: "accounts_balance".to_owned(),
            columns: vec![IndexColumn::ascending(0)],
            kind: IndexKind::Art,
            role: IndexRole::Search,
            placement: IndexPlacement::default(),
        };
        let snapshot = table.snapshot();
        let index = TableIndex::filled(definition, &snapshot, &storage).expect("an index");
        database
            .lock()
            .install(&table, snapshot.with_indexes(vec![index]));
        let bank = Self {
            storage,
            database,
            table,
        };
        let opening = Transaction::of_statement(&bank.database);
        let balances = (0..ACCOUNTS).map(|_| BALANCE);
        opening
            .insert(&bank.table, bank.rows(balances))
            .expect("inserted");
        opening.commit().expect("committed");
        bank
    }

    fn rows(&self, balances: impl IntoIterator<Item = i64>) -> NewRows {
        let mut rows = NewRowsBuilder::new(Arc::clone(&self.table), &self.storage);
        rows.push(batch(balances)).expect("rows");
        rows.finish().expect("rows").0
    }

    /// Moves one from an account to another, and says whether nobody else changed either of them.
    fn transfer(&self, number: u64) -> bool {
        let transaction = Transaction::explicit(&self.database, Isolation::Snapshot, false);
        let accounts = accounts(&transaction.snapshot(&self.table).expect("a snapshot"));
        let (from, to) = (number * 7, number * 7 + 1 + number % 5);
        let [from, to] = [from, to].map(|at| accounts[at as usize % accounts.len()]);
        let rows = self.rows([from.1 - 1, to.1 + 1]);
        let replaced = transaction.replace(&self.table, vec![from.0, to.0], rows);
        match replaced.and_then(|()| transaction.commit()) {
            Ok(()) => true,
            Err(TableError::Transaction(TransactionError::Conflict { .. })) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The accounts that a reader sees: their identities and what is on them.
fn accounts(snapshot: &Snapshot) -> Vec<(RowId, i64)> {
    let mut found = Vec::new();
    for part in snapshot.parts() {
        let column = part.segment.columns()[0].current().expect("a column");
        let all = RowSet::Run {
            start: 0,
            len: part.segment.rows(),
        };
        let balances = column.read(all, &DataType::Int64).expect("values");
        let balances = balances.as_primitive::<Int64Type>().values().to_vec();
        for (row, balance) in balances.into_iter().enumerate() {
            let deleted = part.delete_vector.as_ref();
            if !deleted.is_some_and(|deleted| deleted.contains(row)) {
                found.push((part.ids.id(row), balance));
            }
        }
    }
    found
}

/// The rows that the index leads a transaction to are those with the balance.
fn check_index(bank: &Bank, transaction: &Transaction) {
    let snapshot = transaction.snapshot(&bank.table).expect("a snapshot");
    let accounts = accounts(&snapshot);
    for (_, wanted) in accounts.iter().step_by(7) {
        let value = Arc::new(Int64Array::from(vec![*wanted])) as ArrayRef;
        let index = &snapshot.indexes()[0];
        let range = index.encoder().range(&[value], (None, None));
        let found = transaction.find(&bank.table, index, &range.expect("a range"), usize::MAX);
        let places = found.expect("an index").expect("few rows").into_iter();
        let mut found: Vec<RowId> = places
            .map(|(part, row)| snapshot.parts()[part].ids.id(row))
            .collect();
        let with_balance = accounts.iter().filter(|(_, balance)| balance == wanted);
        let mut expected: Vec<RowId> = with_balance.map(|(id, _)| *id).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{wanted}");
    }
}

fn check(snapshot: &Snapshot) {
    let accounts = accounts(snapshot);
    assert_eq!(accounts.len() as i64, ACCOUNTS);
    let sum: i64 = accounts.iter().map(|(_, balance)| balance).sum();
    assert_eq!(sum, ACCOUNTS * BALANCE);
}

/// Raises a flag when it is dropped, so that threads end that wait for it even if a check has failed.
struct RaiseOnDrop<'flag>(&'flag AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_whole_transactions_while_tables_are_merged_and_moved() {
    let bank = &Bank::new();
    let done = &AtomicBool::new(false);
    let again = || !done.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while again() {
                check(&bank.table.snapshot());
            }
        });
        scope.spawn(move || {
            while again() {
                let transaction = Transaction::explicit(&bank.database, Isolation::Snapshot, true);
                for _ in 0..2 {
                    check(&transaction.snapshot(&bank.table).expect("a snapshot"));
                    check_index(bank, &transaction);
                }
            }
        });
        scope.spawn(move || {
            for round in (0..).take_while(|_| again()) {
                let moved = bank.table.migrate(&on(round % 2), &bank.storage);
                moved.expect("moved");
                let (table, scope) = (&bank.table, MergeScope::All);
                let merged = table.merge(&bank.database, &bank.storage, scope, &|| true);
                merged.expect("merged");
            }
        });
        let end = RaiseOnDrop(done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let numbers = (0..).map(|round| round * WRITERS + writer);
                    let transfers = numbers.filter(|number| bank.transfer(*number));
                    transfers.take(TRANSFERS as usize).count()
                })
            })
            .collect();
        for writer in writers {
            assert_eq!(writer.join().expect("a writer") as u64, TRANSFERS);
        }
        drop(end);
    });
    bank.database.merges().stop();
    check(&bank.table.snapshot());
    check_index(bank, &Transaction::of_reader(&bank.database));
    assert!(bank.table.merges() > 0);
    assert_eq!(bank.database.open_transactions(), 0);
}
