//! Indexes against an oracle: whatever transactions, merges and truncations do, an index leads to the
//! rows that a scan of the same snapshot finds, and no two rows have one key of a unique index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use nearfar_table::error::{IndexError, TableError};
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
use proptest::prelude::*;

use crate::support::{on, storage};

/// A row: its number, which is unique, and a word.
type Row = (Option<i64>, &'static str);

/// The same as it was found.
type FoundRow = (Option<i64>, String);

const WORDS: [&str; 4] = ["", "a", "ab", "b"];

struct Scene {
    storage: Storage,
    database: Arc<Database>,
    table: Arc<Table>,
}

impl Scene {
    fn new() -> Self {
        let storage = storage();
        let limits = MergeLimits::default();
        limits.set_rows(MergeLimits::NEVER);
        let database = Database::new(storage.clone(), limits);
        let fields = [("number", DataType::Int64), ("word", DataType::Utf8)];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
        let schema = stored_schema(&Schema::new(fields.to_vec()));
        let table = Arc::new(Table::new("t", schema, Vec::new(), on(0)));
        database.add(&table);
        Self {
            storage,
            database,
            table,
        }
    }

    fn with_indexes(kind: IndexKind) -> Self {
        let scene = Self::new();
        let ascending = IndexColumn::ascending;
        let descending = IndexColumn {
            is_descending: true,
            nulls_first: true,
            ..ascending(1)
        };
        scene.create("t_number", kind, IndexRole::Unique, vec![ascending(0)]);
        let columns = vec![descending, ascending(0)];
        scene.create("t_word_number", kind, IndexRole::Search, columns);
        scene
    }

    fn create(&self, name: &str, kind: IndexKind, role: IndexRole, columns: Vec<IndexColumn>) {
        let commits = self.database.lock();
        let snapshot = self.table.snapshot();
        let definition = IndexDefinition {
            name: name.to_owned(),
            columns,
            kind,
            role,
            placement: IndexPlacement::default(),
        };
        let index = TableIndex::filled(definition, &snapshot, &self.storage).expect("an index");
        let all = [snapshot.indexes(), &[index]].concat();
        commits.install(&self.table, snapshot.with_indexes(all));
    }

    fn rows(&self, rows: &[Row]) -> NewRows {
        let numbers = rows.iter().map(|(number, _)| *number);
        let words = rows.iter().map(|(_, word)| *word);
        let batch = RecordBatch::try_from_iter([
            (
                "number",
                Arc::new(numbers.collect::<Int64Array>()) as ArrayRef,
            ),
            ("word", Arc::new(StringArray::from_iter_values(words))),
        ]);
        let mut builder = NewRowsBuilder::new(Arc::clone(&self.table), &self.storage);
        builder.push(batch.expect("a batch")).expect("rows");
        builder.finish().expect("rows").0
    }

    fn begin(&self) -> Arc<Transaction> {
        Transaction::explicit(&self.database, Isolation::Snapshot, false)
    }

    /// All rows that a transaction sees.
    fn scan(&self, transaction: &Transaction) -> BTreeMap<RowId, FoundRow> {
        let snapshot = transaction.snapshot(&self.table).expect("a snapshot");
        let mut found = BTreeMap::new();
        for part in 0..snapshot.parts().len() {
            for row in 0..snapshot.parts()[part].segment.rows() {
                if snapshot.parts()[part].has(row) {
                    found.insert(
                        self.id(&snapshot, (part, row)),
                        self.row(&snapshot, (part, row)),
                    );
                }
            }
        }
        found
    }

    fn id(&self, snapshot: &Snapshot, (part, row): (usize, usize)) -> RowId {
        snapshot.parts()[part].ids.id(row)
    }

    fn row(&self, snapshot: &Snapshot, (part, row): (usize, usize)) -> FoundRow {
        let rows = RowSet::Run { start: row, len: 1 };
        let column = |at: usize| {
            let slot = &snapshot.parts()[part].segment.columns()[at];
            let data_type = self.table.schema().field(at).data_type();
            let column = slot.current().expect("a column");
            column.read(rows, data_type).expect("values")
        };
        let (numbers, words) = (column(0), column(1));
        let numbers = numbers.as_primitive::<Int64Type>();
        let number = numbers.iter().next().expect("a row");
        (number, words.as_string_view().value(0).to_owned())
    }

    /// What an index leads to for keys that begin with these values.
    fn find(&self, transaction: &Transaction, index: usize, values: &[ArrayRef]) -> Vec<RowId> {
        let snapshot = transaction.snapshot(&self.table).expect("a snapshot");
        let index = &snapshot.indexes()[index];
        let range = index.encoder().range(values, (None, None));
        let found = transaction.find(&self.table, index, &range.expect("a range"), usize::MAX);
        let places = found.expect("an index").expect("few rows");
        let mut ids: Vec<RowId> = places
            .into_iter()
            .map(|place| self.id(&snapshot, place))
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Compares both indexes with a scan.
    fn check(&self, transaction: &Transaction) {
        let all = self.scan(transaction);
        let ids = |is_wanted: &dyn Fn(&FoundRow) -> bool| -> Vec<RowId> {
            let wanted = all.iter().filter(|(_, row)| is_wanted(row));
            wanted.map(|(id, _)| *id).collect()
        };
        let number = |number: Option<i64>| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
        let stored = self.table.schema().field(1).data_type();
        let word = |word: &str| {
            let word = StringArray::from(vec![word]);
            arrow::compute::cast(&word, stored).expect("a word")
        };
        for wanted in (-1..NUMBERS).map(Some).chain([None]) {
            let found = self.find(transaction, 0, &[number(wanted)]);
            assert_eq!(found, ids(&|row| row.0 == wanted), "number {wanted:?}");
        }
        for wanted in WORDS {
            let found = self.find(transaction, 1, &[word(wanted)]);
            assert_eq!(found, ids(&|row| row.1 == wanted), "word {wanted}");
            let both = self.find(transaction, 1, &[word(wanted), number(Some(1))]);
            assert_eq!(both, ids(&|row| row.1 == wanted && row.0 == Some(1)));
        }
        let numbers: Vec<i64> = all.values().filter_map(|row| row.0).collect();
        let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
        assert_eq!(distinct.len(), numbers.len(), "a number is there twice");
    }
}

/// Numbers of rows are below this.
const NUMBERS: i64 = 12;

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Insert(usize, Vec<Row>),
    /// Gives the row of this rank another number and word.
    Update(usize, usize, Row),
    Delete(usize, usize),
    Truncate(usize),
    Commit(usize),
    Rollback(usize),
    Merge,
}

fn row() -> impl Strategy<Value = Row> {
    let number = prop::option::weighted(0.9, 0..NUMBERS);
    (number, prop::sample::select(&WORDS[..]))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        6 => (0..4usize, prop::collection::vec(row(), 1..4)).prop_map(|(t, r)| Step::Insert(t, r)),
        6 => (0..4usize, 0..16usize, row()).prop_map(|(t, at, row)| Step::Update(t, at, row)),
        4 => (0..4usize, 0..16usize).prop_map(|(t, at)| Step::Delete(t, at)),
        1 => (0..4usize).prop_map(Step::Truncate),
        4 => (0..4usize).prop_map(Step::Commit),
        1 => (0..4usize).prop_map(Step::Rollback),
        2 => Just(Step::Merge),
    ]
}

/// Whether a change was made; those that are refused are so for a reason that others know of.
fn is_made(result: Result<(), TableError>) -> bool {
    match result {
        Ok(()) => true,
        Err(TableError::Index(IndexError::Duplicate { key, .. })) => {
            assert!(key.starts_with("(number)=("), "{key}");
            false
        }
        Err(TableError::Transaction(
            TransactionError::Conflict { .. } | TransactionError::TruncateConflict { .. },
        )) => false,
        Err(error) => panic!("{error}"),
    }
}

fn play(kind: IndexKind, steps: Vec<Step>) {
    let scene = Scene::with_indexes(kind);
    let mut open: Vec<Arc<Transaction>> = vec![scene.begin()];
    for step in steps {
        let of = |open: &[Arc<Transaction>], at: usize| (!open.is_empty()).then(|| at % open.len());
        match step {
            Step::Begin if open.len() < 4 => open.push(scene.begin()),
            Step::Begin => {}
            Step::Insert(at, rows) => {
                if let Some(at) = of(&open, at) {
                    is_made(open[at].insert(&scene.table, scene.rows(&rows)));
                }
            }
            Step::Update(at, rank, row) => {
                if let Some(at) = of(&open, at) {
                    let id = scene.scan(&open[at]).keys().nth(rank).copied();
                    let ids = id.into_iter().collect::<Vec<_>>();
                    if !ids.is_empty() {
                        is_made(open[at].replace(&scene.table, ids, scene.rows(&[row])));
                    }
                }
            }
            Step::Delete(at, rank) => {
                if let Some(at) = of(&open, at) {
                    let id = scene.scan(&open[at]).keys().nth(rank).copied();
                    is_made(open[at].delete(&scene.table, id.into_iter().collect()));
                }
            }
            Step::Truncate(at) => {
                if let Some(at) = of(&open, at) {
                    is_made(open[at].truncate(&scene.table));
                }
            }
            Step::Commit(at) => {
                if let Some(at) = of(&open, at) {
                    let transaction = open.swap_remove(at);
                    scene.check(&transaction);
                    is_made(transaction.commit());
                }
            }
            Step::Rollback(at) => {
                if let Some(at) = of(&open, at) {
                    drop(open.swap_remove(at));
                }
            }
            Step::Merge => {
                let (database, storage) = (&scene.database, &scene.storage);
                let merged = scene
                    .table
                    .merge(database, storage, MergeScope::All, &|| true);
                merged.expect("merged");
            }
        }
        open.iter().for_each(|transaction| scene.check(transaction));
    }
    drop(open);
    scene.check(&scene.begin());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn art_leads_to_what_a_scan_finds(steps in prop::collection::vec(step(), 1..40)) {
        play(IndexKind::Art, steps);
    }

    #[test]
    fn masstree_leads_to_what_a_scan_finds(steps in prop::collection::vec(step(), 1..40)) {
        play(IndexKind::Masstree, steps);
    }
}

#[test]
fn of_two_transactions_with_one_key_the_first_to_commit_has_it() {
    let scene = Scene::with_indexes(IndexKind::Art);
    let (first, second) = (scene.begin(), scene.begin());
    for transaction in [&first, &second] {
        let rows = scene.rows(&[(Some(1), "a")]);
        transaction.insert(&scene.table, rows).expect("inserted");
    }
    first.commit().expect("committed");
    let refused = second.commit().expect_err("a duplicate").to_string();
    assert_eq!(
        refused,
        "duplicate key value violates unique constraint \"t_number\": key (number)=(1) already exists"
    );
    scene.check(&scene.begin());
}

#[test]
fn an_index_that_is_made_meanwhile_has_what_a_transaction_adds() {
    let scene = Scene::new();
    let late = scene.begin();
    let rows = scene.rows(&[(Some(1), "a"), (Some(2), "b")]);
    late.insert(&scene.table, rows).expect("inserted");
    let columns = vec![IndexColumn::ascending(0)];
    scene.create("t_number", IndexKind::Art, IndexRole::Unique, columns);
    let columns = [1, 0].map(IndexColumn::ascending).to_vec();
    scene.create("t_word", IndexKind::Masstree, IndexRole::Search, columns);
    late.commit().expect("committed");
    let other = scene.begin();
    scene.check(&other);
    let again = other.insert(&scene.table, scene.rows(&[(Some(2), "c")]));
    assert!(!is_made(again));
}

#[test]
fn entries_of_deleted_rows_go_when_nobody_needs_them() {
    let scene = Scene::with_indexes(IndexKind::Art);
    let change = |delete: bool, number: i64| {
        let transaction = scene.begin();
        let rows = scene.scan(&transaction);
        let ids: Vec<RowId> = rows.keys().copied().filter(|_| delete).collect();
        let rows = scene.rows(&[(Some(number), "a")]);
        transaction
            .replace(&scene.table, ids, rows)
            .expect("replaced");
        transaction.commit().expect("committed");
    };
    let reader = scene.begin();
    (0..50).for_each(|number| change(true, number));
    let keys = |index: usize| scene.table.snapshot().indexes()[index].len();
    assert_eq!([keys(0), keys(1)], [Some(50), Some(50)]);
    scene.check(&reader);
    drop(reader);
    (0..20).for_each(|number| change(true, number));
    let left = keys(0).expect("entries");
    assert!(left <= 2, "{left} keys for a row");
}

#[test]
fn keys_that_are_too_long_and_tables_with_duplicates_are_refused() {
    let scene = Scene::new();
    let transaction = scene.begin();
    let rows = scene.rows(&[(Some(1), "a"), (Some(1), "b")]);
    transaction.insert(&scene.table, rows).expect("inserted");
    transaction.commit().expect("committed");
    let definition = |name: &str, column, role| IndexDefinition {
        name: name.to_owned(),
        columns: vec![IndexColumn::ascending(column)],
        kind: IndexKind::Art,
        role,
        placement: IndexPlacement::default(),
    };
    let fill = |definition| TableIndex::filled(definition, &scene.table.snapshot(), &scene.storage);
    let duplicate = fill(definition("n", 0, IndexRole::PrimaryKey)).expect_err("a duplicate");
    assert!(
        duplicate.to_string().contains("(number)=(1)"),
        "{duplicate}"
    );
    fill(definition("w", 1, IndexRole::Unique)).expect("an index");
    let elsewhere = fill(definition("x", 2, IndexRole::Search)).expect_err("no such column");
    assert!(
        elsewhere.to_string().contains("another table"),
        "{elsewhere}"
    );
    let long: &'static str = Box::leak("x".repeat(4000).into_boxed_str());
    let transaction = scene.begin();
    let rows = scene.rows(&[(Some(2), long)]);
    transaction.insert(&scene.table, rows).expect("inserted");
    transaction.commit().expect("committed");
    let long = fill(definition("w", 1, IndexRole::Search)).expect_err("too long");
    assert!(long.to_string().contains("at most 2048 bytes"), "{long}");
}
