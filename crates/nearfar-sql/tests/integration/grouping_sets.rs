//! Grouping sets are computed of the finest groups, and answers are what they are without that.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without};

async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let table = "CREATE TABLE t AS SELECT value % 5 AS a, \
                 CASE WHEN value % 11 = 0 THEN NULL ELSE 'group ' || value % 7 END AS b, \
                 value % 3 AS c, value AS v, value % 2 = 0 AS is_even FROM generate_series(1, 20000)";
    run(&session, table).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_sets_are_made_of_the_finest_groups() {
    let session = session().await;
    let sql = "EXPLAIN SELECT a, b, sum(v) FROM t GROUP BY ROLLUP (a, b)";
    let plan = run(&session, sql).await;
    let sets = "gby=[(NULL as a, NULL as b), (a@0 as a, NULL as b), (a@0 as a, b@1 as b)]";
    let of_states = format!("GroupingSetsExec: mode=Partial, {sets}, aggr=[sum(t.v)]");
    assert!(plan.contains(&of_states), "{plan}");
    assert!(
        plan.contains("mode=Partial, gby=[a@0 as a, b@1 as b]"),
        "{plan}"
    );
    run(&session, "SET group_finest_first = off").await;
    let plan = run(&session, sql).await;
    assert!(!plan.contains("GroupingSetsExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_whatever_groups_come_first() {
    let session = session().await;
    let sets = [
        "ROLLUP (a, b)",
        "ROLLUP (a, b, c)",
        "CUBE (a, b)",
        "GROUPING SETS ((a), (b), (a), ())",
        "GROUPING SETS ((a, b), (c))",
        "a, ROLLUP (b, c)",
        "ROLLUP (a, c), CUBE (b)",
        "CUBE (c, b, a)",
        "GROUPING SETS ((a, c), (b, c), (c), ())",
    ];
    let columns = "count(*), sum(v), avg(v), min(b), max(v) FILTER (WHERE is_even), stddev(v) > 0, \
                   bool_and(is_even), count(b)";
    let others = [
        "SELECT grouping(a), grouping(b), a, b, sum(v) AS s, \
           rank() OVER (PARTITION BY grouping(a) + grouping(b) ORDER BY sum(v) DESC) \
         FROM t GROUP BY ROLLUP (a, b) ORDER BY 1, 2, 3, 4, 5",
        "SELECT a, b, count(DISTINCT c), array_agg(c ORDER BY v) IS NULL FROM t GROUP BY CUBE (a, b) ORDER BY 1, 2, 3",
        "SELECT a, sum(v), count(*), avg(v), min(b) FROM t WHERE v < 0 GROUP BY ROLLUP (a)",
        "SELECT a, sum(v), stddev(v), bool_and(is_even), regr_slope(v, a), max(v) FILTER (WHERE is_even) \
         FROM t WHERE v < 0 GROUP BY CUBE (a, b)",
        "SELECT a, b, sum(v), avg(v) FROM t WHERE v < 0 GROUP BY GROUPING SETS ((a), (b))",
        "SELECT a, count(*), corr(v, c) FROM t WHERE v < 0 GROUP BY GROUPING SETS ((a), (), ())",
        "SELECT a, count(*), corr(v, c) FROM t WHERE v < 2 GROUP BY ROLLUP (a), ROLLUP (a) ORDER BY 1, 2",
        "SELECT b, count(*), sum(v) FROM t GROUP BY GROUPING SETS ((), (b)) ORDER BY 1, 2",
        "SELECT a, b, regr_slope(v, c) > 0, corr(v, a) > 0 FROM t GROUP BY ROLLUP (b, a) ORDER BY 1, 2",
        "SELECT a, k, sum(v) FROM (SELECT a, 5 AS k, v FROM t) s GROUP BY ROLLUP (a, k) ORDER BY a, k, 3",
    ];
    let of_sets = sets.iter().map(|sets| {
        format!("SELECT a, b, {columns} FROM t GROUP BY {sets} ORDER BY 1, 2, 3, 4, 7")
    });
    for sql in of_sets.chain(others.map(str::to_owned)) {
        same_without(&session, "group_finest_first", &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_memory_has_no_room_for_are_counted_right() {
    let session = Engine::new(options()).expect("an engine").session();
    let table = "CREATE TABLE t AS SELECT value % 500 AS a, value % 7001 AS b, 'x' || value % 9001 AS c, value AS v \
                 FROM generate_series(1, 100000)";
    run(&session, table).await;
    for sets in ["ROLLUP (a, b, c)", "CUBE (a, b, c)"] {
        let groups =
            format!("SELECT a, b, sum(v) AS s, count(*) AS n, min(c) AS c FROM t GROUP BY {sets}");
        let sql =
            format!("SELECT count(*), sum(s), sum(n), min(c), sum(a), sum(b) FROM ({groups}) AS g");
        let expected = run(&session, &sql).await;
        for limit in ["32MiB", "12MiB", "6MiB"] {
            run(&session, &format!("SET memory_limit = '{limit}'")).await;
            assert_eq!(run(&session, &sql).await, expected, "{sets} in {limit}");
        }
        run(&session, "RESET memory_limit").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_computed_values_have_their_names() {
    let session = session().await;
    let of_values = [
        ("a + 1", "count(*), grouping(a + 1)"),
        ("-a, c * 2", "sum(v), grouping(-a, c * 2)"),
        ("CAST(a AS SMALLINT), c + a", "sum(v), max(c + a)"),
        ("CASE WHEN a > 2 THEN a / 2 END", "sum(a + 1), count(*)"),
    ];
    for (values, columns) in of_values {
        for kind in ["ROLLUP", "CUBE", "GROUPING SETS"] {
            let sql = format!(
                "SELECT {values}, {columns} FROM t GROUP BY {kind} ({values}) ORDER BY 1, 2, 3"
            );
            let apart = format!(
                "SELECT {values}, {columns} FROM (SELECT * FROM t) AS t GROUP BY {kind} ({values}) ORDER BY 1, 2, 3"
            );
            assert_eq!(
                run(&session, &sql).await,
                run(&session, &apart).await,
                "{sql}"
            );
        }
    }
    let sql = "SELECT a + 1 AS k, count(*) FROM t GROUP BY ROLLUP (a + 1) ORDER BY 1 NULLS LAST";
    let rows = run(&session, sql).await;
    assert!(rows.contains("| 5 | 4000 "), "{rows}");
    assert!(rows.contains("|   | 20000 "), "{rows}");
}
