//! `LOCK TABLE`: who waits for whom, and what ends a wait.

use nearfar_sql::engine::{Engine, Session};
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::TransactionError;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::support::{engine, run, try_run, value};

/// Longer than a statement takes that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one is looked at that is to wait.
const GLANCE: Duration = Duration::from_millis(100);

const MODES: [&str; 8] = [
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
];

/// The modes from this one on are in the way of a change of rows, of locked rows, and of reads.
const AGAINST_CHANGES: [&str; 4] = [
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
];
const AGAINST_LOCKS: [&str; 2] = ["EXCLUSIVE", "ACCESS EXCLUSIVE"];

async fn tables() -> Arc<Engine> {
    let engine = engine();
    let create = "CREATE TABLE t (a INT PRIMARY KEY, n INT); CREATE TABLE u (a INT);
                  INSERT INTO t VALUES (1, 0), (2, 0); INSERT INTO u VALUES (1)";
    run(&engine.session(), create).await;
    engine
}

fn start(session: &Session, sql: &str) -> JoinHandle<Result<String, EngineError>> {
    let (session, sql) = (session.clone(), sql.to_owned());
    tokio::spawn(async move { try_run(&session, &sql).await })
}

async fn ended(running: JoinHandle<Result<String, EngineError>>) -> Result<String, EngineError> {
    let ended = timeout(PATIENCE, running).await.expect("no hang");
    ended.expect("no panic")
}

/// Starts a statement that has to wait.
async fn waits(session: &Session, sql: &str) -> JoinHandle<Result<String, EngineError>> {
    let running = start(session, sql);
    sleep(GLANCE).await;
    assert!(!running.is_finished(), "{sql} does not wait");
    running
}

/// Whether a statement alone has to wait, which it does not do for long.
async fn has_to_wait(session: &Session, sql: &str) -> bool {
    run(session, "SET lock_timeout = '30ms'").await;
    let done = try_run(session, sql).await;
    run(session, "ROLLBACK; RESET lock_timeout").await;
    match done {
        Ok(_) => false,
        Err(EngineError::Transaction(TransactionError::TableLockTimeout { table })) => {
            assert_eq!(table, "t", "{sql}");
            true
        }
        Err(error) => panic!("{sql}: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_wait_for_the_modes_that_they_conflict_with() {
    let engine = tables().await;
    let (one, other) = (engine.session(), engine.session());
    for mode in MODES {
        run(&one, &format!("BEGIN; LOCK TABLE t IN {mode} MODE")).await;
        let changes = AGAINST_CHANGES.contains(&mode);
        for sql in [
            "INSERT INTO t VALUES (9, 0); DELETE FROM t WHERE a = 9",
            "INSERT INTO t SELECT 9, 0; DELETE FROM t WHERE a = 9",
            "UPDATE t SET n = n + 1 WHERE a = 1",
            "UPDATE t SET n = n + 1 WHERE abs(a) = 1",
            "DELETE FROM t WHERE a = 77",
            "INSERT INTO t VALUES (1, 0) ON CONFLICT (a) DO UPDATE SET n = t.n + 1",
            "PREPARE p AS INSERT INTO t VALUES (9, 0); EXECUTE p; DEALLOCATE p;
             DELETE FROM t WHERE a = 9",
            "BEGIN; UPDATE t SET n = 5; ROLLBACK",
        ] {
            // Twice, for what is not planned again.
            for _ in 0..2 {
                assert_eq!(has_to_wait(&other, sql).await, changes, "{mode}: {sql}");
                let _ = try_run(&other, "DEALLOCATE p").await;
            }
        }
        let locks = AGAINST_LOCKS.contains(&mode);
        let sql = "SELECT n FROM t WHERE a = 1 FOR UPDATE";
        assert_eq!(has_to_wait(&other, sql).await, locks, "{mode}: {sql}");
        let reads = mode == "ACCESS EXCLUSIVE";
        for sql in [
            "SELECT n FROM t WHERE a = 1",
            "SELECT sum(n) FROM t",
            "SELECT 1 WHERE 1 IN (SELECT a FROM t)",
            "INSERT INTO u SELECT a FROM t",
        ] {
            assert_eq!(has_to_wait(&other, sql).await, reads, "{mode}: {sql}");
        }
        // Another table is not concerned.
        assert!(!has_to_wait(&other, "INSERT INTO u VALUES (1)").await);
        // Its own transaction does all of it.
        run(&one, "UPDATE t SET n = 7; INSERT INTO t VALUES (8, 8)").await;
        run(&one, "ROLLBACK").await;
        assert!(!has_to_wait(&other, "UPDATE t SET n = 0").await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_waits_for_those_who_have_changed_the_table() {
    let engine = tables().await;
    let (one, other) = (engine.session(), engine.session());
    for change in [
        "INSERT INTO t VALUES (3, 0)",
        "INSERT INTO t SELECT 4, 0",
        "UPDATE t SET n = 1 WHERE a = 1",
        "DELETE FROM t WHERE abs(a) = 2",
    ] {
        run(&one, &format!("BEGIN; {change}")).await;
        let now = "LOCK TABLE t IN SHARE MODE NOWAIT";
        let refused = try_run(&other, &format!("BEGIN; {now}")).await;
        assert!(
            matches!(
                refused,
                Err(EngineError::Transaction(
                    TransactionError::TableNotAvailable { .. }
                ))
            ),
            "{change}: {refused:?}"
        );
        run(&other, "ROLLBACK").await;
        let lock =
            "BEGIN; LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE; SELECT count(*), sum(n) FROM t";
        let waiting = waits(&other, lock).await;
        run(&one, "COMMIT").await;
        let seen = ended(waiting).await.expect("locked");
        run(&other, "COMMIT").await;
        let now = run(&other, "SELECT count(*), sum(n) FROM t").await;
        assert!(seen.contains(&now), "{change}: {seen}, {now}");
    }
    // What reads one snapshot reads it behind the lock.
    run(&one, "BEGIN; INSERT INTO t VALUES (5, 0)").await;
    let lock =
        "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE t; SELECT count(*) FROM t WHERE a = 5";
    let waiting = waits(&other, lock).await;
    run(&one, "COMMIT").await;
    assert!(ended(waiting).await.expect("locked").contains("| 1 "));
    run(&other, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_end_with_the_transaction_the_savepoint_or_the_session() {
    let engine = tables().await;
    let (one, other) = (engine.session(), engine.session());
    for end in ["COMMIT", "ROLLBACK"] {
        run(&one, "BEGIN; LOCK TABLE t, u IN EXCLUSIVE MODE").await;
        let waiting = waits(&other, "UPDATE t SET n = n + 1").await;
        run(&one, end).await;
        assert_eq!(ended(waiting).await.expect("changed"), "UPDATE 2");
    }
    run(
        &one,
        "BEGIN; LOCK t IN ROW EXCLUSIVE MODE; SAVEPOINT s; LOCK t",
    )
    .await;
    let waiting = waits(&other, "SELECT count(*) FROM t").await;
    run(&one, "ROLLBACK TO s").await;
    ended(waiting).await.expect("read");
    assert!(has_to_wait(&other, "BEGIN; LOCK t IN SHARE MODE").await);
    run(&one, "COMMIT").await;
    run(&one, "BEGIN; LOCK TABLE t").await;
    assert!(try_run(&one, "SELECT nothing").await.is_err());
    assert!(
        !has_to_wait(&other, "SELECT count(*) FROM t").await,
        "it has failed"
    );
    run(&one, "ROLLBACK; BEGIN; LOCK TABLE t").await;
    let waiting = waits(&other, "SELECT count(*) FROM t").await;
    drop(one);
    ended(waiting).await.expect("read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_was_locked_meanwhile_is_not_changed_by_a_commit() {
    let engine = tables().await;
    let (one, other) = (engine.session(), engine.session());
    // A statement alone that is being given its rows when the lock comes.
    let insert = "INSERT INTO t SELECT 100 + value, 0 FROM generate_series(1, 3000000)
                  WHERE value % 1000000 = 0";
    let inserting = start(&other, insert);
    sleep(Duration::from_millis(5)).await;
    let count = "SELECT count(*) FROM t";
    run(&one, "BEGIN; LOCK TABLE t IN SHARE MODE").await;
    let first = value(&one, count).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(value(&one, count).await, first);
    run(&one, "COMMIT").await;
    assert!(ended(inserting).await.is_ok());
    assert_eq!(value(&one, count).await, "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_each_other_are_told_apart() {
    let engine = tables().await;
    let (one, other) = (engine.session(), engine.session());
    for (first, second) in [
        ("LOCK TABLE u", "LOCK TABLE t"),
        ("LOCK TABLE u", "UPDATE t SET n = 1"),
        ("UPDATE u SET a = 1", "UPDATE t SET n = 1"),
    ] {
        run(&one, "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE").await;
        let own = match first {
            "LOCK TABLE u" => "LOCK TABLE u IN EXCLUSIVE MODE",
            _ => "UPDATE u SET a = 1",
        };
        run(&other, &format!("BEGIN; {own}")).await;
        let waiting = waits(&one, first).await;
        let refused = try_run(&other, second).await;
        assert!(
            matches!(
                refused,
                Err(EngineError::Transaction(TransactionError::Deadlock))
            ),
            "{first}, {second}: {refused:?}"
        );
        ended(waiting).await.expect("the other has ended");
        run(&one, "COMMIT").await;
        run(&other, "ROLLBACK").await;
    }
    // Who wants more than it has, as another does too.
    for session in [&one, &other] {
        run(session, "BEGIN; LOCK TABLE t IN SHARE MODE").await;
    }
    let waiting = waits(&one, "LOCK TABLE t").await;
    assert!(try_run(&other, "LOCK TABLE t").await.is_err());
    ended(waiting).await.expect("the other has ended");
    run(&one, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_not_passed_and_a_wait_that_is_given_up_leaves_nothing() {
    let engine = tables().await;
    let sessions: Vec<Session> = (0..3).map(|_| engine.session()).collect();
    run(&sessions[0], "BEGIN; UPDATE t SET n = 1").await;
    let locking = waits(&sessions[1], "BEGIN; LOCK TABLE t").await;
    let reading = waits(&sessions[2], "SELECT count(*) FROM t").await;
    run(&sessions[0], "UPDATE t SET n = 2; SELECT * FROM t").await;
    locking.abort();
    ended(reading).await.expect("nobody is before it any more");
    run(&sessions[0], "COMMIT").await;
    assert!(!has_to_wait(&sessions[2], "UPDATE t SET n = 3").await);
    let _ = try_run(&sessions[1], "ROLLBACK").await;
    // Definitions wait too.
    run(&sessions[0], "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE").await;
    for definition in ["ALTER TABLE t ADD m INT", "TRUNCATE t", "DROP TABLE t"] {
        assert!(has_to_wait(&sessions[1], definition).await, "{definition}");
    }
    run(&sessions[0], "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_locked_is_refused() {
    let engine = tables().await;
    let session = engine.session();
    run(&session, "CREATE VIEW v AS SELECT a FROM t").await;
    let alone = try_run(&session, "LOCK TABLE t").await;
    assert!(matches!(
        alone,
        Err(EngineError::Transaction(
            TransactionError::NoTransaction { .. }
        ))
    ));
    for sql in [
        "LOCK TABLE nothing",
        "LOCK TABLE v",
        "LOCK information_schema.tables",
    ] {
        assert!(try_run(&session, &format!("BEGIN; {sql}")).await.is_err());
        run(&session, "ROLLBACK").await;
    }
    run(&session, "CREATE TEMP TABLE own (a INT)").await;
    run(
        &session,
        "BEGIN; LOCK TABLE own; INSERT INTO own VALUES (1); COMMIT",
    )
    .await;
}

/// Two counters whose sum stays the same while transfers and sums run beside each other, with nothing but table locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_table_lock_makes_steps_of_several_statements_one() {
    let engine = tables().await;
    let workers = (0..4).map(|worker: u32| {
        let session = engine.session();
        tokio::spawn(async move {
            for round in 0..25_u32 {
                let mode = ["SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"];
                let mode = mode[((worker + round) % 3) as usize];
                run(&session, &format!("BEGIN; LOCK TABLE t IN {mode} MODE")).await;
                let n: i64 = value(&session, "SELECT max(n) FROM t")
                    .await
                    .parse()
                    .expect("n");
                run(
                    &session,
                    &format!("INSERT INTO t VALUES ({}, {})", n + 100, n + 1),
                )
                .await;
                run(&session, "COMMIT").await;
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        timeout(PATIENCE * 3, worker)
            .await
            .expect("no hang")
            .expect("no panic");
    }
    let session = engine.session();
    assert_eq!(value(&session, "SELECT max(n) FROM t").await, "100");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "102");
}
