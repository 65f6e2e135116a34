//! Values that statements which are not planned again give to rows.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::{Immediate, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::Statement;
use tokio::time::timeout;

use super::support::{engine, error, run, value};

const T: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, a INT, w VARCHAR(3), d DECIMAL(9, 2) DEFAULT 2.5, at TIMESTAMP)";

/// A statement that is not planned again with integers like these.
async fn compiled(session: &Session, sql: &str, given: &[i32]) -> Statement {
    let statement = session.read(sql).expect(sql).remove(0);
    let is_compiled = session.compile(&statement, &integers(given)).await;
    assert!(is_compiled.expect(sql), "{sql} is planned");
    statement
}

fn integers(values: &[i32]) -> Vec<ScalarValue> {
    values.iter().map(|value| (*value).into()).collect()
}

fn run_compiled(
    session: &Session,
    statement: &Statement,
    given: &[i32],
) -> Result<String, EngineError> {
    match session.run_immediately(statement, &integers(given))? {
        Immediate::Ran(ran) => Ok(match ran.wait()? {
            StatementResult::Command(tag) => tag.to_string(),
            StatementResult::Rows(_) => "rows".to_owned(),
        }),
        other => panic!("{} is planned: {other:?}", statement.text()),
    }
}

/// What a statement that waits for others gives, on the thread that has read it.
async fn run_unplanned(session: &Session, sql: &str, given: &[i32]) -> Result<String, EngineError> {
    let statement = compiled(session, sql, given).await;
    let given = integers(given);
    let immediately = session.run_immediately(&statement, &given);
    assert!(
        matches!(immediately, Ok(Immediate::Blocked)),
        "{sql}: {immediately:?}"
    );
    let gate = Arc::default();
    let ran = session.run_unplanned(&gate, &statement, &given).await?;
    match ran.unwrap_or_else(|| panic!("{sql} is planned")) {
        StatementResult::Command(tag) => Ok(tag.to_string()),
        StatementResult::Rows(rows) => {
            let batches = rows.collect().await?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            Ok(format!("{rows} rows"))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_are_the_same_in_each_row_and_the_time_is_not() {
    let session = engine().session();
    run(&session, T).await;
    let sql = "INSERT INTO t VALUES ($1, '7', 'ab', 0.5 * 2, now())";
    let one = compiled(&session, sql, &[1]).await;
    let several = "INSERT INTO t (a, k) VALUES (7, $1), ($1, 2 + $1)";
    let several = compiled(&session, several, &[1]).await;
    for key in [1, 2] {
        let done = run_compiled(&session, &one, &[key]).expect("a row");
        assert_eq!(done, "INSERT 1");
    }
    let done = run_compiled(&session, &several, &[10]).expect("rows");
    assert_eq!(done, "INSERT 2");
    let all = "SELECT string_agg(k || ' ' || a || ' ' || coalesce(w, '-') || ' ' || d, ', ' ORDER BY k) FROM t";
    let expected = "1 7 ab 1.00, 2 7 ab 1.00, 10 7 - 2.50, 12 10 - 2.50";
    assert_eq!(value(&session, all).await, expected);
    let times =
        "SELECT count(DISTINCT at) FROM t WHERE at BETWEEN now() - INTERVAL '1 hour' AND now()";
    assert_eq!(value(&session, times).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_several_keys_get_the_same_constants() {
    let session = engine().session();
    run(&session, T).await;
    run(
        &session,
        "INSERT INTO t (k, a, w) VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z'), (9, 9, 'q')",
    )
    .await;
    let sql = "UPDATE t SET a = 2 * 3, w = 'abc', d = a WHERE k >= $1 AND k <= $2";
    let update = compiled(&session, sql, &[1, 3]).await;
    for (given, expected) in [
        ([1, 3], "UPDATE 3"),
        ([9, 9], "UPDATE 1"),
        ([4, 5], "UPDATE 0"),
    ] {
        let done = run_compiled(&session, &update, &given).expect("a change");
        assert_eq!(done, expected);
    }
    let all = "SELECT string_agg(k || ' ' || a || ' ' || w || ' ' || d, ', ' ORDER BY k) FROM t";
    let expected = "1 6 abc 1.00, 2 6 abc 2.00, 3 6 abc 3.00, 9 6 abc 9.00";
    assert_eq!(value(&session, all).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constant_that_is_an_error_is_one_when_a_row_gets_it() {
    let session = engine().session();
    run(&session, T).await;
    for (sql, expected) in [
        ("INSERT INTO t (k, a) VALUES ($1, 1 / 0)", "Divide by zero"),
        ("INSERT INTO t (k, w) VALUES ($1, 'long')", "too long"),
        (
            "INSERT INTO t (k, a) VALUES ($1, 2147483647 + 1)",
            "out of range",
        ),
    ] {
        let statement = compiled(&session, sql, &[1]).await;
        for _ in 0..2 {
            let error = run_compiled(&session, &statement, &[1]).expect_err(sql);
            assert!(error.to_string().contains(expected), "{sql}: {error}");
        }
    }
    run(&session, "INSERT INTO t (k, a) VALUES (1, 1)").await;
    let update = compiled(&session, "UPDATE t SET a = 1 / 0 WHERE k = $1", &[1]).await;
    let done = run_compiled(&session, &update, &[2]).expect("no row");
    assert_eq!(done, "UPDATE 0");
    run_compiled(&session, &update, &[1]).expect_err("a division by zero");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_sequences_are_drawn_once_for_each_row() {
    let session = engine().session();
    run(
        &session,
        "CREATE SEQUENCE s;
         CREATE TABLE n (k BIGINT DEFAULT nextval('s') PRIMARY KEY, a INT, b BIGINT, w TEXT)",
    )
    .await;
    let by_default = compiled(&session, "INSERT INTO n (a) VALUES ($1)", &[1]).await;
    let given = "INSERT INTO n (b, a, k) VALUES (5, $1, nextval('s'))";
    let given = compiled(&session, given, &[1]).await;
    for statement in [&by_default, &given, &by_default, &given] {
        run_compiled(&session, statement, &[1]).expect("a row");
    }
    // Of rows that are too long to be packed, too.
    let long = format!("INSERT INTO n (a, w) VALUES ($1, '{}')", "x".repeat(20_000));
    let long = compiled(&session, &long, &[1]).await;
    for statement in [&long, &given, &long] {
        run_compiled(&session, statement, &[1]).expect("a row");
    }
    let all = "SELECT string_agg(k || ' ' || coalesce(b, 0) || ' ' || coalesce(length(w), 0), ', ' ORDER BY k) FROM n";
    let expected = "1 0 0, 2 5 0, 3 0 0, 4 5 0, 5 0 20000, 6 5 0, 7 0 20000";
    assert_eq!(value(&session, all).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_is_that_of_the_time_zone() {
    let session = engine().session();
    run(&session, T).await;
    run(&session, "SET TIME ZONE '+02:00'").await;
    let one = compiled(&session, "INSERT INTO t (k, at) VALUES ($1, now())", &[1]).await;
    run_compiled(&session, &one, &[1]).expect("a row");
    let again = compiled(&session, "UPDATE t SET at = now() WHERE k = $1", &[1]).await;
    run(
        &session,
        "INSERT INTO t (k, at) SELECT 3, now(); INSERT INTO t (k) VALUES (2)",
    )
    .await;
    run_compiled(&session, &again, &[2]).expect("a row");
    let near = "SELECT max(at) - min(at) < INTERVAL '10 minutes' FROM t";
    assert_eq!(value(&session, near).await, "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_held_against_foreign_keys_without_planning() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY, v INT, u INT UNIQUE);
         CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p, v INT);
         INSERT INTO p VALUES (1, 1, 1), (2, 2, 2); INSERT INTO c VALUES (1, 1, 0)",
    )
    .await;
    for (sql, values, expected) in [
        ("INSERT INTO c VALUES ($1, $2, 0)", [2, 2], "INSERT 1"),
        ("INSERT INTO c VALUES ($1, $2, 0)", [3, 9], "c_p_fkey"),
        ("UPDATE c SET p = $2 WHERE k = $1", [2, 1], "UPDATE 1"),
        ("UPDATE c SET p = $2 WHERE k = $1", [2, 8], "c_p_fkey"),
        ("UPDATE c SET v = $2 WHERE k = $1", [2, 8], "UPDATE 1"),
        ("DELETE FROM c WHERE k = $1 AND v < $2", [2, 9], "DELETE 1"),
        ("UPDATE p SET v = $2 WHERE k = $1", [1, 5], "UPDATE 1"),
        (
            "UPDATE p SET k = k, u = $2 WHERE k = $1",
            [1, 7],
            "UPDATE 1",
        ),
    ] {
        match run_unplanned(&session, sql, &values).await {
            Ok(done) => assert_eq!(done, expected, "{sql}"),
            Err(error) => assert!(error.to_string().contains(expected), "{sql}: {error}"),
        }
    }
    let all =
        "SELECT string_agg(k || ' ' || p, ', ') || ' ' || (SELECT u FROM p WHERE k = 1) FROM c";
    assert_eq!(value(&session, all).await, "1 1 7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_others_refer_to_are_taken_away_by_a_plan() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY, v INT);
         CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
         INSERT INTO p VALUES (1, 1), (2, 2); INSERT INTO c VALUES (1, 1), (2, 2)",
    )
    .await;
    for (sql, given) in [
        ("UPDATE p SET k = $2 WHERE k = $1", [1, 5]),
        ("DELETE FROM p WHERE k = $1 AND v < $2", [2, 9]),
    ] {
        let (statement, values) = (compiled(&session, sql, &given).await, integers(&given));
        let immediately = session.run_immediately(&statement, &values);
        assert!(matches!(immediately, Ok(Immediate::NotNow)), "{sql}");
        session.run_with(&statement, &values).await.expect(sql);
    }
    let all = "SELECT string_agg(k || ' ' || p, ', ') FROM c";
    assert_eq!(value(&session, all).await, "1 5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_refers_to_another_waits_for_who_takes_that_away() {
    let engine = engine();
    let (session, other) = (engine.session(), engine.session());
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p);
         INSERT INTO p VALUES (1), (2)",
    )
    .await;
    let insert = compiled(&session, "INSERT INTO c VALUES ($1, $2)", &[1, 1]).await;
    for (end, is_there) in [("COMMIT", false), ("ROLLBACK", true)] {
        run(&other, "BEGIN; DELETE FROM p WHERE k = 1").await;
        let (given, gate) = (integers(&[1, 1]), Arc::default());
        let mut waiting = Box::pin(session.run_unplanned(&gate, &insert, &given));
        let early = timeout(Duration::from_millis(200), waiting.as_mut()).await;
        assert!(early.is_err(), "it does not wait for the other one");
        run(&other, end).await;
        let ended = waiting.await;
        match is_there {
            true => assert!(ended.expect("a row").is_some()),
            false => assert!(ended.expect_err("no row").to_string().contains("c_p_fkey")),
        }
        run(&session, "INSERT INTO p VALUES (1) ON CONFLICT DO NOTHING").await;
    }
    assert_eq!(value(&session, "SELECT count(*) FROM c").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_foreign_key_refuses_fails_its_transaction() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY);
         CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p, later INT REFERENCES p DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE tree (k INT PRIMARY KEY, up INT REFERENCES tree);
         INSERT INTO p VALUES (1)",
    )
    .await;
    let insert = "INSERT INTO c (k, p) VALUES ($1, $2)";
    run(&session, "BEGIN").await;
    let refused = run_unplanned(&session, insert, &[1, 9]).await;
    assert!(
        refused
            .expect_err("no parent")
            .to_string()
            .contains("c_p_fkey")
    );
    error(&session, "SELECT 1").await;
    run(&session, "ROLLBACK; BEGIN; SAVEPOINT a").await;
    run_unplanned(&session, insert, &[1, 9])
        .await
        .expect_err("no parent");
    run(&session, "ROLLBACK TO a").await;
    let done = run_unplanned(&session, insert, &[1, 1]).await;
    assert_eq!(done.expect("a row"), "INSERT 1");
    run(&session, "COMMIT").await;
    let returning = "INSERT INTO c (k, p) VALUES ($1, $2) RETURNING k";
    let done = run_unplanned(&session, returning, &[2, 1]).await;
    assert_eq!(done.expect("a row"), "1 rows");

    let later = "INSERT INTO c (k, later) VALUES ($1, $2)";
    for (parent, is_there) in [("INSERT INTO p VALUES (5)", true), ("SELECT 1", false)] {
        run(&session, "BEGIN").await;
        let given = if is_there { [3, 5] } else { [4, 6] };
        let done = run_unplanned(&session, later, &given).await;
        assert_eq!(done.expect("a row"), "INSERT 1");
        run(&session, parent).await;
        match is_there {
            true => drop(run(&session, "COMMIT").await),
            false => assert!(error(&session, "COMMIT").await.contains("c_later_fkey")),
        }
    }
    let refused = run_unplanned(&session, later, &[4, 6]).await;
    assert!(
        refused
            .expect_err("no parent")
            .to_string()
            .contains("c_later_fkey")
    );

    let tree = "INSERT INTO tree VALUES ($1, $2)";
    for (given, is_held) in [([1, 1], true), ([2, 1], true), ([3, 4], false)] {
        assert_eq!(run_unplanned(&session, tree, &given).await.is_ok(), is_held);
    }
    assert_eq!(value(&session, "SELECT count(*) FROM c").await, "3");
    assert_eq!(value(&session, "SELECT count(*) FROM tree").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_without_entries_are_made_by_another_thread() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE c (k INT, p INT REFERENCES p); INSERT INTO p VALUES (1)",
    )
    .await;
    let sql = "INSERT INTO c VALUES ($1, $2)";
    run_unplanned(&session, sql, &[1, 1]).await.expect("a row");
    run(&session, "ALTER TABLE p ADD COLUMN v INT").await;
    let statement = compiled(&session, sql, &[2, 1]).await;
    let immediately = session.run_immediately(&statement, &integers(&[2, 1]));
    assert!(matches!(immediately, Ok(Immediate::NotNow)));
    let done = session.run_with(&statement, &integers(&[2, 1])).await;
    done.expect("a row");
    run_unplanned(&session, sql, &[3, 1]).await.expect("a row");
    assert_eq!(value(&session, "SELECT count(*) FROM c").await, "3");
}
