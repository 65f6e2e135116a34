//! Results that are ordered by the numbers of their columns.

use nearfar_sql::engine::Engine;

use super::support::{options, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_are_computed_of_aggregates_have_numbers_too() {
    let session = Engine::new(options()).expect("an engine").session();
    let table = "CREATE TABLE t (d int, v int, round int); \
                 INSERT INTO t VALUES (1, 100, 5), (1, 200, 5), (2, 5, 6), (3, 150, 7)";
    run(&session, table).await;
    for (numbered, named) in [
        (
            "SELECT d, round(avg(v), 1) FROM t GROUP BY d ORDER BY 2 DESC, 1",
            "SELECT d, round(avg(v), 1) AS round FROM t GROUP BY d ORDER BY round DESC, d",
        ),
        (
            "SELECT round, coalesce(sum(v), 0) FROM t GROUP BY round ORDER BY 2",
            "SELECT round, coalesce(sum(v), 0) AS coalesce FROM t GROUP BY round ORDER BY coalesce",
        ),
        (
            "SELECT round, round(avg(v)) FROM t GROUP BY round ORDER BY 2, 1",
            "SELECT round, round(avg(v)) FROM t GROUP BY round ORDER BY round(avg(v)), round",
        ),
        (
            "SELECT d + 1, sum(v) FROM t GROUP BY ROLLUP (d) ORDER BY 1 DESC NULLS LAST",
            "SELECT d + 1 AS \"?column?\", sum(v) FROM t GROUP BY ROLLUP (d) ORDER BY d + 1 DESC NULLS LAST",
        ),
        (
            "SELECT d, sum(v) * 100 / sum(sum(v)) OVER () FROM t GROUP BY d ORDER BY 2",
            "SELECT d, sum(v) * 100 / sum(sum(v)) OVER () AS \"?column?\" FROM t GROUP BY d ORDER BY sum(v)",
        ),
        (
            "SELECT d, rank() OVER (ORDER BY sum(v)) FROM t GROUP BY d ORDER BY 2 DESC",
            "SELECT d, rank() OVER (ORDER BY sum(v)) AS rank FROM t GROUP BY d ORDER BY sum(v) DESC",
        ),
        (
            "SELECT DISTINCT sum(v) / 150 FROM t GROUP BY d ORDER BY 1 DESC",
            "SELECT DISTINCT sum(v) / 150 AS \"?column?\" FROM t GROUP BY d ORDER BY \"?column?\" DESC",
        ),
        (
            "SELECT max(v) + 1 FROM t ORDER BY 1",
            "SELECT max(v) + 1 AS \"?column?\" FROM t",
        ),
        (
            "SELECT max(v), upper('a') FROM t GROUP BY d ORDER BY 1",
            "SELECT max(v), upper('a') FROM t GROUP BY d ORDER BY max(v)",
        ),
    ] {
        let (rows, meant) = (run(&session, numbered).await, run(&session, named).await);
        assert_eq!(cells(&rows, 3), cells(&meant, 3), "{numbered}");
        if named.contains("AS ") {
            assert_eq!(cells(&rows, 1), cells(&meant, 1), "{numbered}");
        }
    }
}

/// The values of a table from a line on.
fn cells(table: &str, first: usize) -> Vec<&str> {
    let lines = table.lines().skip(first);
    let lines = lines.filter(|line| line.starts_with('|'));
    lines
        .flat_map(|line| line.split('|').map(str::trim))
        .collect()
}
