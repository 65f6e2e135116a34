//! Windows over sorted rows give what DataFusion's operators give.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without, try_run};

/// Without it, DataFusion's operators evaluate windows.
const SETTING: &str = "sorted_windows";

/// Small and large partitions, some of which are larger than a batch, peers, nulls, and numbers of several types.
async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let table = "CREATE TABLE t AS SELECT \
                   value AS id, \
                   CASE WHEN value % 3 = 0 THEN 0 WHEN value % 17 = 0 THEN NULL ELSE value % 701 END AS p, \
                   'group ' || (value % 5) AS q, \
                   nullif(value * 7919 % 50, 7) AS o, \
                   CAST(value * 31 % 1000 - 500 AS INTEGER) AS i, \
                   value * 1000003 % 100000007 AS b, \
                   CAST(nullif(value % 13, 0) * 1.25 AS DECIMAL(12, 2)) AS d, \
                   CAST(value % 11 AS DOUBLE PRECISION) / 4 AS f, \
                   DATE '2001-01-01' + CAST(value % 900 AS INTEGER) AS day, \
                   'text ' || value % 40 AS s \
                 FROM generate_series(1, 12000)";
    run(&session, table).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_begin_with_their_partition_are_nearfars() {
    let session = session().await;
    let known = [
        "sum(i) OVER (PARTITION BY p)",
        "avg(d) OVER (PARTITION BY p, q)",
        "max(day) OVER (PARTITION BY p ORDER BY o)",
        "sum(d) OVER (PARTITION BY p ORDER BY id ROWS UNBOUNDED PRECEDING)",
        "rank() OVER (PARTITION BY q ORDER BY o)",
        "row_number() OVER (ORDER BY id)",
        "count(*) OVER ()",
    ];
    for window in known {
        let plan = run(&session, &format!("EXPLAIN SELECT {window} FROM t")).await;
        assert!(plan.contains("SortedWindowExec: wdw=["), "{plan}");
    }
    let unknown = [
        "sum(i) FILTER (WHERE i > 0) OVER (PARTITION BY p)",
        "count(DISTINCT i) OVER (PARTITION BY p)",
        "sum(i) OVER (PARTITION BY p ORDER BY id ROWS 3 PRECEDING)",
        "sum(i) OVER (PARTITION BY p ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "lag(i) OVER (PARTITION BY p ORDER BY id)",
        "max(s) OVER (PARTITION BY p)",
        "array_agg(i) OVER (PARTITION BY p)",
    ];
    for window in unknown {
        let plan = run(&session, &format!("EXPLAIN SELECT {window} FROM t")).await;
        assert!(!plan.contains("SortedWindowExec"), "{plan}");
    }
    run(&session, "SET sorted_windows = off").await;
    let plan = run(&session, &format!("EXPLAIN SELECT {} FROM t", known[0])).await;
    assert!(!plan.contains("SortedWindowExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_give_what_they_give_elsewhere() {
    let session = session().await;
    let partitions = ["", "PARTITION BY p", "PARTITION BY q", "PARTITION BY id"];
    let orders = ["", "ORDER BY o", "ORDER BY id"];
    let frames = [
        "",
        "ROWS UNBOUNDED PRECEDING",
        "RANGE UNBOUNDED PRECEDING",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    ];
    for partition in partitions {
        for order in orders {
            for frame in frames {
                if order.is_empty() && !frame.is_empty() {
                    continue;
                }
                let over = format!("OVER ({partition} {order} {frame})");
                // Which of several peers comes first is not said: they are the same in all that is added up.
                let by_rows = frame.starts_with("ROWS UNBOUNDED") && order != "ORDER BY id";
                let (i, d, f, day) = match by_rows {
                    true => ("1", "1.5", "f * 0", "DATE '2001-01-01'"),
                    false => ("i", "d", "f", "day"),
                };
                let sql = format!(
                    "SELECT count(*), sum(hash) FROM (SELECT \
                       coalesce(sum({i}) {over}, 7) + 3 * count({d}) {over} + 5 * count(*) {over} + 11 * coalesce(max({i}) {over}, 1) \
                       + 13 * coalesce(min(b * 0 + {i}) {over}, 1) + 17 * coalesce(sum({d}) {over}, 2) \
                       + 19 * coalesce(min({d}) {over}, 3) + CAST(23 * coalesce(sum({f}) {over}, 4) AS DECIMAL(30, 4)) \
                       + coalesce(max({day}) {over} - DATE '2000-01-01', 5) \
                       + 29 * coalesce(avg({d}) {over}, 2) AS hash \
                     FROM t) x"
                );
                same_without(&session, SETTING, &sql).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_numbered_in_their_partitions() {
    let session = session().await;
    for partition in ["", "PARTITION BY p", "PARTITION BY q, p", "PARTITION BY id"] {
        for order in ["ORDER BY o", "ORDER BY o DESC, q", "ORDER BY id"] {
            let over = format!("OVER ({partition} {order})");
            let sql = format!(
                "SELECT sum(n * o), sum(r * (1 + i)), sum(d * (2 + i)), max(n), max(r), max(d) FROM (SELECT o, i, \
                   row_number() {over} AS n, rank() {over} AS r, dense_rank() {over} AS d FROM t) x"
            );
            same_without(&session, SETTING, &sql).await;
        }
    }
    let sql = "SELECT id, rank() OVER (ORDER BY s), dense_rank() OVER (ORDER BY s) FROM t ORDER BY id LIMIT 3";
    let rows = run(&session, sql).await;
    assert!(rows.contains("| 1  | 301 "), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_over_groups_and_beside_others_are_the_same() {
    let session = session().await;
    let not_finite = "CREATE TABLE not_finite AS SELECT * FROM (VALUES (1, DOUBLE PRECISION '1'), (1, 'NaN'), (2, 3), (3, 'Infinity')) \
                      AS x (g, v)";
    run(&session, not_finite).await;
    let statements = [
        "SELECT q, o, sum(sum(d)) OVER (PARTITION BY q ORDER BY o NULLS FIRST ROWS UNBOUNDED PRECEDING), \
           avg(sum(i)) OVER (PARTITION BY q), rank() OVER (PARTITION BY q ORDER BY sum(i)) \
         FROM t GROUP BY q, o ORDER BY 1, 2 NULLS FIRST",
        "SELECT p, sum(c) FROM (SELECT p, count(*) OVER (PARTITION BY p) AS c, lag(i) OVER (PARTITION BY p ORDER BY id) AS l, \
           sum(i) FILTER (WHERE i > 0) OVER (PARTITION BY p) AS f FROM t) x WHERE l > 0 AND f > 10 GROUP BY p ORDER BY p NULLS FIRST",
        "SELECT * FROM (SELECT id, rank() OVER (PARTITION BY q ORDER BY b DESC) AS r FROM t) x WHERE r <= 2 ORDER BY id",
        "SELECT DISTINCT sum(i) OVER (PARTITION BY q) FROM t ORDER BY 1",
        "SELECT sum(i) OVER (PARTITION BY p) FROM t WHERE i > 100000",
        "SELECT a.p, sum(a.s) FROM (SELECT p, sum(i) OVER (PARTITION BY p) AS s FROM t) a \
           JOIN (SELECT DISTINCT p FROM t) b ON a.p = b.p GROUP BY a.p ORDER BY a.p",
        "SELECT max(s), min(s) FROM (SELECT sum(v) OVER (PARTITION BY g ORDER BY v) AS s FROM not_finite) x",
        "SELECT max(s), min(s), max(l), min(l), max(a) FROM (SELECT max(v) OVER (PARTITION BY g) AS s, min(v) OVER () AS l, \
           avg(v) OVER (PARTITION BY g) AS a FROM not_finite) x",
        "SELECT sum(c), max(r) FROM (SELECT count(*) OVER (PARTITION BY ARRAY[id % 3]) AS c, \
           rank() OVER (ORDER BY ARRAY[o]) AS r FROM t) x",
        "SELECT max(s) FROM (SELECT sum(CAST(1e35 AS NUMERIC(38, 0))) OVER (PARTITION BY id) AS s FROM t) x",
        "SELECT id, sum(i) OVER (PARTITION BY q ORDER BY s), count(*) OVER (PARTITION BY q) FROM t ORDER BY b, id LIMIT 100",
    ];
    for sql in statements {
        same_without(&session, SETTING, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_memory_does_not_hold_are_refused() {
    let session = session().await;
    run(&session, "SET memory_limit = '1MiB'").await;
    let sql = "SELECT max(c), count(*) FROM (SELECT count(i) OVER () AS c, s, q, b FROM (SELECT a.* FROM t a, t b WHERE b.id < 20) x) y \
               WHERE s > 'text'";
    let refused = try_run(&session, sql).await;
    let error = refused.expect_err("too little memory").to_string();
    assert!(error.contains("memory"), "{error}");
    run(&session, "SET memory_limit = engine").await;
    same_without(&session, SETTING, sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_that_are_too_large_are_refused() {
    let session = session().await;
    let sql = "SELECT min(s) FROM (SELECT sum(CAST(5e33 AS NUMERIC(38, 0))) OVER (ORDER BY value ROWS UNBOUNDED PRECEDING) AS s \
               FROM generate_series(1, 40000)) x";
    let refused = try_run(&session, sql).await.expect_err("128 bits");
    assert!(refused.to_string().contains("out of range"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_partitions_wait_in_little_memory() {
    let session = session().await;
    run(&session, "SET memory_limit = '4MiB'").await;
    let sql = "SELECT max(c), sum(v) FROM (SELECT count(*) OVER (PARTITION BY value / 10) AS c, value AS v \
               FROM generate_series(1, 400000)) x";
    let rows = run(&session, sql).await;
    assert!(rows.contains("| 10 "), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_begin_with_others_by_their_names() {
    let session = session().await;
    let numbers = |over: &str, rest: &str| {
        format!("SELECT id, sum(id) {over} AS n FROM t {rest} ORDER BY id LIMIT 20")
    };
    let written_out = numbers("OVER (PARTITION BY q ORDER BY id ROWS 2 PRECEDING)", "");
    let expected = run(&session, &written_out).await;
    for (over, windows) in [
        (
            "OVER (w ROWS 2 PRECEDING)",
            "w AS (PARTITION BY q ORDER BY id)",
        ),
        (
            "OVER (W ORDER BY id ROWS 2 PRECEDING)",
            "w AS (PARTITION BY q)",
        ),
        (
            "OVER (v ROWS 2 PRECEDING)",
            "w AS (PARTITION BY q), v AS (w ORDER BY id)",
        ),
        (
            "OVER v",
            "w AS (PARTITION BY q), v AS (w ORDER BY id ROWS 2 PRECEDING)",
        ),
    ] {
        let sql = numbers(over, &format!("WINDOW {windows}"));
        assert_eq!(run(&session, &sql).await, expected, "{sql}");
    }
    let by_order = "SELECT id FROM t WINDOW w AS (PARTITION BY q ORDER BY id) ORDER BY rank() OVER (w), id LIMIT 1";
    assert!(run(&session, by_order).await.contains("| 1  |"));
    for (over, windows, why) in [
        ("OVER (w)", "", "window \"w\" does not exist"),
        (
            "OVER (w PARTITION BY id)",
            "WINDOW w AS (PARTITION BY q)",
            "cannot override PARTITION BY",
        ),
        (
            "OVER (w ORDER BY id)",
            "WINDOW w AS (ORDER BY q)",
            "cannot override ORDER BY",
        ),
        (
            "OVER (w)",
            "WINDOW w AS (ORDER BY q ROWS 1 PRECEDING)",
            "has a frame clause",
        ),
    ] {
        let refused = try_run(&session, &numbers(over, windows)).await;
        let refused = refused.expect_err(over).to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
