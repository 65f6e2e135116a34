//! Work that is given up leaves nothing behind.

use super::support::{eventually_empty, far_bytes, region_bytes, run, two_tiers, value};
use futures::StreamExt;
use nearfar_sql::engine::{Session, StatementResult};
use std::time::{Duration, Instant};

const T: &str = "CREATE TABLE t AS SELECT value AS k, 'row ' || value AS s
                 FROM generate_series(1, 50000)";
/// So many rows that no test waits for them.
const ENDLESS: &str = "SELECT a.a AS k, 'row ' || a.a AS s
                       FROM generate_series(1, 100000000) a";

/// Runs a statement for a while and gives it up.
async fn give_up(session: &Session, sql: &str) {
    let begun = Instant::now();
    let ended = tokio::time::timeout(Duration::from_millis(300), session.execute(sql)).await;
    assert!(ended.is_err(), "{sql} ended by itself: {ended:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{sql} was not given up promptly"
    );
}

async fn no_query_memory(session: &Session) {
    // Its last texts are the session's.
    run(session, "DISCARD ALL").await;
    let engine = session.engine();
    for _ in 0..6_000 {
        if engine.query_memory().used_bytes() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!(
        "{} bytes are still held",
        engine.query_memory().used_bytes()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_ends_its_query() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    for sql in [
        "SELECT a.s FROM t a, t b WHERE a.k + b.k > 0",
        "SELECT a.s, count(*) FROM t a, t b WHERE a.k + b.k > 0 GROUP BY a.s",
        "SELECT count(*) FROM t a, t b WHERE a.k + b.k > 0",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 3000) a, t b, t c WHERE a.k + b.k < 0",
        "SELECT a.k FROM t a, t b ORDER BY a.s, b.s",
        "SELECT count(*) FROM t a JOIN t b ON a.k % 200 = b.k % 200 AND a.s <> b.s",
    ] {
        let StatementResult::Rows(mut rows) = session.execute(sql).await.expect(sql).remove(0)
        else {
            panic!("rows")
        };
        let _ = tokio::time::timeout(Duration::from_millis(100), rows.next()).await;
        let begun = Instant::now();
        drop(rows);
        assert!(begun.elapsed() < Duration::from_secs(10), "{sql}");
        no_query_memory(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_given_up_leaves_no_table_and_no_region() {
    let engine = two_tiers();
    let session = engine.session();
    give_up(
        &session,
        &format!("CREATE TABLE t TABLESPACE far AS {ENDLESS}"),
    )
    .await;
    eventually_empty(&engine).await;
    no_query_memory(&session).await;
    assert!(session.loading().is_none());
    assert_eq!(
        value(&session, "SELECT count(*) FROM nearfar.tables").await,
        "0"
    );
    assert_eq!(
        run(&session, "CREATE TABLE t AS SELECT 1 AS a").await,
        "SELECT 1"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_is_given_up_adds_nothing() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    let before = region_bytes(&engine);
    give_up(&session, &format!("INSERT INTO t {ENDLESS}")).await;
    for _ in 0..6_000 {
        if region_bytes(&engine) == before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(region_bytes(&engine), before);
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "50000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_is_given_up_leaves_the_old_table() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    give_up(&session, &format!("CREATE OR REPLACE TABLE t AS {ENDLESS}")).await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "50000");
    run(&session, "DROP TABLE t").await;
    eventually_empty(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_show_how_far_they_have_come() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (k BIGINT, s VARCHAR)").await;
    for statement in ["CREATE OR REPLACE TABLE t AS", "INSERT INTO t"] {
        shows_progress(&session, format!("{statement} {ENDLESS}")).await;
    }
}

async fn shows_progress(session: &Session, statement: String) {
    let load = session.clone();
    let task = tokio::spawn(async move { load.execute(&statement).await.map(drop) });
    let mut seen = None;
    for _ in 0..6_000 {
        seen = session.loading().filter(|loading| loading.rows() > 0);
        if seen.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task.abort();
    let loading = seen.expect("a load under way");
    assert_eq!(loading.table, "t");
    assert!(loading.bytes() > loading.rows());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_given_up_leaves_a_whole_table() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    let expected = run(&session, "SELECT sum(k), min(s), max(s) FROM t").await;
    for _ in 0..10 {
        let alter = session.execute("ALTER TABLE t SET TABLESPACE far");
        let _ = tokio::time::timeout(Duration::from_micros(50), alter).await;
        assert_eq!(
            run(&session, "SELECT sum(k), min(s), max(s) FROM t").await,
            expected
        );
        run(&session, "ALTER TABLE t SET TABLESPACE near").await;
    }
    // A move that had been given up may have one column under way.
    for _ in 0..1_000 {
        run(&session, "ALTER TABLE t SET TABLESPACE near").await;
        if far_bytes(&engine) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(far_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleep_is_waited_for_and_given_up() {
    let session = two_tiers().session();
    let begun = Instant::now();
    let slept = "SELECT count(pg_sleep(v)) FROM (VALUES (0.1), (NULL), (-5), (0.1)) AS t (v)";
    assert_eq!(value(&session, slept).await, "3");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    for sql in ["SELECT pg_sleep(3600)", "SELECT pg_sleep(1e300)"] {
        let begun = Instant::now();
        let slept = tokio::time::timeout(Duration::from_millis(100), value(&session, sql)).await;
        assert!(
            slept.is_err() && begun.elapsed() < Duration::from_secs(10),
            "{sql}"
        );
    }
}
