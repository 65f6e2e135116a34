//! Queries whose expressions take long give others their thread now and then.

use super::support::{run, two_tiers, value};
use nearfar_sql::engine::{Engine, StatementResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Texts of 20 KB, each another one.
const TEXTS: &str = "CREATE TABLE t AS SELECT value AS k, repeat('abcdefgh ', 2200) || value AS s
                     FROM generate_series(1, 150)";

/// Runs a query on one thread, beside a task that does nothing. How long the query took, and the longest
/// that the task waited for the thread.
async fn beside_another(engine: &Arc<Engine>, sql: &str) -> (Duration, Duration) {
    let session = engine.session();
    let mut results = session.execute(sql).await.expect(sql);
    let StatementResult::Rows(rows) = results.remove(0) else {
        panic!("rows")
    };
    let longest = Arc::new(AtomicU64::new(0));
    let gap_ns = Arc::clone(&longest);
    let other = tokio::spawn(async move {
        let mut last = Instant::now();
        loop {
            tokio::task::yield_now().await;
            let now = Instant::now();
            let waited = now.duration_since(last).as_nanos() as u64;
            gap_ns.fetch_max(waited, Ordering::Relaxed);
            last = now;
        }
    });
    let begun = Instant::now();
    rows.collect().await.expect(sql);
    let time = begun.elapsed();
    other.abort();
    (time, Duration::from_nanos(longest.load(Ordering::Relaxed)))
}

#[test]
fn patterns_and_functions_of_long_texts_leave_the_thread_to_others() {
    // By default, who has yielded waits for dozens of turns of others.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.event_interval(1).enable_all().build();
    runtime.expect("a thread").block_on(others_get_the_thread());
}

async fn others_get_the_thread() {
    let engine = two_tiers();
    run(&engine.session(), TEXTS).await;
    for sql in [
        // In the scan, in a filter, in a projection and in an aggregate.
        "SELECT count(*) FROM t WHERE s ~ '(a|b|c)+d.*[x-z]{3}$'",
        "SELECT count(*) FROM t WHERE s LIKE '%h_a%b%d_f%xyz'",
        "SELECT count(*) FROM (SELECT s, row_number() OVER () AS n FROM t) AS u
         WHERE s ~ '(a|b|c)+d.*[x-z]{3}$' AND n > 0",
        "SELECT length(regexp_replace(s, '(a|b)c', 'x', 'g')) FROM t",
        "SELECT sum(length(regexp_replace(s, '(a|b)c', 'x', 'g'))) FROM t",
        "SELECT max(regexp_replace(s, '(a|b)c', 'x', 'g')) FROM t",
    ] {
        let (time, waited) = beside_another(&engine, sql).await;
        // In one piece they would keep the thread for nearly all of the time.
        let is_quick = time < Duration::from_millis(100);
        assert!(
            is_quick || waited * 3 < time,
            "{sql}: {waited:?} of {time:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_change_no_result() {
    let session = two_tiers().session();
    let rows = "CREATE TABLE u AS SELECT value AS k, repeat('x', value % 50) || value AS s
                FROM generate_series(1, 40000)";
    run(&session, rows).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM u WHERE s ~ '^x*12+3?$'", "7"),
        ("SELECT count(DISTINCT reverse(s)) FROM u", "40000"),
        (
            "SELECT min(k) FROM (SELECT k, substr(s, 1, 1) AS c FROM u) AS v WHERE c <> 'x'",
            "50",
        ),
        (
            "SELECT sum(length(upper(s))) - sum(k % 50 + length(k::text)) FROM u",
            "0",
        ),
    ] {
        assert_eq!(value(&session, sql).await, expected, "{sql}");
    }
    let ordered = "SELECT count(*) FROM (SELECT k, lag(k) OVER (ORDER BY k) AS before
                   FROM (SELECT k FROM u WHERE s LIKE '%1_')) AS v WHERE before > k";
    assert_eq!(value(&session, ordered).await, "0");
}
