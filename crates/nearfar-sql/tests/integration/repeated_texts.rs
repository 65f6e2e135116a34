//! Queries whose texts come again: by plans that are kept they give what they give when they are planned anew.

use nearfar_sql::engine::{Session, StatementResult, TransactionState};

use super::support::{engine, error, region_bytes, run, try_run, value};

const TABLES: &str = "CREATE TABLE t (k BIGINT NOT NULL, g BIGINT, s TEXT, at TIMESTAMPTZ); \
    INSERT INTO t SELECT value, value % 5, 'row ' || value, TIMESTAMPTZ '2026-01-01 12:00:00+00' \
    FROM generate_series(1, 300); \
    CREATE TABLE u AS SELECT value AS k, value % 7 AS v FROM generate_series(1, 200); \
    CREATE TABLE z (k INT, d DOUBLE PRECISION); INSERT INTO z VALUES (0, 0), (2, 5), (5, 20); \
    CREATE TABLE x AS SELECT 1 AS g; CREATE VIEW w AS SELECT g, 2 AS n FROM x";

const QUERIES: [&str; 26] = [
    "SELECT count(*) FROM t WHERE k IS NULL",
    "SELECT count(k), count(g), min(s), max(at)::text FROM t",
    "SELECT * FROM u ORDER BY k, v LIMIT 3",
    "SELECT t.g, sum(u.v) FROM t JOIN u ON t.k = u.k GROUP BY t.g ORDER BY 1",
    "SELECT t.s, u.v FROM t LEFT JOIN u ON t.k = u.k WHERE t.k % 50 = 0 ORDER BY 1, 2",
    "SELECT count(*) FROM t WHERE k > (SELECT avg(v) FROM u)",
    "SELECT count(*) FROM t WHERE k IN (SELECT v FROM u) AND g NOT IN (SELECT v FROM u WHERE v > 4)",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v = t.g)",
    "SELECT count(*) FROM t WHERE g = (SELECT max(v) FROM u WHERE u.k = t.k)",
    "SELECT k, (SELECT sum(v) FROM u WHERE u.k < z.k) FROM z ORDER BY k",
    "WITH c AS (SELECT g, count(*) AS n FROM t GROUP BY g) \
     SELECT a.g, a.n - b.n FROM c a JOIN c b ON a.g = b.g + 1 ORDER BY 1",
    "WITH u AS (SELECT 1 AS v) SELECT count(*) FROM t JOIN u ON t.g = u.v",
    "SELECT g, k, rank() OVER (PARTITION BY g ORDER BY k DESC) FROM t WHERE k < 12 ORDER BY 1, 2",
    "SELECT g, n, count(*) FROM (SELECT g, k % 2 AS n FROM t) c GROUP BY ROLLUP (g, n) ORDER BY 1, 2",
    "SELECT g FROM t WHERE k < 20 EXCEPT ALL SELECT v FROM u WHERE k < 9 ORDER BY 1",
    "SELECT g FROM t INTERSECT SELECT v FROM u ORDER BY 1",
    "SELECT DISTINCT ON (g) g, s FROM t ORDER BY g, k DESC",
    "SELECT k FROM z WHERE d <> 0 AND 10 / d > 1 ORDER BY 1",
    "SELECT 10 / k FROM z ORDER BY d",
    "SELECT count(*) FROM t WHERE at::date = '2026-01-01' AND at::text LIKE '%12:00%'",
    "SELECT n FROM w ORDER BY g",
    "SELECT * FROM t LIMIT 0",
    "SELECT * FROM u WHERE false",
    "WITH c AS (SELECT v FROM u) SELECT count(*) FROM t",
    "SELECT g FROM t WHERE k < 3 UNION ALL SELECT v FROM u WHERE 1 = 2",
    "SELECT a.k FROM t a, t b, u WHERE a.k = b.g AND b.k = u.k AND u.v < 2 ORDER BY 1 LIMIT 5",
];

/// What changes what they give, or how they are to be planned.
const CHANGES: [&str; 24] = [
    "SELECT 1",
    "INSERT INTO t VALUES (1001, NULL, 'x', now()); DELETE FROM t WHERE k = 7; UPDATE u SET v = v + 1 WHERE k < 9",
    "ALTER TABLE t ALTER k DROP NOT NULL; INSERT INTO t (g) VALUES (1), (2)",
    "DELETE FROM t WHERE k IS NULL; ALTER TABLE t ALTER k SET NOT NULL",
    "SET TimeZone = 'Asia/Tokyo'",
    "RESET TimeZone",
    "CREATE UNIQUE INDEX t_k ON t (k); CREATE INDEX ON u (v)",
    "CALL nearfar.merge('t')",
    "DROP INDEX t_k",
    "ALTER TABLE u ADD COLUMN more INT DEFAULT 4",
    "ALTER TABLE u ALTER COLUMN v TYPE INT USING v::int * 2",
    "INSERT INTO u SELECT value, 9 FROM generate_series(1000, 9000) AS s(value)",
    "TRUNCATE u",
    "DROP VIEW w; CREATE VIEW w AS SELECT g, 3 AS n FROM x",
    "DROP TABLE u; CREATE TABLE u AS SELECT 1 AS k, 5.5 AS v",
    "CREATE TEMP TABLE u AS SELECT 6 AS k, 3::bigint AS v",
    "DROP TABLE u",
    "ALTER TABLE t RENAME TO old; CREATE TABLE t AS SELECT 3::bigint AS k, 1 AS g, 's' AS s, now() AS at",
    "DROP TABLE t; ALTER TABLE old RENAME TO t",
    "BEGIN; INSERT INTO t VALUES (5000, 5, 'mine', now()); DROP TABLE z",
    "ROLLBACK",
    "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM t WHERE g = 1",
    "COMMIT",
    "SET plan_cache_mode = force_custom_plan",
];

/// What the text gives when it is planned anew.
async fn anew(session: &Session, sql: &str) -> String {
    let statement = session.read(sql).expect(sql).remove(0);
    match session.run(&statement).await {
        Ok(StatementResult::Rows(rows)) => match rows.collect().await {
            Ok(rows) => arrow::util::pretty::pretty_format_batches(&rows)
                .expect("a table")
                .to_string(),
            Err(error) => error.to_string(),
        },
        Ok(StatementResult::Command(tag)) => tag.to_string(),
        Err(error) => error.to_string(),
    }
}

async fn again(session: &Session, sql: &str) -> String {
    try_run(session, sql)
        .await
        .unwrap_or_else(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_new_plans_whatever_has_changed() {
    let session = engine().session();
    run(&session, TABLES).await;
    for sql in QUERIES {
        again(&session, sql).await;
    }
    for change in CHANGES {
        run(&session, change).await;
        let is_open = session.transaction_state() == TransactionState::Open;
        for sql in QUERIES {
            run_if(&session, is_open, "SAVEPOINT before").await;
            let expected = anew(&session, sql).await;
            run_if(&session, is_open, "ROLLBACK TO before").await;
            for _ in 0..2 {
                assert_eq!(again(&session, sql).await, expected, "{sql} after {change}");
                run_if(&session, is_open, "ROLLBACK TO before").await;
            }
        }
    }
}

async fn run_if(session: &Session, is_wanted: bool, sql: &str) {
    if is_wanted {
        run(session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_sessions_define_is_seen() {
    let engine = engine();
    let (session, other) = (engine.session(), engine.session());
    run(&session, "CREATE TABLE t (k INT); INSERT INTO t VALUES (1)").await;
    let sql = "SELECT * FROM t WHERE k < 5 OR k > 7";
    for (change, columns) in [
        ("SELECT 1", "| k |"),
        ("ALTER TABLE t ADD COLUMN a INT", "| k | a |"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "| k | b |"),
        (
            "DROP TABLE t; CREATE TABLE t AS SELECT 'x' AS c, 3 AS k",
            "| c | k |",
        ),
    ] {
        run(&other, change).await;
        for _ in 0..2 {
            let rows = run(&session, sql).await;
            assert!(rows.contains(columns), "{change}: {rows}");
        }
    }
    run(&other, "DROP TABLE t").await;
    let gone = error(&session, sql).await;
    assert!(
        gone.contains("not found") || gone.contains("does not exist"),
        "{gone}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_run_the_same_text_at_the_same_time() {
    let session = engine().session();
    run(&session, TABLES).await;
    let sql = "SELECT t.g, count(*) FROM t JOIN u ON t.k = u.k GROUP BY t.g ORDER BY 1";
    let expected = run(&session, sql).await;
    let clones = (0..16).map(|_| {
        let session = session.clone();
        tokio::spawn(async move { run(&session, sql).await })
    });
    for answer in clones.collect::<Vec<_>>() {
        assert_eq!(answer.await.expect("an answer"), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_each_time_still_does() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1); CREATE SEQUENCE n",
    )
    .await;
    for sql in [
        "SELECT now()::text FROM t WHERE k = 1 OR k = 2",
        "SELECT max(random()) FROM t JOIN t u USING (k)",
        "SELECT count(*) + nextval('n') FROM t",
        "SELECT (SELECT max(random()) FROM t) FROM t WHERE k = 1 OR k = 2",
    ] {
        let first = value(&session, sql).await;
        assert_ne!(value(&session, sql).await, first, "{sql}");
    }
    let setting = "SELECT current_setting('TimeZone') FROM t JOIN t u USING (k)";
    for zone in ["Asia/Tokyo", "Europe/Paris"] {
        run(&session, &format!("SET TimeZone = '{zone}'")).await;
        assert_eq!(value(&session, setting).await, zone);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_and_what_they_change_run_each_time() {
    let session = engine().session();
    let script = "CREATE TABLE IF NOT EXISTS t (k INT); INSERT INTO t VALUES (1); SELECT count(*) AS n FROM t";
    for count in 1..4 {
        let text = run(&session, script).await;
        assert!(text.contains(&format!("| {count} |")), "{text}");
    }
    for k in 4..7 {
        run(&session, "INSERT INTO t SELECT max(k) + 1 FROM t").await;
        assert_eq!(
            value(&session, "SELECT count(*) FROM t").await,
            k.to_string()
        );
    }
    run(&session, "CREATE TABLE copy AS SELECT * FROM t").await;
    let twice = error(&session, "CREATE TABLE copy AS SELECT * FROM t").await;
    assert!(twice.contains("exists"), "{twice}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_dropped_gives_back_its_memory() {
    let engine = engine();
    let session = engine.session();
    run(&session, TABLES).await;
    let before = region_bytes(&engine);
    let table = "CREATE TABLE more AS SELECT value AS k FROM generate_series(1, 100000)";
    run(&session, table).await;
    let sql = "SELECT count(*) FROM more WHERE k > (SELECT avg(k) FROM more)";
    for _ in 0..3 {
        run(&session, sql).await;
    }
    assert!(region_bytes(&engine) > before);
    run(&session, "DROP TABLE more").await;
    assert_eq!(region_bytes(&engine), before);
}
