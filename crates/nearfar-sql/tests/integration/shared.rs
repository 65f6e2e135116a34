//! Parts of statements that are the same are computed once, and answers are what they are without that.

use futures::StreamExt;
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use std::time::{Duration, Instant};

use super::support::{error, options, run, try_run, value};

const ROWS: usize = 50_000;

/// Read by two: groups of a join.
const TWICE: &str = "WITH sums AS (SELECT t.g, sum(u.v) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.g) \
                     SELECT count(*), sum(a.s * b.s) FROM sums a JOIN sums b ON a.g = b.g + 1";

async fn session_of(options: EngineOptions) -> Session {
    let session = Engine::new(options).expect("an engine").session();
    let tables = format!(
        "CREATE TABLE t AS SELECT value AS k, value % 1000 AS g, 'row ' || value AS s \
         FROM generate_series(1, {ROWS}); \
         CREATE TABLE u AS SELECT value AS k, value % 7 AS v FROM generate_series(1, {ROWS})"
    );
    run(&session, &tables).await;
    session
}

/// The physical plan of a statement.
async fn plan(session: &Session, sql: &str) -> String {
    run(session, &format!("EXPLAIN {sql}")).await
}

fn count(plan: &str, what: &str) -> usize {
    plan.matches(what).count()
}

/// The rows with subplans computed once, and each for itself.
async fn both_ways(session: &Session, sql: &str) -> [String; 2] {
    run(session, "SET share_subplans = off").await;
    let apart = run(session, sql).await;
    run(session, "SET share_subplans = on").await;
    [run(session, sql).await, apart]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_few_keys_are_looked_up_in_are_not_computed_whole() {
    let session = session_of(options()).await;
    run(
        &session,
        "CREATE TABLE few AS SELECT * FROM t WHERE k <= 100",
    )
    .await;
    let of = |table: &str| {
        format!(
            "WITH pairs AS (SELECT a.k FROM t a JOIN u b ON a.k = b.k WHERE a.g <> b.v) \
             SELECT count(*), sum(k) FROM {table} x \
             WHERE k IN (SELECT k FROM pairs) AND g IN (SELECT k FROM pairs)"
        )
    };
    for (table, shared) in [("few", 0), ("t", 2)] {
        let sql = of(table);
        let plan = plan(&session, &sql).await;
        assert_eq!(count(&plan, "SharedExec"), shared, "{plan}");
        let [together, apart] = both_ways(&session, &sql).await;
        assert_eq!(together, apart);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_common_table_expression_that_is_read_twice_is_computed_once() {
    let session = session_of(options()).await;
    let shared = plan(&session, TWICE).await;
    assert_eq!(
        count(&shared, "SharedExec: subplan=1, readers=2"),
        1,
        "{shared}"
    );
    assert_eq!(
        count(&shared, "SharedExec: subplan=1, again"),
        1,
        "{shared}"
    );
    assert_eq!(count(&shared, "table=u"), 1, "{shared}");
    run(&session, "SET share_subplans = off").await;
    let apart = plan(&session, TWICE).await;
    assert_eq!(count(&apart, "SharedExec"), 0, "{apart}");
    assert_eq!(count(&apart, "table=u"), 2, "{apart}");
    let [once, apart] = both_ways(&session, TWICE).await;
    assert_eq!(once, apart);
    let analyzed = run(&session, &format!("EXPLAIN ANALYZE {TWICE}")).await;
    assert!(
        analyzed.contains("SharedExec: subplan=1, again, metrics=[output_rows=1.00 K"),
        "{analyzed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_subplans_computed_once() {
    let session = session_of(options()).await;
    for sql in [
        // Subplans within subplans, some of which others read too.
        "WITH a AS (SELECT g, count(*) AS n FROM t GROUP BY g), \
              b AS (SELECT a.g, a.n + c.n AS n FROM a JOIN a c ON a.g = c.g) \
         SELECT count(*), sum(b.n), sum(d.n), sum(a.n) FROM b JOIN b d ON b.g = d.g JOIN a ON a.g = b.g",
        // Beside scalar subqueries, which run before all else.
        "WITH a AS (SELECT g, count(*) AS n FROM t GROUP BY g) \
         SELECT count(*) FROM a WHERE n >= (SELECT avg(n) FROM a) AND g < (SELECT max(g) FROM a)",
        // One side ends early.
        "WITH a AS (SELECT t.g, u.v FROM t JOIN u ON t.k = u.k) \
         SELECT (SELECT count(*) FROM a) AS n, (SELECT count(*) FROM (SELECT v FROM a LIMIT 3)) AS m",
        // A side without rows.
        "WITH a AS (SELECT g, count(*) AS n FROM t GROUP BY g) \
         SELECT count(*) FROM (SELECT * FROM a WHERE n < 0) x JOIN a ON a.g = x.g",
        "WITH a AS (SELECT g, count(*) AS n FROM t GROUP BY g) \
         SELECT sum(n) FROM (SELECT n FROM a UNION ALL SELECT n FROM a UNION ALL SELECT n + 1 FROM a)",
        // Equal but for a filter, a column or a function.
        "WITH a AS (SELECT g, sum(k) AS n FROM t GROUP BY g) \
         SELECT sum(x.n), sum(y.n) FROM a x JOIN (SELECT g, max(k) AS n FROM t GROUP BY g) y ON x.g = y.g",
        "SELECT (SELECT count(DISTINCT g) FROM t) + (SELECT count(g) FROM t), \
                (SELECT sum(v) FROM u WHERE k < 10) + (SELECT sum(v) FROM u WHERE k < 11)",
    ] {
        let [once, apart] = both_ways(&session, sql).await;
        assert_eq!(once, apart, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_each_time_is_not_shared() {
    let session = session_of(options()).await;
    for sql in [
        "WITH a AS (SELECT g, sum(random()) AS r FROM t GROUP BY g) \
         SELECT count(*) FROM a JOIN a b ON a.g = b.g AND a.r <> b.r",
        "WITH a AS (SELECT max(random()) AS r FROM t) SELECT a.r <> b.r FROM a, a b",
    ] {
        let plan = plan(&session, sql).await;
        assert_eq!(count(&plan, "SharedExec"), 0, "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_runs_again_reads_no_rows_of_the_run_before() {
    let session = session_of(options()).await;
    run(&session, &format!("PREPARE again AS {TWICE}")).await;
    let before = run(&session, "EXECUTE again").await;
    assert_eq!(run(&session, "EXECUTE again").await, before);
    run(&session, "UPDATE u SET v = v + 1").await;
    let after = run(&session, "EXECUTE again").await;
    assert_ne!(after, before);
    assert_eq!(run(&session, TWICE).await, after);
    // Within a transaction, its own changes are seen.
    run(&session, "BEGIN; UPDATE u SET v = v + 1").await;
    let [once, apart] = both_ways(&session, TWICE).await;
    assert_eq!(once, apart);
    assert_ne!(once, after);
    run(&session, "ROLLBACK").await;
    assert_eq!(run(&session, TWICE).await, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_readers_are_told_of_an_error() {
    let session = session_of(options()).await;
    let sql = "WITH a AS (SELECT g, sum(1 / (k - 40000)) AS n FROM t GROUP BY g) \
               SELECT sum(a.n - b.n) FROM a JOIN a b ON a.g = b.g";
    let plan = plan(&session, sql).await;
    assert_eq!(count(&plan, "SharedExec"), 2, "{plan}");
    let message = error(&session, sql).await;
    assert!(message.to_lowercase().contains("zero"), "{message}");
    assert_eq!(value(&session, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_kept_are_charged_and_spilled() {
    let sql = "WITH a AS (SELECT t.k, t.s || ' ' || t.s || ' ' || t.s AS s, u.v FROM t JOIN u ON t.k = u.k) \
               SELECT count(*), count(DISTINCT s) FROM (SELECT s FROM a WHERE v >= (SELECT avg(v) FROM a) - 9)";
    let session = session_of(options()).await;
    let [once, apart] = both_ways(&session, sql).await;
    assert_eq!(once, apart);
    for limit in ["64MiB", "24MiB", "12MiB"] {
        run(&session, &format!("SET memory_limit = '{limit}'")).await;
        // Refused or right.
        if let Ok(limited) = try_run(&session, sql).await {
            assert_eq!(limited, once, "{limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_go_away_end_the_work() {
    let session = session_of(options()).await;
    // Far more rows than anybody waits for.
    let sql = "WITH a AS (SELECT x.k, y.s FROM t x JOIN t y ON x.g = y.g + 0 JOIN t z ON z.g = x.g) \
               SELECT k FROM a UNION ALL SELECT k + 1 FROM a";
    let plan = plan(&session, sql).await;
    assert_eq!(count(&plan, "SharedExec"), 2, "{plan}");
    let began = Instant::now();
    let results = session.execute(sql).await.expect("rows");
    let Some(StatementResult::Rows(mut rows)) = results.into_iter().next() else {
        panic!("no rows");
    };
    rows.next().await.expect("a batch").expect("rows");
    drop(rows);
    run(&session, "DISCARD ALL").await;
    while session.engine().query_memory().used_bytes() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "memory is held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(value(&session, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recursive_queries_share_nothing() {
    let session = session_of(options()).await;
    let sql = "WITH RECURSIVE a AS (SELECT g, count(*) AS n FROM t GROUP BY g),
               r AS (SELECT 1 AS i, CAST(0 AS BIGINT) AS n UNION ALL
                     SELECT r.i + 1, (SELECT max(x.n + y.n) FROM a x JOIN a y ON x.g = y.g) FROM r WHERE r.i < 4)
               SELECT i, n FROM r ORDER BY i";
    let [once, apart] = both_ways(&session, sql).await;
    assert_eq!(once, apart);
}
