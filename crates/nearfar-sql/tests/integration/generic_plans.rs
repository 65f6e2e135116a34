//! Queries that run again: by generic plans they give what they give when they are planned each time.

use arrow::util::pretty::pretty_format_batches;
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::sql::Statement;
use std::sync::Arc;

use super::support::{engine, region_bytes, run};

/// Times that a statement runs, until it has a generic plan and has used it.
const RUNS: usize = 3;

const JOINED: &str = "SELECT count(*), sum(u.v) FROM t JOIN u ON t.k = u.k WHERE t.g = $1";

/// Queries of two parameters.
const QUERIES: [&str; 21] = [
    "SELECT t.k, u.v FROM t JOIN u ON t.k = u.k WHERE t.g = $1 AND u.v > $2 ORDER BY t.k",
    "SELECT count(DISTINCT t.k) FROM t, u WHERE t.k = u.k AND t.k BETWEEN $1 AND $2",
    "SELECT g, sum(k) FROM t WHERE k < $1 GROUP BY g HAVING sum(k) > $2 ORDER BY g",
    "SELECT k + $1 AS a, k * 2 + $2 FROM t WHERE k < 5 OR k = $2 ORDER BY a",
    "SELECT * FROM t WHERE k > $1 ORDER BY k DESC LIMIT 3 OFFSET 1 + ($2 - $2)",
    "SELECT k FROM t WHERE ($1 > 3 AND g = 1) OR ($2 > 3 AND g = 2) ORDER BY k LIMIT 9",
    "SELECT k FROM t WHERE k IN ($1, $2, 7) ORDER BY k",
    "SELECT k, CASE WHEN g = $1 THEN 'one' WHEN g = $2 THEN 'two' END FROM t WHERE k < 9 ORDER BY k",
    "SELECT t.k, u.v FROM t LEFT JOIN u ON t.k = u.k AND u.v = $1 WHERE t.k < $2 ORDER BY t.k",
    "SELECT k FROM t WHERE g = $1 UNION ALL SELECT v FROM u WHERE k = $2 ORDER BY 1 LIMIT 8",
    "SELECT DISTINCT g FROM t WHERE k > $1 AND k <> $2 ORDER BY g",
    "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) + $1 FROM t WHERE k < $2 ORDER BY k",
    "SELECT a.k FROM (SELECT k, g FROM t WHERE g >= $1) a JOIN (SELECT k FROM u WHERE v <= $2) b \
     ON a.k = b.k ORDER BY a.k LIMIT 20",
    // Zeros are kept from the division by what stands before it.
    "SELECT k + $2 FROM z WHERE d <> $1 - $1 AND 10 / d > 1 ORDER BY 1",
    "SELECT k + $2 FROM z WHERE k <> $1 - $1 AND 10 / k > 1 ORDER BY 1",
    // What is rounded has another type with other digits.
    "SELECT g, count(*) FROM t GROUP BY g HAVING round(avg(k), $1::int % 4) > $2 ORDER BY g",
    // The join that is written last is the first to be carried out.
    "SELECT t.s, u.v, few.n FROM t, u, few WHERE t.k = u.k AND few.g = t.g AND few.n = $1 AND u.v <> $2 \
     ORDER BY t.k LIMIT 12",
    "SELECT few.n, t.s, count(*) FROM few JOIN u ON u.v = few.n JOIN t ON t.k = u.k AND t.k = $1 \
     WHERE u.k <> $2 GROUP BY few.n, t.s ORDER BY 1",
    "SELECT count(*) FROM t WHERE s LIKE 'row ' || $1 || '%' AND k > $2",
    "SELECT $1 + $2 AS sum, count(*) FROM t WHERE $1 IS NULL OR k = $1",
    "SELECT k FROM t WHERE k = 3 AND EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v < $1 + $2)",
];

async fn session_of(engine: &Arc<Engine>) -> Session {
    let session = engine.session();
    let tables = "CREATE TABLE t AS SELECT value AS k, value % 5 AS g, 'row ' || value AS s \
                  FROM generate_series(1, 300); \
                  CREATE TABLE u AS SELECT value AS k, value % 7 AS v FROM generate_series(1, 200); \
                  CREATE TABLE few AS SELECT value AS n, value % 5 AS g FROM generate_series(1, 8); \
                  CREATE TABLE z (k INT, d DOUBLE PRECISION); INSERT INTO z VALUES (0, 0), (2, 5), (5, 20); \
                  CREATE UNIQUE INDEX ON t (k)";
    run(&session, tables).await;
    session
}

async fn answer(session: &Session, statement: &Statement, parameters: &[ScalarValue]) -> String {
    match session.run_with(statement, parameters).await {
        Ok(StatementResult::Rows(rows)) => match rows.collect().await {
            Ok(rows) => pretty_format_batches(&rows).expect("a table").to_string(),
            Err(error) => error.to_string(),
        },
        Ok(StatementResult::Command(tag)) => tag.to_string(),
        Err(error) => error.to_string(),
    }
}

fn numbers(values: [Option<i64>; 2]) -> Vec<ScalarValue> {
    values.map(ScalarValue::Int64).to_vec()
}

fn statement(session: &Session, sql: &str) -> Statement {
    let mut statements = session.read(sql).expect(sql);
    statements.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_plans_of_their_own() {
    let engine = engine();
    let session = session_of(&engine).await;
    let custom = engine.session();
    run(&custom, "SET plan_cache_mode = force_custom_plan").await;
    let given = [
        numbers([Some(1), Some(2)]),
        numbers([Some(4), Some(0)]),
        numbers([Some(3), Some(250)]),
        numbers([None, Some(3)]),
        numbers([Some(-1), None]),
        numbers([Some(i64::MAX), Some(1)]),
    ];
    for mode in ["auto", "force_generic_plan"] {
        run(&session, &format!("SET plan_cache_mode = {mode}")).await;
        for sql in QUERIES {
            let kept = statement(&session, sql);
            for parameters in given.iter().cycle().take(2 * given.len()) {
                let expected = answer(&custom, &statement(&custom, sql), parameters).await;
                let found = answer(&session, &kept, parameters).await;
                assert_eq!(found, expected, "{sql} with {parameters:?} and {mode}");
            }
        }
    }
}

/// A statement that has its generic plan.
async fn prepared(session: &Session, sql: &str, parameters: &[ScalarValue]) -> Statement {
    let statement = statement(session, sql);
    for _ in 0..RUNS {
        answer(session, &statement, parameters).await;
    }
    statement
}

async fn now(session: &Session, sql: &str, parameters: &[ScalarValue]) -> String {
    answer(session, &statement(session, sql), parameters).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_make_another_plan() {
    let session = session_of(&engine()).await;
    let one = [ScalarValue::from(1_i64)];
    let kept = prepared(&session, JOINED, &one).await;
    for change in [
        "INSERT INTO t VALUES (1001, 1, 'x'); INSERT INTO u VALUES (1001, 1000)",
        "ALTER TABLE u ALTER COLUMN v TYPE INT USING v::int * 2",
        "ALTER TABLE u ADD COLUMN w INT",
        "DROP TABLE u; CREATE TABLE u AS SELECT 1 AS k, 5 AS v",
        "CREATE TEMP TABLE u AS SELECT 6 AS k, 7 AS v",
        "DROP TABLE u",
        "DROP TABLE u",
        "CREATE VIEW u AS SELECT k, g AS v FROM t",
        "CREATE OR REPLACE VIEW u AS SELECT k, k AS v FROM t WHERE k < 100",
        "DROP VIEW u; CREATE TABLE u AS SELECT 1 AS k, 5 AS v",
        "BEGIN; DROP TABLE t; CREATE TABLE t AS SELECT 1 AS k, 1 AS g, 's' AS s",
        "ROLLBACK",
    ] {
        run(&session, change).await;
        let expected = now(&session, JOINED, &one).await;
        for _ in 0..RUNS {
            assert_eq!(answer(&session, &kept, &one).await, expected, "{change}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_have_committed_is_read() {
    let engine = engine();
    let (session, other) = (session_of(&engine).await, engine.session());
    let three = [ScalarValue::from(3_i64)];
    let kept = prepared(&session, JOINED, &three).await;
    let before = answer(&session, &kept, &three).await;
    run(&session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(answer(&session, &kept, &three).await, before);
    run(&other, "UPDATE u SET v = v + 1").await;
    assert_eq!(answer(&session, &kept, &three).await, before, "one state");
    run(&session, "UPDATE u SET v = v + 2 WHERE k > 1000; COMMIT").await;
    assert_ne!(answer(&session, &kept, &three).await, before);
    run(
        &other,
        "INSERT INTO t SELECT value, 3, '' FROM generate_series(1001, 9000) AS s(value)",
    )
    .await;
    run(
        &other,
        "INSERT INTO u SELECT value, 9 FROM generate_series(1001, 9000) AS s(value)",
    )
    .await;
    let expected = now(&session, JOINED, &three).await;
    assert_eq!(
        answer(&session, &kept, &three).await,
        expected,
        "much larger tables"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_may_have_other_types() {
    let session = session_of(&engine()).await;
    let sql = "SELECT $1 + 1 AS n, count(*) FROM t JOIN u ON t.k = u.k WHERE t.k = $1";
    let kept = prepared(&session, sql, &[ScalarValue::from(7_i64)]).await;
    for value in [
        ScalarValue::from(7_i32),
        ScalarValue::from(7.5_f64),
        ScalarValue::Decimal128(Some(75), 5, 1),
        ScalarValue::Null,
        ScalarValue::Int64(None),
        ScalarValue::from(9_i64),
    ] {
        let value = [value];
        let expected = now(&session, sql, &value).await;
        for _ in 0..RUNS {
            assert_eq!(answer(&session, &kept, &value).await, expected, "{value:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_dropped_gives_back_its_memory() {
    let engine = engine();
    let session = session_of(&engine).await;
    let before = region_bytes(&engine);
    run(
        &session,
        "CREATE TABLE w AS SELECT value AS k, 1 AS g FROM generate_series(1, 100000)",
    )
    .await;
    assert!(region_bytes(&engine) > before);
    let sql = "SELECT count(*) FROM w JOIN u ON w.k = u.k WHERE w.g = $1";
    let kept = prepared(&session, sql, &[ScalarValue::from(1_i64)]).await;
    run(&session, "DROP TABLE w").await;
    assert_eq!(region_bytes(&engine), before, "{} is kept", kept.text());
}
