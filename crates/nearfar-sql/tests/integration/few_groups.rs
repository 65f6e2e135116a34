//! Aggregates of few groups are those of each group alone.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, value};

/// Aggregates of integers, decimals and texts, with nulls among them.
const AGGREGATES: &str = "count(*), count(i), count(t), sum(i), avg(i), sum(b), avg(b), sum(d), avg(d), sum(w), \
                          sum(d * (1 - d)), sum(i) FILTER (WHERE b % 3 = 0), count(DISTINCT t), count(f), sum(i) - count(i)";

async fn session(groups: usize) -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    // Groups whose number is a multiple of 7 have no integers.
    let table = format!(
        "CREATE TABLE t AS SELECT v * v % 7919 % {groups} AS g, \
         CASE WHEN v % 5 = 2 OR v * v % 7919 % {groups} % 7 = 0 THEN NULL ELSE (v - 9000)::int END AS i, \
         v * 100000007 AS b, CASE WHEN v % 11 > 0 THEN (v % 100)::numeric(15, 2) / 100 END AS d, \
         (v * 1000000007)::numeric(38, 6) AS w, 'text ' || v % 13 AS t, v::float8 / 3 AS f \
         FROM generate_series(1, 20000) AS s(v)"
    );
    run(&session, &table).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_have_the_aggregates_that_they_have_alone() {
    for groups in [1, 3, 64, 65] {
        let session = session(groups).await;
        let grouped = format!("SELECT g, {AGGREGATES} FROM t GROUP BY g ORDER BY g");
        let alone = (0..groups).map(|group| {
            format!(
                "SELECT {group} AS g, {AGGREGATES} FROM t WHERE g = {group} HAVING count(*) > 0"
            )
        });
        let alone: Vec<String> = alone.collect();
        let alone = format!("{} ORDER BY 1", alone.join(" UNION ALL "));
        let (grouped, alone) = (run(&session, &grouped).await, run(&session, &alone).await);
        let rows =
            |text: &str| -> Vec<String> { text.lines().skip(3).map(str::to_owned).collect() };
        assert_eq!(rows(&grouped), rows(&alone), "{groups} groups");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_and_counts_of_the_same_column_stand_side_by_side() {
    let session = session(3).await;
    let same = [
        "SELECT count(*) FROM (SELECT g, avg(i) AS a, count(i) AS n, sum(i) AS s FROM t GROUP BY g) x WHERE n > 0 AND abs(a * n - s) > 0.01",
        "SELECT count(*) FROM (SELECT g, avg(b) AS a FROM t GROUP BY g HAVING count(b) < 3 ORDER BY count(b)) x",
        "SELECT count(*) FROM (SELECT avg(i) OVER w AS a, count(i) OVER w AS n, sum(i) OVER w AS s FROM t WINDOW w AS (PARTITION BY g)) x \
         WHERE n > 0 AND abs(a * n - s) > 0.01",
        "SELECT count(*) FROM (SELECT avg(i) AS a, count(i) AS n FROM t WHERE g > 9) x WHERE a IS NOT NULL OR n <> 0",
    ];
    for sql in same {
        assert_eq!(value(&session, sql).await, "0", "{sql}");
    }
    // A subquery without rows counts none.
    let none = "SELECT (SELECT count(*) FROM t u WHERE u.g = o.g + 100) FROM t o LIMIT 1";
    assert_eq!(value(&session, none).await, "0");
}
