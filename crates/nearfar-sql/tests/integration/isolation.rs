//! Random interleavings of sessions, transactions and merges against a model of what they read, and of whom
//! they wait for.

use super::support::{error, region_bytes, run, try_run, two_tiers, value};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::TransactionError;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SESSIONS: usize = 3;
const TABLES: [&str; 2] = ["a", "b"];

/// Rows with `k % divisor = remainder`.
#[derive(Debug, Clone, Copy)]
struct Share {
    divisor: i64,
    remainder: i64,
}

#[derive(Debug, Clone)]
enum Step {
    Begin { reads_committed: bool },
    Commit,
    Rollback,
    Insert { table: usize, first: i64, rows: i64 },
    Copy { table: usize, from: Share },
    Update { table: usize, of: Share, add: i64 },
    Delete { table: usize, of: Share },
    Truncate { table: usize },
    Merge { table: usize },
}

fn some() -> impl Strategy<Value = Share> {
    (1i64..12, 0i64..12).prop_map(|(divisor, remainder)| Share {
        divisor,
        remainder: remainder % divisor,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let table = || 0..TABLES.len();
    prop_oneof![
        4 => any::<bool>().prop_map(|reads_committed| Step::Begin { reads_committed }),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        4 => (table(), 0i64..50, 1i64..40)
            .prop_map(|(table, first, rows)| Step::Insert { table, first, rows }),
        1 => (table(), some()).prop_map(|(table, from)| Step::Copy { table, from }),
        4 => (table(), some(), 1i64..5).prop_map(|(table, of, add)| Step::Update { table, of, add }),
        3 => (table(), some()).prop_map(|(table, of)| Step::Delete { table, of }),
        1 => table().prop_map(|table| Step::Truncate { table }),
        3 => table().prop_map(|table| Step::Merge { table }),
    ]
}

/// A table of the model: rows by identity, and how often it was changed.
#[derive(Debug, Clone, Default)]
struct Rows {
    rows: BTreeMap<u64, (i64, i64)>,
    changes: u64,
}

/// A transaction of the model.
#[derive(Debug, Clone, Default)]
struct Open {
    base: [Rows; TABLES.len()],
    view: [Rows; TABLES.len()],
    truncated: [bool; TABLES.len()],
    /// Rows of others that it has changed.
    locked: [BTreeSet<u64>; TABLES.len()],
    /// Whether it has truncated a table.
    all_locked: [bool; TABLES.len()],
    reads_committed: bool,
}

/// Why a statement is refused.
#[derive(Debug, PartialEq)]
enum Refusal {
    /// An open transaction has a row.
    Held,
    /// Somebody has changed a row that the transaction still reads.
    Changed,
}

#[derive(Debug, Default)]
struct Model {
    committed: [Rows; TABLES.len()],
    open: [Option<Open>; SESSIONS],
    next: u64,
}

impl Model {
    /// Has a transaction that reads what is committed read that.
    fn refresh(&mut self, session: usize) {
        let Some(open) = self.open[session]
            .as_mut()
            .filter(|open| open.reads_committed)
        else {
            return;
        };
        for (table, committed) in self.committed.iter().enumerate() {
            if open.truncated[table] {
                continue;
            }
            let (base, view) = (&open.base[table], &open.view[table]);
            let is_kept = |id: &u64| view.rows.contains_key(id) || !base.rows.contains_key(id);
            let others = committed.rows.iter().filter(|(id, _)| is_kept(id));
            let own = view
                .rows
                .iter()
                .filter(|(id, _)| !base.rows.contains_key(id));
            let rows = others.chain(own).map(|(id, row)| (*id, *row)).collect();
            let changes = committed.changes + view.changes - base.changes;
            open.view[table] = Rows { rows, changes };
            open.base[table] = committed.clone();
        }
    }

    /// Locks rows that a statement changes, or says why it can't.
    fn lock(&mut self, session: usize, table: usize, gone: &[u64]) -> Result<(), Refusal> {
        let base = match &self.open[session] {
            Some(open) => &open.base[table],
            None => &self.committed[table],
        };
        let others = gone.iter().filter(|id| base.rows.contains_key(id));
        let others: BTreeSet<u64> = others.copied().collect();
        let mut open = self
            .open
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != session);
        let is_held = |open: &Option<Open>| {
            let Some(open) = open else { return false };
            let has_all = open.all_locked[table] && !others.is_empty();
            has_all || !open.locked[table].is_disjoint(&others)
        };
        if open.any(|(_, open)| is_held(open)) {
            return Err(Refusal::Held);
        }
        let committed = &self.committed[table].rows;
        if !others.iter().all(|id| committed.contains_key(id)) {
            return Err(Refusal::Changed);
        }
        if let Some(open) = &mut self.open[session] {
            open.locked[table].extend(others);
        }
        Ok(())
    }

    /// The same for all rows.
    fn lock_all(&mut self, session: usize, table: usize) -> Result<(), Refusal> {
        let mut open = self
            .open
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != session);
        let is_held = |open: &Open| open.all_locked[table] || !open.locked[table].is_empty();
        if open.any(|(_, open)| open.as_ref().is_some_and(is_held)) {
            return Err(Refusal::Held);
        }
        if let Some(open) = &mut self.open[session] {
            open.all_locked[table] = true;
        }
        Ok(())
    }

    fn view(&mut self, session: usize, table: usize) -> &mut Rows {
        match &mut self.open[session] {
            Some(open) => &mut open.view[table],
            None => &mut self.committed[table],
        }
    }

    fn matching(&mut self, session: usize, table: usize, of: Share) -> Vec<(u64, (i64, i64))> {
        let view = self.view(session, table);
        let matches = |row: &(i64, i64)| row.0 % of.divisor == of.remainder;
        let rows = view.rows.iter().filter(|(_, row)| matches(row));
        rows.map(|(id, row)| (*id, *row)).collect()
    }

    fn replace(&mut self, session: usize, table: usize, gone: &[u64], new: Vec<(i64, i64)>) {
        let first = self.next;
        self.next += new.len() as u64;
        let view = self.view(session, table);
        view.changes += u64::from(!gone.is_empty() || !new.is_empty());
        gone.iter().for_each(|id| {
            view.rows.remove(id);
        });
        view.rows.extend((first..).zip(new));
    }

    /// Whether the transaction of a session can be committed, which it then is.
    fn commit(&mut self, session: usize) -> bool {
        let Some(open) = self.open[session].take() else {
            return true;
        };
        let mut after = self.committed.clone();
        for (table, after) in after.iter_mut().enumerate() {
            let (base, view) = (&open.base[table], &open.view[table]);
            if view.changes == base.changes {
                continue;
            }
            if open.truncated[table] && after.changes != base.changes {
                return false;
            }
            let ids = |rows: &Rows| rows.rows.keys().copied().collect::<BTreeSet<u64>>();
            for gone in ids(base).difference(&ids(view)) {
                if after.rows.remove(gone).is_none() {
                    return false;
                }
            }
            let new = view
                .rows
                .iter()
                .filter(|(id, _)| !base.rows.contains_key(id));
            after.rows.extend(new);
            after.changes += 1;
        }
        self.committed = after;
        true
    }
}

/// Carries one step out, in the engine and in the model.
async fn carry_out(
    step: &Step,
    session: usize,
    sessions: &[Session],
    model: &mut Model,
) -> Result<(), TestCaseError> {
    let client = &sessions[session];
    model.refresh(session);
    match *step {
        Step::Begin { reads_committed } => {
            let level = match reads_committed {
                true => "READ COMMITTED",
                false => "REPEATABLE READ",
            };
            run(client, &format!("BEGIN ISOLATION LEVEL {level}")).await;
            if model.open[session].is_none() {
                model.open[session] = Some(Open {
                    base: model.committed.clone(),
                    view: model.committed.clone(),
                    reads_committed,
                    ..Open::default()
                });
            }
        }
        Step::Commit => {
            let result = try_run(client, "COMMIT").await;
            let is_conflict = matches!(
                &result,
                Err(EngineError::Transaction(
                    TransactionError::Conflict { .. } | TransactionError::TruncateConflict { .. }
                ))
            );
            prop_assert!(is_conflict || result.is_ok(), "{result:?}");
            prop_assert_eq!(model.commit(session), result.is_ok());
        }
        Step::Rollback => {
            run(client, "ROLLBACK").await;
            model.open[session] = None;
        }
        Step::Truncate { table } => {
            let sql = format!("TRUNCATE {}", TABLES[table]);
            let expected = model.lock_all(session, table);
            if is_done(&sql, session, client, (model, expected)).await? {
                let view = model.view(session, table);
                view.rows.clear();
                view.changes += 1;
                if let Some(open) = &mut model.open[session] {
                    open.truncated[table] = true;
                }
            }
        }
        Step::Merge { table } => {
            let other = client.engine().session();
            run(&other, &format!("CALL nearfar.merge('{}')", TABLES[table])).await;
        }
        _ => change(step, session, client, model).await?,
    }
    Ok(())
}

/// The same for the steps that change rows.
async fn change(
    step: &Step,
    session: usize,
    client: &Session,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    match *step {
        Step::Insert { table, first, rows } => {
            let sql = format!(
                "INSERT INTO {} SELECT value, value * 2 FROM generate_series({first}, {})",
                TABLES[table],
                first + rows - 1
            );
            run(client, &sql).await;
            let new = (first..first + rows).map(|k| (k, k * 2)).collect();
            model.replace(session, table, &[], new);
        }
        Step::Copy { table, from } => {
            let (to, filter) = (TABLES[1 - table], condition(from));
            let sql = format!(
                "INSERT INTO {to} SELECT k, v FROM {} WHERE {filter}",
                TABLES[table]
            );
            run(client, &sql).await;
            let rows = model.matching(session, table, from);
            let rows = rows.into_iter().map(|(_, row)| row).collect();
            model.replace(session, 1 - table, &[], rows);
        }
        Step::Update { table, of, add } => {
            let (name, filter) = (TABLES[table], condition(of));
            let sql = format!("UPDATE {name} SET k = k + {add}, v = v - k WHERE {filter}");
            let rows = model.matching(session, table, of);
            let gone: Vec<u64> = rows.iter().map(|(id, _)| *id).collect();
            let expected = model.lock(session, table, &gone);
            if is_done(&sql, session, client, (model, expected)).await? {
                let new = rows.iter().map(|(_, (k, v))| (k + add, v - k)).collect();
                model.replace(session, table, &gone, new);
            }
        }
        Step::Delete { table, of } => {
            let sql = format!("DELETE FROM {} WHERE {}", TABLES[table], condition(of));
            let rows = model.matching(session, table, of);
            let gone: Vec<u64> = rows.iter().map(|(id, _)| *id).collect();
            let expected = model.lock(session, table, &gone);
            if is_done(&sql, session, client, (model, expected)).await? {
                model.replace(session, table, &gone, Vec::new());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Runs a statement of which the model says what becomes of it. False where it is refused, and its transaction
/// with it.
async fn is_done(
    sql: &str,
    session: usize,
    client: &Session,
    (model, expected): (&mut Model, Result<(), Refusal>),
) -> Result<bool, TestCaseError> {
    let refusal = match try_run(client, sql).await {
        Ok(_) => Ok(()),
        Err(EngineError::Transaction(TransactionError::LockTimeout { .. })) => Err(Refusal::Held),
        Err(EngineError::Transaction(TransactionError::Conflict { .. })) => Err(Refusal::Changed),
        Err(other) => return Err(TestCaseError::fail(format!("{sql}: {other}"))),
    };
    prop_assert_eq!(&refusal, &expected, "{}", sql);
    if refusal.is_err() {
        run(client, "ROLLBACK").await;
        model.open[session] = None;
    }
    Ok(refusal.is_ok())
}

fn condition(of: Share) -> String {
    format!("k % {} = {}", of.divisor, of.remainder)
}

async fn check(session: usize, client: &Session, model: &mut Model) -> Result<(), TestCaseError> {
    model.refresh(session);
    for (table, name) in TABLES.into_iter().enumerate() {
        let sql = format!("SELECT k, v FROM {name} ORDER BY k, v");
        let rows = pairs(client, &sql).await;
        let view = model.view(session, table);
        let mut expected: Vec<(i64, i64)> = view.rows.values().copied().collect();
        expected.sort_unstable();
        prop_assert_eq!(&rows, &expected, "table {} in session {}", name, session);
        let sql = format!("SELECT count(*), count(v) FROM {name}");
        let count = expected.len() as i64;
        prop_assert_eq!(pairs(client, &sql).await, vec![(count, count)]);
        let sql = format!("SELECT min(k), max(k) FROM {name} HAVING count(*) > 0");
        let bounds = expected
            .first()
            .zip(expected.last())
            .map(|(low, high)| (low.0, high.0));
        prop_assert_eq!(pairs(client, &sql).await, Vec::from_iter(bounds));
    }
    Ok(())
}

async fn pairs(client: &Session, sql: &str) -> Vec<(i64, i64)> {
    let result = client.execute(sql).await.expect(sql).remove(0);
    let StatementResult::Rows(rows) = result else {
        panic!("rows")
    };
    let batches = rows.collect().await.expect(sql);
    let values = |batch: &arrow::array::RecordBatch| {
        let column = |i: usize| {
            batch
                .column(i)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        column(0).into_iter().zip(column(1)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(values).collect()
}

async fn interleave(engine: Arc<Engine>, steps: Vec<(usize, Step)>) -> Result<(), TestCaseError> {
    let sessions: Vec<Session> = (0..SESSIONS).map(|_| engine.session()).collect();
    for name in TABLES {
        run(
            &sessions[0],
            &format!("CREATE TABLE {name} (k BIGINT, v BIGINT)"),
        )
        .await;
    }
    for client in &sessions {
        run(client, "SET lock_timeout = 1").await;
    }
    let mut model = Model::default();
    for (session, step) in &steps {
        carry_out(step, *session, &sessions, &mut model).await?;
        check(*session, &sessions[*session], &mut model).await?;
    }
    for (session, client) in sessions.iter().enumerate() {
        check(session, client, &mut model).await?;
        carry_out(&Step::Commit, session, &sessions, &mut model).await?;
    }
    for table in 0..TABLES.len() {
        check(0, &sessions[0], &mut model).await?;
        carry_out(&Step::Merge { table }, 0, &sessions, &mut model).await?;
    }
    check(1, &sessions[1], &mut model).await?;
    run(&sessions[0], "DROP TABLE a; DROP TABLE b").await;
    drop(sessions);
    for _ in 0..6_000 {
        if region_bytes(&engine) == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    prop_assert_eq!(region_bytes(&engine), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn interleaved_transactions_agree_with_the_model(
        steps in prop::collection::vec((0..SESSIONS, step()), 1..50),
        merge_rows in prop_oneof![Just("never"), Just("1"), Just("60")],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let engine = two_tiers();
        runtime.block_on(async {
            run(&engine.session(), &format!("SET merge_rows = {merge_rows}")).await;
            interleave(engine, steps).await
        })?;
    }
}

/// Of two transactions that add one key, the second to commit is refused, also where it has read since what the first one
/// has committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_has_committed_meanwhile_is_refused() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(
        &one,
        "CREATE TABLE t (k INT PRIMARY KEY, g INT, w VARCHAR); INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    )
    .await;
    for (rows, next) in [
        ("(19, 19, 'c')", "UPDATE t SET g = g + 1 WHERE k = 1"),
        ("(20, 20, 'd')", "SELECT count(*) FROM t"),
        ("(21, 21, 'e')", "DELETE FROM t WHERE k = 2"),
        ("(22, 22, 'f')", "INSERT INTO t VALUES (23, 23, 'g')"),
    ] {
        run(&one, &format!("BEGIN; INSERT INTO t VALUES {rows}")).await;
        run(&other, &format!("INSERT INTO t VALUES {rows}")).await;
        run(&one, next).await;
        let refused = error(&one, "COMMIT").await;
        assert!(refused.contains("duplicate key"), "{next}: {refused}");
        run(&other, "CALL nearfar.check('t')").await;
    }
    assert_eq!(value(&other, "SELECT count(*) FROM t").await, "6");
}
