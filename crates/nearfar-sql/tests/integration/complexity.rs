//! Statements whose parts stand within each other: answered, or refused, by what they take to plan.

use super::support::{error, run, two_tiers, value};

fn around(form: &str, times: usize, inner: &str) -> String {
    (0..times).fold(inner.to_owned(), |inner, _| form.replace("{}", &inner))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_within_queries_are_answered_or_refused_whatever_the_stack() {
    let session = two_tiers().session();
    for form in [
        "SELECT * FROM ({}) AS q",
        "SELECT x FROM ({}) AS q WHERE x > 0 GROUP BY x",
    ] {
        let deep = around(form, 200, "SELECT 1 AS x");
        assert_eq!(value(&session, &deep).await, "1", "{form}");
        let deeper = around(form, 1_000, "SELECT 1 AS x");
        assert!(error(&session, &deeper).await.contains("too complex"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_by_other_names_are_planned_as_fast_as_by_their_own() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t AS SELECT 'abc' AS s").await;
    // Each would double what it takes, if it did at all.
    let nested = around("pow({}, 1)", 40, "1.0::float8");
    assert_eq!(value(&session, &format!("SELECT {nested}")).await, "1.0");
    let nested = around("substr({}, 1)", 40, "s");
    let sql = format!("SELECT {nested} FROM t");
    assert_eq!(value(&session, &sql).await, "abc");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_what_is_doubled_again_and_again_are_not_written_out() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t AS VALUES (1), (0)").await;
    let doubled = around(
        "SELECT x + x AS x FROM ({}) AS q",
        25,
        "SELECT column1 AS x FROM t",
    );
    let sql = format!("SELECT * FROM ({doubled}) AS q WHERE x > 5");
    assert_eq!(value(&session, &sql).await, "33554432");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operands_that_are_repeated_too_often_are_refused() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    for form in [
        "coalesce({}, 1)",
        "CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 2 END",
        "CASE WHEN ({}, 1) < (1, 2) THEN 1 ELSE 2 END",
        "CASE WHEN {} IN (SELECT a FROM t) THEN 1 ELSE 2 END",
    ] {
        let few = format!("SELECT {} FROM t", around(form, 5, "a"));
        assert_eq!(value(&session, &few).await, "1", "{form}");
        let many = format!("SELECT {} FROM t", around(form, 40, "a"));
        assert!(
            error(&session, &many).await.contains("too complex"),
            "{form}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cubes_have_at_most_twelve_keys() {
    let session = two_tiers().session();
    let cube = |beside: &str, keys: usize| {
        let columns: Vec<String> = (0..keys).map(|key| format!("c{key}")).collect();
        let ones: Vec<String> = columns
            .iter()
            .map(|column| format!("1 AS {column}"))
            .collect();
        format!(
            "SELECT count(*) FROM (SELECT count(*) FROM (SELECT {}) AS t GROUP BY {beside} CUBE ({})) AS q",
            ones.join(", "),
            columns.join(", ")
        )
    };
    assert_eq!(value(&session, &cube("", 12)).await, "4096");
    for keys in [13, 24, 40, 100] {
        for beside in ["", "c0,"] {
            let refused = error(&session, &cube(beside, keys)).await;
            assert!(refused.contains("too complex"), "{keys}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_of_rows_are_not_too_complex() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t AS SELECT 7 AS a, 8 AS b").await;
    let rows: Vec<String> = (0..2_000).map(|i| format!("({i}, {})", i + 1)).collect();
    let sql = format!(
        "SELECT count(*) FROM t WHERE (a, b) IN ({})",
        rows.join(", ")
    );
    assert_eq!(value(&session, &sql).await, "1");
}
