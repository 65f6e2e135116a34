//! Tables, views, schemas and settings through SQL.

use super::support::{error, run, two_tiers, value};
use nearfar_sql::engine::StatementResult;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_filled_and_dropped() {
    let session = two_tiers().session();
    let tags = "CREATE TABLE t (a INT NOT NULL, b VARCHAR);
        INSERT INTO t VALUES (1, 'x;y'), (2, NULL);
        INSERT INTO t SELECT a + 10, b FROM t;
        CREATE TABLE u AS SELECT a, count(*) AS n FROM t GROUP BY a;
        CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS z;
        CREATE OR REPLACE TABLE u AS SELECT a FROM u WHERE a > 1;
        DROP TABLE IF EXISTS missing";
    assert_eq!(
        run(&session, tags).await,
        "CREATE TABLE\nINSERT 2\nINSERT 2\nSELECT 4\nCREATE TABLE\nSELECT 3\nDROP TABLE"
    );
    assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "26");
    assert_eq!(value(&session, "SELECT count(b) FROM t").await, "2");
    assert_eq!(value(&session, "SELECT min(a) FROM u").await, "2");
    assert_eq!(
        run(&session, "DROP TABLE t; DROP TABLE u").await,
        "DROP TABLE\nDROP TABLE"
    );
    assert!(
        error(&session, "SELECT * FROM t")
            .await
            .contains("'nearfar.public.t' not found")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_shared_and_temporary_ones_are_not() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(
        &one,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE t AS SELECT 2 AS a",
    )
    .await;
    run(&one, "CREATE TEMPORARY TABLE own (a INT)").await;
    assert_eq!(value(&one, "SELECT a FROM t").await, "2");
    assert_eq!(value(&other, "SELECT a FROM t").await, "1");
    assert!(
        error(&other, "SELECT * FROM own")
            .await
            .contains("not found")
    );
    assert!(
        error(&other, "DROP TABLE own")
            .await
            .contains("`own` does not exist")
    );
    let names = "SELECT string_agg(table_schema || '.' || table_name, ' ' ORDER BY table_schema)
         FROM nearfar.tables";
    assert_eq!(
        value(&one, names).await,
        "public.t temporary.own temporary.t"
    );
    assert_eq!(value(&other, names).await, "public.t");
    run(&one, "DROP TABLE t").await;
    assert_eq!(value(&one, "SELECT a FROM t").await, "1");
    run(&one, "CREATE VIEW v AS SELECT * FROM own").await;
    assert!(error(&other, "SELECT * FROM v").await.contains("not found"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_end_with_their_session() {
    let engine = two_tiers();
    let session = engine.session();
    run(
        &session,
        "CREATE TEMP TABLE t AS SELECT * FROM generate_series(1, 100000)",
    )
    .await;
    let result = session
        .execute("SELECT count(*) FROM t; SELECT * FROM nearfar.tiers")
        .await;
    assert!(super::support::region_bytes(&engine) > 0);
    drop(session);
    drop(result);
    super::support::eventually_empty(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_schemas_and_prepared_statements() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3)) AS v(a);
         CREATE VIEW v AS SELECT a * 2 AS b FROM t;
         CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 7 AS a;
         PREPARE p AS SELECT a FROM t WHERE a > $1",
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(b) FROM v").await, "12");
    assert_eq!(value(&session, "SELECT a FROM s.t").await, "7");
    assert_eq!(value(&session, "EXECUTE p(2)").await, "3");
    assert!(
        error(&session, "DROP TABLE t")
            .await
            .contains("read by view `v`")
    );
    assert!(
        error(&session, "DROP SCHEMA s")
            .await
            .contains("has tables (t)")
    );
    assert!(
        error(&session, "CREATE TABLE x.t (a INT)")
            .await
            .contains("schema `x`")
    );
    assert!(
        error(&session, "CREATE TABLE nearfar.t (a INT)")
            .await
            .contains("not supported")
    );
    assert_eq!(
        run(&session, "DROP VIEW v; DROP TABLE t; DROP SCHEMA s CASCADE").await,
        "DROP VIEW\nDROP TABLE\nDROP SCHEMA"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_are_kept_out_of_columns_that_allow_none() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (a INT NOT NULL, b INT)").await;
    let insert = "INSERT INTO t SELECT nullif(value, 2), 1 FROM generate_series(1, 3)";
    let message = error(&session, insert).await;
    assert!(message.contains("column `a`"), "{message}");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_come_in_the_order_of_the_statements() {
    let session = two_tiers().session();
    let results = session
        .execute("CREATE TABLE t AS SELECT 1 AS a; SELECT a FROM t; DROP TABLE t")
        .await
        .expect("script");
    assert_eq!(results.len(), 3);
    let mut results = results.into_iter();
    assert!(matches!(results.next(), Some(StatementResult::Command(tag)) if tag.rows == Some(1)));
    let Some(StatementResult::Rows(rows)) = results.next() else {
        panic!("rows")
    };
    assert_eq!(rows.schema().field(0).name(), "a");
    // The table is gone by now; the query has it still.
    assert_eq!(rows.collect().await.expect("rows")[0].num_rows(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_from_binds_more_than_and_and_or() {
    let session = two_tiers().session();
    for (sql, expected) in [
        ("1 IS DISTINCT FROM 1 OR true", "true"),
        ("1 IS NOT DISTINCT FROM 2 OR true", "true"),
        ("false AND 1 IS DISTINCT FROM 2 OR true", "true"),
        ("NOT 1 IS DISTINCT FROM 2 OR true", "true"),
        ("1 IS DISTINCT FROM 1 + 1 AND false", "false"),
        ("NULL IS NOT DISTINCT FROM NULL", "true"),
        ("1 IS DISTINCT FROM (0 = 1 OR 1 = 1)::int", "false"),
        ("true IS DISTINCT FROM 1 = 2", "true"),
    ] {
        let found = value(&session, &format!("SELECT {sql}")).await;
        assert_eq!(found, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_added_have_subqueries() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (a INT PRIMARY KEY, b INT)").await;
    run(&session, "INSERT INTO t VALUES (1, 5)").await;
    let next = "(SELECT max(a) + 1 FROM t)";
    run(
        &session,
        &format!("INSERT INTO t VALUES ({next}, 6), (9, DEFAULT)"),
    )
    .await;
    run(
        &session,
        &format!("PREPARE add AS INSERT INTO t VALUES ({next}, $1); EXECUTE add (7)"),
    )
    .await;
    run(
        &session,
        "INSERT INTO t (b, a) VALUES ((SELECT max(b) FROM t), 1)
         ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1",
    )
    .await;
    let all = "SELECT string_agg(a || ':' || coalesce(b::varchar, '-'), ' ' ORDER BY a) FROM t";
    assert_eq!(value(&session, all).await, "1:8 2:6 9:- 10:7");
}
