//! What transactions promise: isolation, all or nothing, and clear errors.

use super::support::{error, region_bytes, run, try_run, two_tiers, two_tiers_with, value};
use nearfar_memory::Budgets;
use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::TransactionError;
use std::time::Duration;
use tokio::task::JoinHandle;

const T: &str = "CREATE TABLE t AS SELECT value AS k, nullif(value % 10, 10) AS v,
                                         nullif('row ' || value, '') AS s
                 FROM generate_series(1, 20000)";

async fn failure(session: &Session, sql: &str) -> TransactionError {
    match try_run(session, sql).await {
        Err(EngineError::Transaction(error)) => error,
        other => panic!("{sql} gave {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_change_rows_immediately() {
    let session = two_tiers().session();
    run(&session, T).await;
    for (sql, tag, count, sum) in [
        (
            "INSERT INTO t VALUES (0, 7, 'new'), (-1, 8, NULL)",
            "INSERT 2",
            20002,
            90015,
        ),
        (
            "DELETE FROM t WHERE k % 2 = 0 AND k > 0",
            "DELETE 10000",
            10002,
            50015,
        ),
        (
            "UPDATE t SET v = v + 1, s = s || '!' WHERE k <= 100",
            "UPDATE 52",
            10002,
            50067,
        ),
        (
            "UPDATE t AS x SET v = x.v - 1 WHERE x.s LIKE '%!'",
            "UPDATE 51",
            10002,
            50016,
        ),
        (
            "DELETE FROM t WHERE k IN (SELECT max(k) FROM t UNION ALL SELECT min(k) FROM t)",
            "DELETE 2",
            10000,
            49998,
        ),
        ("DELETE FROM t WHERE k = 12345678", "DELETE 0", 10000, 49998),
        ("UPDATE t SET v = 0", "UPDATE 10000", 10000, 0),
        ("INSERT INTO t SELECT * FROM t", "INSERT 10000", 20000, 0),
        ("DELETE FROM t", "DELETE 20000", 0, -1),
        ("INSERT INTO t VALUES (1, 2, 'three')", "INSERT 1", 1, 2),
        ("TRUNCATE TABLE t", "TRUNCATE TABLE", 0, -1),
    ] {
        assert_eq!(run(&session, sql).await, tag, "{sql}");
        let counted = value(&session, "SELECT count(*) FROM t").await;
        assert_eq!(counted, count.to_string(), "{sql}");
        let filtered = value(&session, "SELECT count(*) FROM t WHERE v >= 0").await;
        assert_eq!(filtered, count.to_string(), "{sql}");
        let summed = value(&session, "SELECT coalesce(sum(v), -1) FROM t").await;
        assert_eq!(summed, sum.to_string(), "{sql}");
    }
    assert_eq!(region_bytes(session.engine()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_are_in_no_statistic() {
    let session = two_tiers().session();
    run(&session, T).await;
    run(
        &session,
        "DELETE FROM t WHERE k < 11 OR k > 19990 OR s = 'row 9'",
    )
    .await;
    let bounds = "SELECT min(k) || ' ' || max(k) || ' ' || count(s) || ' ' || min(s) FROM t";
    assert_eq!(value(&session, bounds).await, "11 19990 19980 row 100");
    run(&session, "INSERT INTO t VALUES (30000, NULL, NULL)").await;
    assert_eq!(value(&session, bounds).await, "11 30000 19980 row 100");
    let counts = "SELECT count(*) || ' ' || count(v) || ' ' || count(DISTINCT v) FROM t";
    assert_eq!(value(&session, counts).await, "19981 19980 10");
    run(&session, "CALL nearfar.merge('t')").await;
    assert_eq!(value(&session, bounds).await, "11 30000 19980 row 100");
    assert_eq!(value(&session, counts).await, "19981 19980 10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_sees_its_own_changes_and_nobody_elses() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    run(
        &one,
        "CREATE TABLE a AS SELECT 1 AS x; CREATE TABLE b AS SELECT 1 AS x",
    )
    .await;
    run(&one, "CREATE VIEW both AS SELECT a.x + b.x AS x FROM a, b").await;
    run(&one, "BEGIN; UPDATE a SET x = 2; INSERT INTO b VALUES (10)").await;
    assert_eq!(value(&one, "SELECT sum(x) FROM both").await, "15");
    assert_eq!(value(&two, "SELECT sum(x) FROM both").await, "2");
    run(&two, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(
        run(&one, "DELETE FROM b WHERE x = 1; COMMIT").await,
        "DELETE 1\nCOMMIT"
    );
    assert_eq!(value(&two, "SELECT sum(x) FROM both").await, "2");
    run(&two, "PREPARE p AS SELECT sum(x) FROM both").await;
    assert_eq!(value(&two, "EXECUTE p").await, "2");
    run(&two, "COMMIT").await;
    assert_eq!(value(&two, "EXECUTE p").await, "12");
    run(
        &two,
        "START TRANSACTION; TRUNCATE b; INSERT INTO b VALUES (5)",
    )
    .await;
    assert_eq!(value(&two, "SELECT sum(x) FROM both").await, "7");
    run(&two, "ROLLBACK").await;
    assert_eq!(value(&two, "SELECT sum(x) FROM both").await, "12");
}

/// What changes one row first, and what changes it then.
const CHANGES: [(&str, &str); 3] = [
    (
        "UPDATE t SET v = 1 WHERE k = 5",
        "UPDATE t SET v = v + 2 WHERE k = 5",
    ),
    (
        "DELETE FROM t WHERE k = 6",
        "UPDATE t SET v = 2 WHERE k < 10",
    ),
    (
        "UPDATE t SET v = 3 WHERE k = 7",
        "DELETE FROM t WHERE k = 7 AND v < 8",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_one_snapshot_refuses_rows_that_others_have_changed() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    let conflict = TransactionError::Conflict {
        table: "t".to_owned(),
    };
    run(&one, T).await;
    for (first, second) in CHANGES {
        for merge in ["", "CALL nearfar.merge('t')"] {
            run(&one, &format!("DROP TABLE t; {T}")).await;
            run(&two, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            run(&one, &format!("BEGIN; {first}; COMMIT")).await;
            run(&engine.session(), merge).await;
            assert_eq!(failure(&two, second).await, conflict, "{first}; {second}");
            assert_eq!(run(&two, "COMMIT").await, "ROLLBACK");
            run(&two, &format!("BEGIN; {second}; COMMIT")).await;
        }
    }
    run(&one, &format!("DROP TABLE t; {T}")).await;
    run(&two, "BEGIN; DELETE FROM t WHERE k = 7").await;
    let waiting = waiting(&one, "TRUNCATE t").await;
    run(&two, "COMMIT").await;
    waiting.await.expect("no panic").expect("truncated");
    run(&one, "BEGIN; TRUNCATE t").await;
    run(&two, "INSERT INTO t VALUES (1, 1, 'one')").await;
    assert!(matches!(
        failure(&one, "COMMIT").await,
        TransactionError::TruncateConflict { .. }
    ));
}

/// A statement that runs in another task, and has not ended by the time that somebody else of this thread
/// would have.
async fn waiting(session: &Session, sql: &str) -> JoinHandle<Result<String, EngineError>> {
    let (session, sql) = (session.clone(), sql.to_owned());
    let waiting = tokio::spawn(async move { try_run(&session, &sql).await });
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!waiting.is_finished());
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_waits_for_who_changes_its_rows() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    run(&one, T).await;
    let seen = "SELECT coalesce(sum(v), -1) FROM t WHERE k IN (5, 6, 7)";
    for key in ["", "ALTER TABLE t ADD PRIMARY KEY (k)"] {
        for begin in ["", "BEGIN; "] {
            for end in ["COMMIT", "ROLLBACK"] {
                for (first, second) in CHANGES {
                    run(&one, &format!("DROP TABLE t; {T}; {key}")).await;
                    // What would have come of one after the other.
                    let first_alone = if end == "COMMIT" { first } else { "" };
                    let commit = if begin.is_empty() { "" } else { "COMMIT" };
                    run(&one, &format!("{first_alone}; {second}")).await;
                    let expected = value(&one, seen).await;
                    run(&one, &format!("DROP TABLE t; {T}; {key}; BEGIN; {first}")).await;
                    let second = format!("{begin}{second}");
                    let waiting = waiting(&two, &second).await;
                    run(&one, end).await;
                    waiting.await.expect("no panic").expect(&second);
                    run(&two, commit).await;
                    let found = value(&one, seen).await;
                    assert_eq!(found, expected, "{key}; {first}; {end}; {second}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_ends_one_and_a_timeout_ends_a_wait() {
    let engine = two_tiers();
    let (one, two, three) = (engine.session(), engine.session(), engine.session());
    run(&one, T).await;
    let [five, six] = [5, 6].map(|k| format!("UPDATE t SET v = v + 100 WHERE k = {k}"));
    run(&one, &format!("BEGIN; {five}")).await;
    run(&two, &format!("BEGIN; {six}")).await;
    run(&three, "SET lock_timeout = '10ms'").await;
    let late = TransactionError::LockTimeout {
        table: "t".to_owned(),
    };
    assert_eq!(failure(&three, &six).await, late);
    assert_eq!(failure(&three, &format!("BEGIN; {six}")).await, late);
    // Whoever is later finds that both wait for each other, and lets the other one go on immediately.
    let ends = tokio::join!(try_run(&one, &six), try_run(&two, &five));
    let mut ends = <[_; 2]>::from(ends).map(|end| match end {
        Ok(tag) => tag,
        Err(error) => error.to_string(),
    });
    ends.sort();
    assert_eq!(ends[0], "UPDATE 1");
    assert_eq!(ends[1], TransactionError::Deadlock.to_string());
    let mut ends = [run(&one, "COMMIT").await, run(&two, "COMMIT").await];
    ends.sort();
    assert_eq!(ends, ["COMMIT", "ROLLBACK"]);
    run(&three, "ROLLBACK").await;
    let sum = "SELECT sum(v) FROM t WHERE k IN (5, 6)";
    assert_eq!(value(&three, sum).await, "211");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_read_what_their_isolation_level_says() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    run(
        &one,
        "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)",
    )
    .await;
    let sum = "SELECT sum(k) FROM t";
    for (begin, mine, after) in [
        ("BEGIN", "12", "1012"),
        ("BEGIN ISOLATION LEVEL READ UNCOMMITTED", "12", "1012"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "12", "12"),
        (
            "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "12",
            "12",
        ),
        (
            "SET default_transaction_isolation = 'repeatable read'; BEGIN",
            "12",
            "12",
        ),
    ] {
        run(&one, begin).await;
        run(&one, "INSERT INTO t VALUES (9)").await;
        assert_eq!(value(&one, sum).await, mine);
        run(&two, "INSERT INTO t VALUES (1000)").await;
        assert_eq!(value(&one, sum).await, after, "{begin}");
        run(&one, "DELETE FROM t WHERE k = 9; COMMIT").await;
        assert_eq!(value(&one, sum).await, "1003");
        run(
            &two,
            "DELETE FROM t WHERE k = 1000; CALL nearfar.check('t')",
        )
        .await;
    }
    run(&one, "BEGIN; SELECT 1 FROM t").await;
    let late = failure(&one, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    assert_eq!(late, TransactionError::LateIsolation);
    run(&one, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_transaction_is_undone_by_itself() {
    let engine = two_tiers();
    let (session, other) = (engine.session(), engine.session());
    run(
        &session,
        "CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)",
    )
    .await;
    let seen = "SELECT string_agg(k || '=' || v, ' ' ORDER BY k) FROM t";
    run(&session, "BEGIN; INSERT INTO t VALUES (2, 2); SAVEPOINT a").await;
    run(
        &session,
        "UPDATE t SET v = 10; SAVEPOINT b; DELETE FROM t WHERE k = 1",
    )
    .await;
    assert_eq!(value(&session, seen).await, "2=10");
    run(&other, "INSERT INTO t VALUES (7, 7)").await;
    run(&session, "ROLLBACK TO b").await;
    assert_eq!(value(&session, seen).await, "1=10 2=10 7=7");
    error(&session, "INSERT INTO t VALUES (3, 3), (2, 3)").await;
    assert_eq!(
        failure(&session, "SELECT 1").await,
        TransactionError::Failed
    );
    assert_eq!(
        failure(&session, "SAVEPOINT c").await,
        TransactionError::Failed
    );
    run(&session, "ROLLBACK TO SAVEPOINT a").await;
    assert_eq!(value(&session, seen).await, "1=1 2=2 7=7");
    let name = "b".to_owned();
    assert_eq!(
        failure(&session, "ROLLBACK TO b").await,
        TransactionError::NoSavepoint { name }
    );
    run(
        &session,
        "ROLLBACK TO a; RELEASE a; INSERT INTO t VALUES (3, 3); COMMIT",
    )
    .await;
    assert_eq!(value(&other, seen).await, "1=1 2=2 3=3 7=7");
    for statement in ["SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT"] {
        let outside = failure(&session, &format!("{statement} a")).await;
        assert_eq!(outside, TransactionError::NoTransaction { statement });
    }
    run(&session, "CALL nearfar.check('t')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_different_rows_do_not_conflict() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    run(&one, T).await;
    for merge in ["", "CALL nearfar.merge('t')"] {
        run(
            &one,
            "BEGIN; UPDATE t SET v = 100 WHERE k = 5; INSERT INTO t VALUES (0, 1, 'a')",
        )
        .await;
        run(
            &two,
            "BEGIN; DELETE FROM t WHERE k = 6; INSERT INTO t VALUES (0, 2, 'b')",
        )
        .await;
        run(&one, "COMMIT").await;
        run(&engine.session(), merge).await;
        run(&two, "COMMIT").await;
        let sum = "SELECT sum(v) FROM t WHERE k IN (0, 5, 6)";
        assert_eq!(value(&one, sum).await, "103");
        run(&one, "DELETE FROM t WHERE k IN (0, 5, 6)").await;
        run(&one, "INSERT INTO t VALUES (5, 5, 'x'), (6, 6, 'y')").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_fails_the_transaction() {
    let session = two_tiers().session();
    run(&session, T).await;
    for wrong in [
        "SELECT nothing FROM t",
        "INSERT INTO t VALUES ('no number', 1, 'a')",
        "SELECT 1 / (k - 100) FROM t",
        "SELEC",
        "CREATE TABLE t (a INT)",
        "DROP TABLE nothing",
        "ALTER TABLE t SET TABLESPACE far",
        "CALL nearfar.merge('t')",
    ] {
        run(&session, "BEGIN; DELETE FROM t WHERE k < 100").await;
        error(&session, wrong).await;
        assert_eq!(
            failure(&session, "SELECT 1").await,
            TransactionError::Failed,
            "{wrong}"
        );
        assert_eq!(run(&session, "COMMIT").await, "ROLLBACK");
        assert_eq!(
            value(&session, "SELECT count(*) FROM t").await,
            "20000",
            "{wrong}"
        );
    }
    let message = error(&session, "BEGIN; CHECKPOINT").await;
    assert!(
        message.starts_with("CHECKPOINT cannot run inside"),
        "{message}"
    );
    assert_eq!(
        run(&session, "ABORT; ROLLBACK; COMMIT").await,
        "ROLLBACK\nROLLBACK\nCOMMIT"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_transactions_change_nothing() {
    let session = two_tiers().session();
    run(&session, T).await;
    for statement in [
        "INSERT INTO t VALUES (1, 1, 'a')",
        "UPDATE t SET v = 1",
        "DELETE FROM t",
        "TRUNCATE t",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 1, 'a')",
    ] {
        run(&session, "BEGIN TRANSACTION READ ONLY").await;
        assert_eq!(value(&session, "SELECT count(*) FROM t").await, "20000");
        let refused = failure(&session, statement).await;
        assert!(
            matches!(refused, TransactionError::ReadOnly { .. }),
            "{statement}"
        );
        run(&session, "ROLLBACK").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_come_and_go_beside_a_transaction() {
    let engine = two_tiers();
    let (one, two) = (engine.session(), engine.session());
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    run(&one, &format!("{T}; {begin}; DELETE FROM t WHERE k = 1")).await;
    run(&two, "CREATE TABLE u AS SELECT 1 AS a; DROP TABLE t").await;
    assert!(matches!(
        failure(&one, "SELECT * FROM u").await,
        TransactionError::TooNew { .. }
    ));
    run(
        &one,
        &format!("ROLLBACK; {T}; BEGIN; DELETE FROM t WHERE k = 1"),
    )
    .await;
    run(&two, &format!("DROP TABLE t; {T}")).await;
    assert!(matches!(
        failure(&one, "COMMIT").await,
        TransactionError::Dropped { .. }
    ));
    assert_eq!(value(&one, "SELECT count(*) FROM t").await, "20000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_are_part_of_transactions() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "CREATE TEMP TABLE t AS SELECT 1 AS a").await;
    run(
        &session,
        "BEGIN; INSERT INTO t VALUES (2); ROLLBACK; INSERT INTO t VALUES (3)",
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "4");
    drop(session);
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_leaves_nothing_behind() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    let before = region_bytes(&engine);
    let some = "k IN (SELECT a.k FROM t a, t b WHERE a.k + b.k > 0)";
    for statement in [
        format!("DELETE FROM t WHERE {some}"),
        format!("UPDATE t SET v = 1 WHERE {some}"),
        "INSERT INTO t SELECT value, 1, 'x' FROM generate_series(1, 1000000000)".to_owned(),
    ] {
        for begin in ["", "BEGIN; DELETE FROM t WHERE k = 1"] {
            run(&session, begin).await;
            let work = session.execute(&statement);
            let ended = tokio::time::timeout(Duration::from_millis(300), work).await;
            assert!(ended.is_err(), "{statement} ended: {ended:?}");
            if !begin.is_empty() {
                assert_eq!(
                    failure(&session, "SELECT 1").await,
                    TransactionError::Failed
                );
                run(&session, "ROLLBACK").await;
            }
            assert_eq!(value(&session, "SELECT count(*) FROM t").await, "20000");
            for _ in 0..6_000 {
                if region_bytes(&engine) == before {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(region_bytes(&engine), before, "{statement}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delta_that_does_not_fit_is_refused() {
    let engine = two_tiers_with(Budgets::new().with("near", 1 << 20));
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (k BIGINT, s VARCHAR) TABLESPACE far",
    )
    .await;
    run(&session, "BEGIN; INSERT INTO t VALUES (1, 'one')").await;
    let rows = "INSERT INTO t SELECT value, repeat('x', 40) FROM generate_series(1, 30000)";
    let message = error(&session, rows).await;
    assert!(message.contains("raise the budget"), "{message}");
    run(&session, "ROLLBACK").await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "0");
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_query_behind_a_change() {
    let session = two_tiers().session();
    run(&session, T).await;
    let plan = run(&session, "EXPLAIN DELETE FROM t WHERE k = 5").await;
    assert!(plan.contains("filters=[k@0 = 5]"), "{plan}");
    run(&session, "EXPLAIN UPDATE t SET v = 1 WHERE k = 5").await;
    let refused = error(&session, "EXPLAIN ANALYZE DELETE FROM t").await;
    assert!(refused.contains("not supported"), "{refused}");
    run(
        &session,
        "EXPLAIN ANALYZE INSERT INTO t VALUES (0, 0, 'zero')",
    )
    .await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "20001");
    for (sql, part) in [
        ("DELETE FROM nearfar.tables", "not a table in memory"),
        (
            "CREATE VIEW w AS SELECT 1 AS a; UPDATE w SET a = 2",
            "not a table in memory",
        ),
        ("UPDATE t SET nothing = 2", "nothing"),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(part), "{sql}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolation_level_is_set_before_all_queries() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE q (k INT)").await;
    let level = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    for query in [
        "SELECT 1",
        "SELECT count(*) FROM q",
        "INSERT INTO q VALUES (1)",
        "CREATE TABLE n (a INT)",
    ] {
        run(&session, &format!("BEGIN; {query}")).await;
        let late = failure(&session, level).await;
        assert_eq!(late, TransactionError::LateIsolation, "{query}");
        run(&session, "ROLLBACK").await;
    }
    for begin in [
        "BEGIN",
        "BEGIN; SET TRANSACTION READ ONLY; SHOW default_tablespace",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
    ] {
        run(&session, &format!("{begin}; {level}; ROLLBACK")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_are_made_concurrently_outside_of_transactions() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE q (k INT)").await;
    let create = "CREATE INDEX CONCURRENTLY q_k ON q (k)";
    let refused = failure(&session, &format!("BEGIN; {create}")).await;
    let wanted = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
    assert!(refused.to_string().starts_with(wanted), "{refused}");
    run(&session, &format!("ROLLBACK; {create}")).await;
}
