//! Aggregates that are computed in their scans give what they give beside them.

use nearfar_sql::engine::{Engine, Session};
use proptest::prelude::*;

use super::support::{far_scans, options, run, same_without, try_run, two_tiers, value};

/// Texts, integers, dates and decimals, with and without nulls; the tables are of several segments' rows.
const COLUMNS: &str = "v AS k, 'text ' || v % 13 AS t, \
     CASE WHEN v % 7 > 0 THEN 'nullable ' || v % 5 END AS tn, (v % 300)::int AS i, \
     CASE WHEN v % 11 > 0 THEN (v % 50 - 25)::smallint END AS s, v * 100000007 AS b, \
     DATE '2024-01-01' + (v % 400)::int AS day, ((v % 1000) / 100.0)::numeric(15, 2) AS d, \
     CASE WHEN v % 3 > 0 THEN (v % 1000)::numeric(12, 4) - 500 END AS dn, \
     (v * 1000000007)::numeric(38, 6) AS wide, v::float8 / 3 AS f, v % 2 = 0 AS flag, NULL::int AS nothing";

async fn fill(session: &Session, rows: usize) {
    let table =
        format!("CREATE TABLE t AS SELECT {COLUMNS} FROM generate_series(1, {rows}) AS s(v)");
    run(session, &table).await;
}

async fn session(rows: usize) -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    fill(&session, rows).await;
    session
}

/// Whether the plan of a query has the operator.
async fn is_in_scan(session: &Session, sql: &str) -> bool {
    let plan = run(session, &format!("EXPLAIN {sql}")).await;
    plan.contains("ScanAggregateExec")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_few_groups_are_in_their_scans() {
    let session = session(40_000).await;
    for sql in [
        "SELECT count(*) FROM t WHERE i < 7",
        "SELECT sum(d * (1 - d)) FROM t",
        "SELECT t, tn, sum(d), sum(dn), avg(d), count(dn), count(*) FROM t GROUP BY t, tn",
        "SELECT i, min(day), max(s), min(d) FROM t WHERE k > 100 GROUP BY i",
        "SELECT day, sum(i), sum(s), sum(b) FROM t GROUP BY day HAVING sum(i) > 3",
        "SELECT s, count(f), count(t), count(1) FROM t GROUP BY s",
        "SELECT DISTINCT t FROM t",
        "SELECT count(DISTINCT i) FROM t",
        "SELECT t, i, sum(d) FROM t GROUP BY ROLLUP (t, i)",
        "SELECT sum(d * (1 - d)), sum(d * (1 - d) * (2 + d)), t FROM t GROUP BY t",
    ] {
        assert!(is_in_scan(&session, sql).await, "{sql}");
    }
    for sql in [
        "SELECT k, count(*) FROM t WHERE f > 1 GROUP BY b, k",
        "SELECT sum(f) FROM t",
        "SELECT sum(wide) FROM t",
        "SELECT sum(i) FILTER (WHERE flag) FROM t",
        "SELECT flag, count(*) FROM t GROUP BY flag",
        "SELECT i + 1, count(*) FROM t GROUP BY i + 1",
        "SELECT string_agg(t, ',' ORDER BY k) FROM t",
    ] {
        assert!(!is_in_scan(&session, sql).await, "{sql}");
    }
    run(&session, "SET scan_aggregates = off").await;
    assert!(!is_in_scan(&session, "SELECT t, sum(d) FROM t GROUP BY t").await);
}

const AGGREGATES: &str = "count(*), count(s), count(t), count(tn), count(nothing), sum(i), sum(s), sum(b), sum(d), sum(dn), \
     avg(d), avg(dn), avg(s), sum(d * (1 - d)), sum(d * dn), sum((1 - d) * (2 + d)), sum(d - dn), \
     min(i), max(i), min(s), max(s), min(day), max(day), min(dn), max(dn), max(d * dn)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_those_of_rows_in_batches() {
    let session = session(60_000).await;
    let all = format!("SELECT t, {AGGREGATES} FROM t GROUP BY t");
    assert!(is_in_scan(&session, &all).await);
    for keys in [
        "t", "tn", "i", "s", "day", "t, tn, s", "tn, day", "i, s", "d",
    ] {
        for condition in [
            "true",
            "k % 3 = 1",
            "i < 20 AND s > 3",
            "k BETWEEN 5 AND 9",
            "k < 0",
        ] {
            let sql = format!(
                "SELECT {keys}, {AGGREGATES} FROM t WHERE {condition} GROUP BY {keys} ORDER BY {keys}"
            );
            same_without(&session, "scan_aggregates", &sql).await;
        }
    }
    for condition in ["true", "s IS NULL", "k < 0", "dn > 1", "tn = 'nullable 2'"] {
        let sql = format!("SELECT {AGGREGATES} FROM t WHERE {condition}");
        same_without(&session, "scan_aggregates", &sql).await;
    }
    let nothing = "SELECT sum(i), count(*), min(day) FROM t WHERE k < 0";
    let nothing = run(&session, nothing).await;
    assert!(
        nothing
            .lines()
            .nth(3)
            .is_some_and(|row| row.replace(' ', "") == "||0||"),
        "{nothing}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_deleted_added_and_changed_are_seen_to() {
    let session = session(40_000).await;
    let sql = format!("SELECT tn, i, {AGGREGATES} FROM t GROUP BY tn, i ORDER BY tn, i");
    let changes = [
        "DELETE FROM t WHERE k % 10 = 3",
        "INSERT INTO t SELECT k + 100000, 'new', NULL, 1000 + i % 3, s, b, day, d, dn, wide, f, flag, nothing FROM t WHERE k < 50",
        "UPDATE t SET s = NULL, tn = 'other', d = -d WHERE k BETWEEN 100 AND 300",
        "INSERT INTO t VALUES (-1, 'one', 'more', -5, 3, 4, DATE '1999-01-01', 1.5, -9999.25, 1, 1, true, 7)",
    ];
    for change in changes {
        run(&session, change).await;
        assert!(is_in_scan(&session, &sql).await);
        same_without(&session, "scan_aggregates", &sql).await;
    }
    run(&session, "BEGIN").await;
    run(&session, "DELETE FROM t WHERE i = 7").await;
    run(&session, "INSERT INTO t SELECT * FROM t WHERE i = 8").await;
    let own = same_without(&session, "scan_aggregates", &sql).await;
    run(&session, "ROLLBACK").await;
    assert_ne!(same_without(&session, "scan_aggregates", &sql).await, own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_columns_are_charged_as_in_batches() {
    let engine = two_tiers();
    let session = engine.session();
    fill(&session, 50_000).await;
    run(&session, "ALTER TABLE t SET TABLESPACE far").await;
    let sql = "SELECT t, sum(d * (1 - d)), count(s) FROM t WHERE i < 200 GROUP BY t ORDER BY t";
    let mut read = Vec::new();
    for setting in ["off", "on"] {
        run(&session, &format!("SET scan_aggregates = {setting}")).await;
        let before = far_scans(&engine).read_bytes;
        run(&session, sql).await;
        read.push(far_scans(&engine).read_bytes - before);
    }
    assert!(read[0] > 0);
    // Counts of a column are of its nulls alone, which are near.
    assert!(read[1] <= read[0], "{read:?}");
    same_without(&session, "scan_aggregates", sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_without_room_are_handed_on() {
    let session = Engine::new(options()).expect("an engine").session();
    let table =
        "CREATE TABLE t AS SELECT v % 60000 AS g, v AS k FROM generate_series(1, 200000) AS s(v)";
    run(&session, table).await;
    let sql = "SELECT count(*), sum(n), sum(s) FROM (SELECT g, count(*) AS n, sum(k) AS s FROM t GROUP BY g) x";
    assert!(is_in_scan(&session, sql).await);
    let all = same_without(&session, "scan_aggregates", sql).await;
    assert!(all.contains("60000"), "{all}");
    for limit in ["2MiB", "4MiB", "8MiB"] {
        run(&session, &format!("SET memory_limit = '{limit}'")).await;
        match try_run(&session, sql).await {
            Ok(within) => assert_eq!(within, all, "{limit}"),
            Err(error) => assert!(error.to_string().contains("memory"), "{limit}: {error}"),
        }
    }
    assert_eq!(run(&session, sql).await, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_of_all_digits() {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE t AS SELECT 9000000000000::bigint AS b, 2147483647 AS i, 9999999999.99::numeric(12, 2) AS d \
         FROM generate_series(1, 2000000) AS s(v)",
    )
    .await;
    let sql = "SELECT sum(b), sum(i), sum(d), sum(d * 1000) FROM t";
    assert!(is_in_scan(&session, sql).await);
    same_without(&session, "scan_aggregates", sql).await;
    assert_eq!(
        value(&session, "SELECT sum(b) FROM t").await,
        "18000000000000000000"
    );
}

/// A column of a table that is made by chance.
fn column() -> impl Strategy<Value = String> {
    let (modulus, nulls) = (1..500_i64, 2..9_i64);
    let kinds = prop_oneof![
        Just("'t' || MOD"),
        Just("(MOD)::int"),
        Just("(MOD - 250)::bigint"),
        Just("(MOD)::numeric(9, 2) / 7"),
        Just("DATE '2000-02-01' + (MOD)::int"),
    ];
    (kinds, modulus, nulls, any::<bool>()).prop_map(|(kind, modulus, nulls, is_nullable)| {
        let value = kind.replace("MOD", &format!("(v * v % {modulus})"));
        match is_nullable {
            true => format!("CASE WHEN v % {nulls} > 0 THEN {value} END"),
            false => value,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn tables_by_chance_have_the_same_groups(
        (one, two, of) in (column(), column(), column()),
        rows in 1..30_000_usize,
        limit in 0..40_000_usize,
        deleted in 2..50_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.expect("a runtime").block_on(async {
            let session = Engine::new(options()).expect("an engine").session();
            let table = format!(
                "CREATE TABLE t AS SELECT v AS k, {one} AS a, {two} AS b, {of} AS c, (v % 1000)::int AS n \
                 FROM generate_series(1, {rows}) AS s(v)"
            );
            run(&session, &table).await;
            run(&session, &format!("DELETE FROM t WHERE k % {deleted} = 1")).await;
            let columns = "count(*), count(c), min(n), max(n), sum(n)";
            for keys in ["a", "b", "a, b"] {
                let sql = format!(
                    "SELECT {keys}, {columns} FROM t WHERE k < {limit} GROUP BY {keys} ORDER BY {keys}"
                );
                same_without(&session, "scan_aggregates", &sql).await;
            }
        });
    }
}
