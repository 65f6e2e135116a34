//! Nodes of indexes on tiers: what is charged, where they go, and what is left of them.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use nearfar_memory::{Budgets, MemorySystem, TierId, TierKind, TierSpec};
use nearfar_table::error::{IndexError, TableError};
use nearfar_table::placement::Storage;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexPolicy, IndexRole,
    IndexStatistics, Table, TableIndex, stored_schema,
};
use nearfar_table::transaction::{Database, Isolation, MergeLimits, NewRowsBuilder, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{on, storage};

/// A table of numbers, and its database.
struct Numbers {
    storage: Storage,
    database: Arc<Database>,
    table: Arc<Table>,
}

impl Numbers {
    fn new(storage: Storage) -> Self {
        let limits = MergeLimits::default();
        limits.set_rows(MergeLimits::NEVER);
        let database = Database::new(storage.clone(), limits);
        let field = Field::new("n", DataType::Int64, false);
        let schema = stored_schema(&Schema::new(vec![field]));
        let table = Arc::new(Table::new("t", schema, Vec::new(), on(0)));
        database.add(&table);
        Self {
            storage,
            database,
            table,
        }
    }

    fn insert(&self, numbers: impl Iterator<Item = i64>) -> Result<(), TableError> {
        let column = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", column)]).expect("a batch");
        let mut builder = NewRowsBuilder::new(Arc::clone(&self.table), &self.storage);
        builder.push(batch).expect("rows");
        let transaction = Transaction::explicit(&self.database, Isolation::Snapshot, false);
        transaction.insert(&self.table, builder.finish().expect("rows").0)?;
        transaction.commit().map(drop)
    }

    fn index(&self, kind: IndexKind, policy: IndexPolicy) -> Result<Arc<TableIndex>, TableError> {
        let definition = IndexDefinition {
            name: "t_n".to_owned(),
            columns: vec![IndexColumn::ascending(0)],
            kind,
            role: IndexRole::Unique,
            placement: IndexPlacement {
                policy,
                tier: (policy != IndexPolicy::Near).then(|| "far".to_owned()),
                ..IndexPlacement::default()
            },
        };
        let commits = self.database.lock();
        let snapshot = self.table.snapshot();
        let index = TableIndex::filled(definition, &snapshot, &self.storage)?;
        commits.install(&self.table, snapshot.with_indexes(vec![Arc::clone(&index)]));
        Ok(index)
    }

    fn find(&self, index: &Arc<TableIndex>, number: i64) -> Option<i64> {
        let transaction = Transaction::explicit(&self.database, Isolation::Snapshot, false);
        let key = Arc::new(Int64Array::from(vec![number])) as ArrayRef;
        let range = index.encoder().range(&[key], (None, None)).expect("a key");
        let found = transaction
            .find(&self.table, index, &range, 1)
            .expect("a look");
        let (part, row) = found?.pop()?;
        let snapshot = transaction.snapshot(&self.table).expect("a snapshot");
        let column = snapshot.parts()[part].segment.columns()[0]
            .current()
            .expect("a column");
        let rows = nearfar_table::segment::RowSet::Run { start: row, len: 1 };
        let values = column.read(rows, &DataType::Int64).expect("a value");
        Some(values.as_primitive::<Int64Type>().value(0))
    }

    fn drop_indexes(&self) {
        let commits = self.database.lock();
        commits.install(&self.table, self.table.snapshot().with_indexes(Vec::new()));
    }

    fn used_bytes(&self) -> [u64; 2] {
        [0, 1].map(|tier| {
            let tier = TierId::from_index(tier).expect("a tier");
            self.storage.system.usage(tier).region_bytes
        })
    }
}

/// Waits for what workers do.
/// Ends the other threads of a test, also where it fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn node_bytes(statistics: &IndexStatistics) -> Vec<u64> {
    statistics
        .tiers
        .iter()
        .map(|tier| tier.node_bytes)
        .collect()
}

#[test]
fn every_policy_puts_nodes_where_it_says_and_leaves_nothing_behind() {
    let numbers = Numbers::new(storage());
    numbers.storage.index_workers.set_count(0);
    numbers
        .insert((0..60_000).map(|n| n * 7919 % 1_000_003))
        .expect("rows");
    let before = numbers.used_bytes();
    for kind in IndexKind::ALL {
        for policy in IndexPolicy::ALL {
            let index = numbers.index(kind, policy).expect("an index");
            let statistics = index.statistics();
            let bytes = node_bytes(&statistics);
            let total: u64 = bytes.iter().sum();
            assert_eq!(total, index.bytes(), "{policy:?}: what the tree counts");
            let near_share = match policy {
                IndexPolicy::Near => 1.0,
                IndexPolicy::Far => 0.0,
                _ => bytes[0] as f64 / total as f64,
            };
            let expected = match policy {
                IndexPolicy::Near => 1.0..=1.0,
                IndexPolicy::Far => 0.0..=0.0,
                IndexPolicy::InnerNear => 0.001..=0.8,
                // At first, as much as there is room for.
                _ => 0.05..=0.25,
            };
            assert!(
                expected.contains(&near_share),
                "{kind:?} {policy:?}: {near_share}"
            );
            let charged = statistics.tiers.iter().map(|tier| tier.region_bytes);
            let taken = numbers.used_bytes().iter().sum::<u64>() - before.iter().sum::<u64>();
            assert_eq!(charged.sum::<u64>(), taken);
            assert!(
                taken as f64 <= 1.4 * total as f64,
                "{kind:?} {policy:?}: {taken} for {total}"
            );
            for n in [0, 1, 59_999] {
                let number = n * 7919 % 1_000_003;
                assert_eq!(numbers.find(&index, number), Some(number));
            }
            drop(index);
            numbers.drop_indexes();
            assert_eq!(numbers.used_bytes(), before, "{kind:?} {policy:?}");
        }
    }
}

#[test]
fn a_full_tier_is_said_and_nothing_is_left_of_the_index() {
    let tier = |name: &str, kind, bytes| TierSpec::new(name, kind, vec![0], bytes);
    let tiers = vec![
        tier("near", TierKind::LocalDram, 8 << 20),
        tier("far", TierKind::Modelled, 1 << 20),
    ];
    let storage = Storage {
        system: MemorySystem::from_specs(tiers, &Budgets::new()).expect("two tiers"),
        ..storage()
    };
    let numbers = Numbers::new(storage);
    numbers.insert(0..100_000).expect("rows");
    let before = numbers.used_bytes();
    let error = numbers
        .index(IndexKind::Art, IndexPolicy::Far)
        .expect_err("too little");
    assert!(
        matches!(error, TableError::Index(IndexError::OutOfMemory { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("and far has no room"), "{error}");
    assert_eq!(numbers.used_bytes(), before);
    // Of two tiers, the other one takes what one has no room for.
    let index = numbers
        .index(IndexKind::Art, IndexPolicy::InnerNear)
        .expect("an index");
    assert_eq!(numbers.used_bytes()[1], 1 << 20);
    assert_eq!(numbers.find(&index, 99_999), Some(99_999));
}

#[test]
fn what_is_used_comes_near_while_others_write_and_indexes_end() {
    for (kind, policy) in [
        (IndexKind::Art, IndexPolicy::Fitted),
        (IndexKind::Masstree, IndexPolicy::Sidle),
    ] {
        let numbers = Numbers::new(storage());
        numbers.storage.index_workers.set_percent(100);
        numbers.insert((0..60_000).map(|n| 2 * n)).expect("rows");
        let before = numbers.used_bytes();
        let index = numbers.index(kind, policy).expect("an index");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = 1;
                while !is_done.load(Ordering::Relaxed) {
                    numbers.insert((0..50).map(|n| next + 2 * n)).expect("rows");
                    next += 100;
                    // A table that grows as fast as it can leaves readers little time to use anything.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    for n in 50_000..50_400 {
                        assert_eq!(numbers.find(&index, 2 * n), Some(2 * n));
                    }
                }
            });
            let _done = Done(&is_done);
            wait_for("nodes are moved", || index.statistics().promoted > 0);
            std::thread::sleep(Duration::from_millis(300));
        });
        index
            .verify(&numbers.table.snapshot())
            .expect("as the table is");
        let statistics = index.statistics();
        let bytes = node_bytes(&statistics);
        let share = bytes[0] as f64 / bytes.iter().sum::<u64>() as f64;
        assert!(share < 0.3, "{kind:?} {policy:?}: {share} is near");
        // Nobody uses it: workers sleep after a few more turns.
        drop(index);
        numbers.drop_indexes();
        wait_for("a turn that has begun ends", || {
            numbers.used_bytes()[1] <= before[1]
        });
        numbers.storage.index_workers.stop();
    }
}
