//! Statements that are given up while they commit: the gate says what becomes of them.

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::Session;
use nearfar_sql::sql::statements;
use nearfar_table::transaction::CommitGate;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::support::{run, value};
use super::{open, try_open};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a statement for so long, gives it up, and says whether it is kept.
async fn give_up(session: &Session, sql: &str, time: Duration) -> bool {
    let (gate, statement) = (
        Arc::<CommitGate>::default(),
        statements(sql).expect(sql).remove(0),
    );
    let (own, behind) = (session.clone(), Arc::clone(&gate));
    let work = async move { own.run_behind(&behind, &statement, &[]).await.is_ok() };
    let mut task = tokio::spawn(work);
    if let Ok(done) = tokio::time::timeout(time, &mut task).await {
        return done.expect("no panic");
    }
    let is_kept = !gate.close();
    // Nobody waits for it: a commit that has begun ends all the same.
    task.abort();
    is_kept
}

/// Waits until a query gives `wanted`, which it will.
async fn wait_for(session: &Session, sql: &str, wanted: &str) {
    let begun = Instant::now();
    while value(session, sql).await != wanted {
        assert!(begun.elapsed() < PATIENCE, "{sql} is not {wanted}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_gate_refused_is_not_kept_and_what_it_let_through_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = try_open(DataOptions::new(folder.path())).expect("a directory");
    let session = engine.session();
    run(&session, "CREATE TABLE t (k BIGINT)").await;
    let (mut rows, mut tables) = (0_u64, 0_u64);
    let count = "SELECT count(*) FROM t";
    let made = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'made_%'";
    for round in 0..60_u64 {
        let time = Duration::from_micros(round * 150);
        let insert = format!("INSERT INTO t VALUES ({round})");
        rows += u64::from(give_up(&session, &insert, time).await);
        let create = format!("CREATE TABLE made_{round} AS SELECT {round} AS a");
        tables += u64::from(give_up(&session, &create, time).await);
    }
    wait_for(&session, count, &rows.to_string()).await;
    wait_for(&session, made, &tables.to_string()).await;
    // What had been given up would come now.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(value(&session, count).await, rows.to_string());
    assert_eq!(value(&session, made).await, tables.to_string());
    drop((session, engine));
    let session = open(folder.path()).session();
    assert_eq!(value(&session, count).await, rows.to_string());
    assert_eq!(value(&session, made).await, tables.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_closed_lets_nothing_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = open(folder.path()).session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS k; CREATE SCHEMA s").await;
    run(&session, "CREATE TEMPORARY TABLE mine AS SELECT 1 AS k").await;
    for sql in [
        "INSERT INTO t VALUES (2)",
        "INSERT INTO mine VALUES (2)",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (2)",
        "UPDATE t SET k = 2",
        "DELETE FROM t",
        "TRUNCATE TABLE t",
        "CREATE TABLE u AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE t AS SELECT 2 AS k",
        "CREATE TEMPORARY TABLE u AS SELECT 1 AS a",
        "CREATE VIEW u AS SELECT * FROM t",
        "CREATE SCHEMA u",
        "DROP SCHEMA s",
        "DROP TABLE t",
        "DROP TABLE mine",
        "ALTER TABLE t SET (preload = 3)",
    ] {
        let gate = Arc::<CommitGate>::default();
        assert!(gate.close());
        let statement = statements(sql).expect(sql).remove(0);
        let refused = session.run_behind(&gate, &statement, &[]).await;
        assert!(refused.is_err(), "{sql}");
    }
    assert_eq!(value(&session, "SELECT sum(k) FROM t").await, "1");
    assert_eq!(value(&session, "SELECT sum(k) FROM mine").await, "1");
    let others = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'u'";
    assert_eq!(value(&session, others).await, "0");
    run(&session, "CREATE SCHEMA u; DROP SCHEMA s").await;
    // Within a transaction, only its end is a commit.
    run(&session, "BEGIN; INSERT INTO t VALUES (5)").await;
    let gate = Arc::<CommitGate>::default();
    gate.close();
    let commit = statements("COMMIT").expect("SQL").remove(0);
    assert!(session.run_behind(&gate, &commit, &[]).await.is_err());
    assert_eq!(value(&session, "SELECT sum(k) FROM t").await, "1");
}
