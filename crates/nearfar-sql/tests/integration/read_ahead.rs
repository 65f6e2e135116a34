//! Far columns that are brought near ahead of the scans that read them.

use super::support::{
    error, eventually_left, far_scans, modelled, region_bytes, run, same_beside_moves,
};
use futures::StreamExt;
use nearfar_memory::Budgets;
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_topology::{Known, Profile};
use std::sync::Arc;

/// Rows of the larger parts of the table, of several stretches, and of a small one.
const PARTS: [u64; 4] = [300_000, 150_001, 1_000, 70_000];

const QUERIES: [&str; 9] = [
    "SELECT count(*), sum(v), sum(n), min(d), max(s), count(b), sum(k) FROM t",
    "SELECT d, b, count(*), sum(v), count(n) FROM t GROUP BY d, b ORDER BY d, b",
    "SELECT sum(v), count(*) FROM t WHERE v BETWEEN 100 AND 60000 AND d <> 'kind 3'",
    "SELECT k, v, n FROM t WHERE v BETWEEN 100 AND 140 ORDER BY k LIMIT 50",
    "SELECT count(*), sum(v) FROM t WHERE s LIKE '%77%' AND n IS NULL",
    "SELECT count(*), sum(a.v), sum(b.n) FROM t a JOIN t b ON a.k = b.v WHERE b.n = 7",
    "SELECT sum(v) FROM t WHERE k BETWEEN 200000 AND 330000",
    "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY d ORDER BY k) AS r FROM t) AS w",
    "SELECT k, d FROM t ORDER BY v DESC, k LIMIT 5",
];

/// A modelled machine whose cores read 38 GB/s of far memory, and its engines so much, if that is anything.
fn machine(engine_bytes_per_s: f64, budgets: Budgets) -> Arc<Engine> {
    let mut profile = Profile::builtin("cxl-blades-1").expect("a built-in profile");
    profile.copy_engine_bandwidth_bytes_per_s = match engine_bytes_per_s > 0.0 {
        true => Known::Value(engine_bytes_per_s),
        false => Known::unavailable("it has none"),
    };
    modelled(profile, budgets)
}

/// Makes a far table `t` of several parts: `k` ascends, `v` does not, `n` has nulls, `d` few texts, `b` is true or not, and
/// `s` has many texts. Some rows are deleted.
async fn fill(session: &Session) {
    run(session, "SET merge_rows = never").await;
    let columns = "value AS k, value * 7919 % 100003 AS v, nullif(value % 11, 3) AS n, \
                   'kind ' || (value % 9) AS d, value % 5 < 2 AS b, \
                   'text ' || (value * 31 % 1000003) AS s";
    let mut first = 1;
    for rows in PARTS {
        let last = first + rows - 1;
        let rows = format!("SELECT {columns} FROM generate_series({first}, {last})");
        let statement = match first {
            1 => format!("CREATE TABLE t TABLESPACE far AS {rows}"),
            _ => format!("INSERT INTO t {rows}"),
        };
        run(session, &statement).await;
        first = last + 1;
    }
    run(session, "DELETE FROM t WHERE v % 17 = 5").await;
}

/// Bytes that a query brings near ahead, as it is shown.
async fn ahead(session: &Session, sql: &str) -> u64 {
    let shown = run(session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let metrics = shown.split("bytes_ahead_far=").skip(1);
    let bytes = metrics.filter_map(|rest| rest.split([',', ']']).next());
    bytes.map(shown_bytes).sum()
}

/// A number as metrics are shown: `12`, `3.4 K` or `1.2 M`.
fn shown_bytes(text: &str) -> u64 {
    let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let number: f64 = number.parse().expect("a number");
    let scale = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        _ => panic!("{text}"),
    };
    (number * scale) as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_whatever_reads_ahead() {
    let engine = machine(30e9, Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let empty = region_bytes(&engine);
    for sql in QUERIES {
        run(&session, "SET read_ahead = off").await;
        assert_eq!(ahead(&session, sql).await, 0, "{sql}");
        let alone = run(&session, sql).await;
        for by in ["auto", "cached", "non-temporal"] {
            run(&session, &format!("SET read_ahead = '{by}'")).await;
            assert_eq!(run(&session, sql).await, alone, "{by}: {sql}");
        }
    }
    for by in ["auto", "cached"] {
        run(&session, &format!("SET read_ahead = '{by}'")).await;
        let brought = ahead(&session, QUERIES[0]).await;
        assert!(brought > 1_000_000, "{by}: {brought} bytes");
    }
    // Near memory for copies is given back.
    eventually_left(empty, || region_bytes(&engine)).await;
}

#[tokio::test]
async fn what_is_read_ahead_is_read_once() {
    let engine = machine(30e9, Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let mut read = Vec::new();
    for by in ["off", "auto", "cached"] {
        run(&session, &format!("SET read_ahead = '{by}'")).await;
        let before = far_scans(&engine).read_bytes;
        run(&session, "SELECT sum(v), sum(n), min(d) FROM t").await;
        read.push(far_scans(&engine).read_bytes - before);
    }
    // Whole stretches are brought near, of which a scan by itself leaves out lines of deleted rows.
    let most = read[0] + read[0] / 20;
    assert!(read[1] <= most && read[2] <= most, "{read:?}");
    assert_eq!(read[1], read[2]);
}

#[tokio::test]
async fn machines_without_fast_engines_read_by_themselves() {
    for engine_bytes_per_s in [0.0, 20e9] {
        let session = machine(engine_bytes_per_s, Budgets::new()).session();
        fill(&session).await;
        assert_eq!(ahead(&session, QUERIES[0]).await, 0);
        run(&session, "SET read_ahead = cached").await;
        assert!(ahead(&session, QUERIES[0]).await > 1_000_000);
    }
}

#[tokio::test]
async fn what_a_machine_does_not_have_is_refused_with_the_reason() {
    let session = machine(30e9, Budgets::new()).session();
    let refused = error(&session, "SET read_ahead = sideways").await;
    assert!(refused.contains("off, auto, cached"), "{refused}");
    if nearfar_kernels::copy::CopyMethod::Idxd.check().is_err() {
        let refused = error(&session, "SET read_ahead = idxd").await;
        assert!(refused.contains("idxd are unavailable"), "{refused}");
    }
    for (set, shown) in [("Cached", "cached"), ("on", "auto"), ("false", "off")] {
        run(&session, &format!("SET read_ahead = {set}")).await;
        assert!(run(&session, "SHOW read_ahead").await.contains(shown));
    }
    run(&session, "RESET read_ahead").await;
    assert!(run(&session, "SHOW read_ahead").await.contains("auto"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_without_near_memory_read_by_themselves() {
    let engine = machine(30e9, Budgets::new().with("near", 96 << 20));
    let session = engine.session();
    fill(&session).await;
    let expected = run(&session, QUERIES[0]).await;
    run(&session, "SET read_ahead = cached").await;
    // A part of the budget is for copies: 3 MiB, which some columns take.
    assert!(ahead(&session, QUERIES[0]).await > 0);
    assert_eq!(run(&session, QUERIES[0]).await, expected);
    let engine = machine(30e9, Budgets::new().with("near", 24 << 20));
    let session = engine.session();
    fill(&session).await;
    run(&session, "SET read_ahead = cached").await;
    assert_eq!(ahead(&session, QUERIES[0]).await, 0);
    assert_eq!(run(&session, QUERIES[0]).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_that_end_early_leave_nothing_behind() {
    let engine = machine(30e9, Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let empty = region_bytes(&engine);
    for by in ["auto", "cached"] {
        run(&session, &format!("SET read_ahead = '{by}'")).await;
        for batches in 0..4 {
            let results = session.execute("SELECT v, n, d FROM t").await;
            let Some(StatementResult::Rows(mut rows)) = results.expect("rows").pop() else {
                panic!("no rows");
            };
            for _ in 0..batches {
                rows.next().await.expect("a batch").expect("rows");
            }
        }
        eventually_left(empty, || region_bytes(&engine)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_the_same_beside_others_and_moves() {
    let engine = machine(30e9, Budgets::new());
    let session = engine.session();
    fill(&session).await;
    same_beside_moves(&engine, &session, (&QUERIES, 2), |turn, asker| {
        let by = ["cached", "auto", "off", "non-temporal"][(turn + asker) % 4];
        Some(format!("SET read_ahead = '{by}'"))
    })
    .await;
}
