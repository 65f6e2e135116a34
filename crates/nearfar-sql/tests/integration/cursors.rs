//! Cursors: what they give, and when they end.

use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;
use nearfar_table::transaction::TransactionError;

use super::support::{engine, run, try_run, value};

/// The numbers that a statement gives.
async fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    let mut results = session.execute(sql).await.expect(sql);
    let Some(StatementResult::Rows(rows)) = results.pop() else {
        panic!("{sql} gives no rows");
    };
    assert_eq!(rows.command(), "FETCH");
    let batches = rows.collect().await.expect(sql);
    let numbers = batches.iter().flat_map(|batch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    });
    numbers.collect()
}

async fn sql_error(session: &Session, sql: &str) -> SqlError {
    match try_run(session, sql).await {
        Err(EngineError::Sql(error)) => error,
        other => panic!("{sql}: {other:?}"),
    }
}

const DECLARE: &str =
    "DECLARE c CURSOR FOR SELECT value FROM generate_series(1, 20000) ORDER BY value";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_fetched_in_portions() {
    let session = engine().session();
    assert_eq!(run(&session, "BEGIN").await, "BEGIN");
    assert_eq!(run(&session, DECLARE).await, "DECLARE CURSOR");
    assert_eq!(numbers(&session, "FETCH c").await, [1]);
    assert_eq!(numbers(&session, "FETCH 3 FROM c").await, [2, 3, 4]);
    assert_eq!(numbers(&session, "FETCH RELATIVE 2 FROM c").await, [6]);
    assert_eq!(numbers(&session, "FETCH ABSOLUTE 10 FROM c").await, [10]);
    assert_eq!(run(&session, "MOVE FORWARD 5 IN c").await, "MOVE 5");
    assert_eq!(numbers(&session, "FETCH NEXT FROM c").await, [16]);
    // Over several batches.
    let many: Vec<i64> = (17..=10_016).collect();
    assert_eq!(numbers(&session, "FETCH FORWARD 10000 FROM c").await, many);
    for backward in [
        "FETCH PRIOR c",
        "FETCH -1 c",
        "FETCH ABSOLUTE 3 FROM c",
        "FETCH LAST c",
        "FETCH 0 FROM c",
        "MOVE BACKWARD ALL IN c",
    ] {
        let sql = format!("SAVEPOINT s; {backward}");
        let refused = sql_error(&session, &sql).await;
        assert!(matches!(refused, SqlError::CursorBackward), "{backward}");
        run(&session, "ROLLBACK TO s; RELEASE s").await;
    }
    let rest: Vec<i64> = (10_017..=20_000).collect();
    assert_eq!(numbers(&session, "FETCH ALL FROM c").await, rest);
    assert_eq!(numbers(&session, "FETCH c").await, [0_i64; 0]);
    assert_eq!(run(&session, "MOVE ALL IN c").await, "MOVE 0");
    assert_eq!(run(&session, "CLOSE c").await, "CLOSE CURSOR");
    assert!(matches!(
        sql_error(&session, "FETCH c").await,
        SqlError::UnknownCursor { .. }
    ));
    run(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_gives_what_there_was_when_it_was_declared() {
    let engine = engine();
    let (session, other) = (engine.session(), engine.session());
    run(
        &session,
        "CREATE TABLE t (a BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)",
    )
    .await;
    run(
        &session,
        "BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a",
    )
    .await;
    run(
        &session,
        "INSERT INTO t VALUES (4); DELETE FROM t WHERE a = 2",
    )
    .await;
    run(&other, "INSERT INTO t VALUES (0)").await;
    assert_eq!(numbers(&session, "FETCH ALL c").await, [1, 2, 3]);
    run(
        &session,
        "DECLARE d CURSOR FOR SELECT a FROM t WHERE a = 3 FOR UPDATE",
    )
    .await;
    assert_eq!(numbers(&session, "FETCH ALL d").await, [3]);
    assert!(
        try_run(
            &other,
            "SET lock_timeout = 50; UPDATE t SET a = 9 WHERE a = 3"
        )
        .await
        .is_err()
    );
    run(&session, "COMMIT").await;
    // Its rows come as they are asked for: a division by zero in a later one does not matter before.
    let far = "BEGIN; DECLARE c CURSOR FOR SELECT 100 / (value - 5000000) FROM generate_series(1, 9000000)";
    run(&session, far).await;
    assert_eq!(numbers(&session, "FETCH 2 FROM c").await, [0, 0]);
    run(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_end_with_their_transaction_or_savepoint() {
    let session = engine().session();
    let unknown = async |sql: &str| {
        let error = sql_error(&session, sql).await;
        matches!(error, SqlError::UnknownCursor { .. })
    };
    let alone = try_run(&session, DECLARE).await;
    assert!(matches!(
        alone,
        Err(EngineError::Transaction(
            TransactionError::NoTransaction { .. }
        ))
    ));
    for end in ["COMMIT", "ROLLBACK"] {
        run(&session, &format!("BEGIN; {DECLARE}; {end}")).await;
        assert!(unknown("FETCH c").await, "{end}");
    }
    run(&session, &format!("BEGIN; {DECLARE}; SAVEPOINT s")).await;
    run(&session, "DECLARE d CURSOR FOR SELECT 1; FETCH 2 FROM c").await;
    let twice = sql_error(&session, "DECLARE c CURSOR FOR SELECT 1").await;
    assert!(matches!(twice, SqlError::CursorExists { .. }));
    run(&session, "ROLLBACK TO s").await;
    assert_eq!(numbers(&session, "FETCH c").await, [3], "its place stays");
    assert!(unknown("CLOSE d").await);
    run(
        &session,
        "ROLLBACK TO s; SAVEPOINT u; DECLARE e CURSOR FOR SELECT 1; RELEASE u",
    )
    .await;
    run(&session, "FETCH e; CLOSE ALL").await;
    assert!(unknown("FETCH c").await);
    run(&session, "ROLLBACK").await;
    // A query that is wrong is so where it is declared, or fetched.
    assert!(
        try_run(&session, "BEGIN; DECLARE c CURSOR FOR SELECT nothing")
            .await
            .is_err()
    );
    run(
        &session,
        "ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT 1 / (value - 2) FROM generate_series(1, 3)",
    )
    .await;
    assert!(try_run(&session, "FETCH ALL c").await.is_err());
    assert!(matches!(
        try_run(&session, "FETCH c").await,
        Err(EngineError::Transaction(TransactionError::Failed))
    ));
    run(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_cursors_outlive_a_commit_and_no_rollback() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2), (3)",
    )
    .await;
    let declare = "DECLARE h CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a";
    run(
        &session,
        &format!("BEGIN; {declare}; FETCH h; INSERT INTO t VALUES (4); COMMIT"),
    )
    .await;
    run(&session, "DELETE FROM t").await;
    assert_eq!(numbers(&session, "FETCH h").await, [2]);
    run(&session, "BEGIN; CLOSE h; ROLLBACK").await;
    assert!(
        try_run(&session, "FETCH h").await.is_err(),
        "it is closed for good"
    );
    run(&session, "INSERT INTO t VALUES (7), (8)").await;
    run(&session, &format!("BEGIN; {declare}; ROLLBACK")).await;
    assert!(try_run(&session, "FETCH h").await.is_err());
    // Outside of a transaction too.
    run(&session, declare).await;
    run(&session, "TRUNCATE t; BEGIN").await;
    assert_eq!(numbers(&session, "FETCH ALL FROM h").await, [7, 8]);
    run(&session, "ROLLBACK").await;
    assert_eq!(numbers(&session, "FETCH ALL FROM h").await, [0_i64; 0]);
    // One that can't be read fails the commit.
    run(&session, "CLOSE ALL; BEGIN; INSERT INTO t VALUES (1)").await;
    run(
        &session,
        "DECLARE h CURSOR WITH HOLD FOR SELECT 1 / (value - 90000) FROM generate_series(1, 90000)",
    )
    .await;
    assert!(try_run(&session, "COMMIT").await.is_err());
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "0");
    // What it keeps is the session's memory.
    run(&session, "SET session_memory_limit = '32MiB'").await;
    let large = "DECLARE h CURSOR WITH HOLD FOR SELECT value FROM generate_series(1, 20000000)";
    assert!(try_run(&session, large).await.is_err());
    assert!(try_run(&session, "FETCH h").await.is_err());
    run(&session, "DISCARD ALL").await;
}
