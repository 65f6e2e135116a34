//! Rows that are written one by one, against a model: whatever becomes of transactions, every snapshot
//! keeps the rows that it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};
use nearfar_table::error::{IndexError, TableError};
use nearfar_table::placement::Storage;
use nearfar_table::segment::RowSet;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexRole, RowId, Snapshot, Table,
    TableIndex, stored_schema,
};
use nearfar_table::transaction::{
    Database, Isolation, MergeLimits, MergeScope, NewRows, NewRowsBuilder, Transaction,
};
use proptest::prelude::*;

use crate::support::{on, storage};

/// Notes by their keys.
type Model = BTreeMap<i64, Option<String>>;

struct Notes {
    storage: Storage,
    database: Arc<Database>,
    table: Arc<Table>,
}

fn batch(rows: &[(i64, Option<String>)]) -> RecordBatch {
    let keys = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let notes: StringViewArray = rows.iter().map(|row| row.1.as_deref()).collect();
    let columns = [
        ("key", Arc::new(keys) as ArrayRef, false),
        ("note", Arc::new(notes), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

fn note(key: i64) -> Option<String> {
    let length = (key % 40) as usize;
    (key % 5 != 0).then(|| format!("{key}{}", "x".repeat(length)))
}

impl Notes {
    fn new() -> Self {
        let storage = storage();
        let database = Database::new(storage.clone(), MergeLimits::default());
        let schema = stored_schema(&batch(&[]).schema());
        let table = Arc::new(Table::new("notes", schema, Vec::new(), on(0)));
        database.add(&table);
        let definition = IndexDefinition {
            name: "notes_pkey".to_owned(),
            columns: vec![IndexColumn::ascending(0)],
            kind: IndexKind::Art,
            role: IndexRole::PrimaryKey,
            placement: IndexPlacement::default(),
        };
        let snapshot = table.snapshot();
        let index = TableIndex::filled(definition, &snapshot, &storage).expect("an index");
        let commits = database.lock();
        commits.install(&table, snapshot.with_indexes(vec![index]));
        drop(commits);
        Self {
            storage,
            database,
            table,
        }
    }

    fn rows(&self, keys: impl IntoIterator<Item = i64>) -> NewRows {
        let rows: Vec<_> = keys.into_iter().map(|key| (key, note(key))).collect();
        let mut builder = NewRowsBuilder::new(Arc::clone(&self.table), &self.storage);
        builder.push(batch(&rows)).expect("rows");
        builder.finish().expect("rows").0
    }

    fn insert(&self, transaction: &Transaction, keys: impl IntoIterator<Item = i64>) {
        let rows = self.rows(keys);
        transaction.insert(&self.table, rows).expect("inserted");
    }

    fn committed(&self, keys: impl IntoIterator<Item = i64>) {
        let transaction = Transaction::of_statement(&self.database);
        self.insert(&transaction, keys);
        transaction.commit().expect("committed");
    }

    fn replace(&self, snapshot: &Snapshot, key: i64, new: &[i64]) {
        let transaction = Transaction::of_statement(&self.database);
        let rows = self.rows(new.iter().copied());
        let id = found(snapshot)[&key].0;
        let replaced = transaction.replace(&self.table, vec![id], rows);
        replaced
            .and_then(|()| transaction.commit())
            .expect("committed");
    }
}

/// The rows of a snapshot by their keys.
fn found(snapshot: &Snapshot) -> BTreeMap<i64, (RowId, Option<String>)> {
    let mut found = BTreeMap::new();
    for part in snapshot.parts() {
        let (start, len) = (0, part.segment.rows());
        let all = RowSet::Run { start, len };
        let [keys, notes] = [(0, DataType::Int64), (1, DataType::Utf8View)].map(|(at, kind)| {
            let column = part.segment.columns()[at].current().expect("a column");
            column.read(all, &kind).expect("values")
        });
        let rows = keys.as_primitive::<Int64Type>().values().iter();
        for (row, (key, note)) in rows.zip(notes.as_string_view()).enumerate() {
            if part.has(row) {
                let row = (part.ids.id(row), note.map(str::to_owned));
                assert!(found.insert(*key, row).is_none(), "{key} is there twice");
            }
        }
    }
    assert_eq!(found.len(), snapshot.rows());
    found
}

fn rows_of(snapshot: &Snapshot) -> Model {
    let rows = found(snapshot).into_iter();
    rows.map(|(key, (_, note))| (key, note)).collect()
}

/// What is done to the table, and what is then in the model.
fn step(notes: &Notes, model: &mut Model, kind: u8, first: i64, seed: usize) {
    let keys = first..first + 1 + seed as i64 % 4;
    let known = model.keys().nth(seed % model.len().max(1)).copied();
    let add = |model: &mut Model, keys: std::ops::Range<i64>| {
        model.extend(keys.map(|key| (key, note(key))));
    };
    match (kind, known) {
        (0..=3, _) => {
            notes.committed(keys.clone());
            add(model, keys);
        }
        (4 | 5, Some(known)) => {
            notes.replace(&notes.table.snapshot(), known, &[first]);
            model.remove(&known);
            add(model, first..first + 1);
        }
        (6, Some(known)) => {
            notes.replace(&notes.table.snapshot(), known, &[]);
            model.remove(&known);
        }
        (7, _) => {
            let transaction =
                Transaction::explicit(&notes.database, Isolation::ReadCommitted, false);
            (first..first + 20).for_each(|key| notes.insert(&transaction, [key]));
            transaction.set_savepoint("s");
            notes.insert(&transaction, [first + 20]);
            notes.committed([first + 30]);
            transaction.roll_back_to("s").expect("a savepoint");
            transaction.refresh().expect("refreshed");
            notes.insert(&transaction, [first + 21]);
            add(model, first..first + 20);
            add(model, first + 21..first + 22);
            add(model, first + 30..first + 31);
            let own = transaction.snapshot(&notes.table).expect("a snapshot");
            assert_eq!(rows_of(&own), *model);
            transaction.commit().expect("committed");
        }
        (8, _) => {
            let transaction = Transaction::explicit(&notes.database, Isolation::Snapshot, false);
            notes.insert(&transaction, keys.clone());
            notes.committed(keys.clone());
            add(model, keys);
            let late = transaction.commit().expect_err("the keys are there");
            assert!(matches!(
                late,
                TableError::Index(IndexError::Duplicate { .. })
            ));
        }
        (9, _) => {
            let transaction = Transaction::explicit(&notes.database, Isolation::Snapshot, false);
            notes.insert(&transaction, keys);
            transaction.roll_back();
        }
        _ => {
            let (table, scope) = (&notes.table, MergeScope::All);
            let merged = table.merge(&notes.database, &notes.storage, scope, &|| true);
            merged.expect("merged");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_snapshot_keeps_its_rows(
        steps in prop::collection::vec((0u8..11, any::<prop::sample::Index>()), 1..120),
    ) {
        let notes = Notes::new();
        let (mut model, mut seen) = (Model::new(), Vec::new());
        for (at, (kind, seed)) in steps.into_iter().enumerate() {
            step(&notes, &mut model, kind, at as i64 * 40, seed.index(1000));
            seen.push((notes.table.snapshot(), model.clone()));
        }
        for (snapshot, model) in seen {
            prop_assert_eq!(rows_of(&snapshot), model);
        }
        let snapshot = notes.table.snapshot();
        for index in snapshot.indexes() {
            index.verify(&snapshot).expect("the rows of the table");
        }
    }
}

#[test]
fn thousands_of_single_rows_are_few_parts_near() {
    let notes = Notes::new();
    let used = || {
        notes
            .storage
            .system
            .usage(nearfar_memory::TierId::NEAR)
            .region_bytes
    };
    let before = used();
    for key in 0..5000 {
        notes.committed([key]);
    }
    let snapshot = notes.table.snapshot();
    assert!(snapshot.delta().len() < 12, "{}", snapshot.delta().len());
    assert_eq!(
        rows_of(&snapshot),
        (0..5000).map(|key| (key, note(key))).collect()
    );
    let told: u64 = snapshot
        .delta()
        .iter()
        .map(|part| part.segment.bytes())
        .sum();
    assert!(
        told > 0 && used() - before >= told,
        "what is told is taken of the budget"
    );
    let (table, scope) = (&notes.table, MergeScope::All);
    let merged = table.merge(&notes.database, &notes.storage, scope, &|| true);
    merged.expect("merged");
    drop(snapshot);
    assert_eq!(notes.table.snapshot().delta().len(), 0);
}

#[test]
fn a_reader_keeps_its_rows_while_others_are_written_behind_them() {
    let notes = &Notes::new();
    notes.committed(0..8);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || (8..600).for_each(|key| notes.committed([key])));
        while !writer.is_finished() {
            let snapshot = notes.table.snapshot();
            let rows = snapshot.rows() as i64;
            assert_eq!(
                rows_of(&snapshot),
                (0..rows).map(|key| (key, note(key))).collect()
            );
        }
    });
    assert_eq!(notes.table.snapshot().rows(), 600);
}
