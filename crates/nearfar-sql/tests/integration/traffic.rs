//! What is moved to and from far tiers: counted, and limited.

use super::support::{error, far_bytes, options, run, try_run, two_tiers, value};
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_table::traffic::{Moved, Task};
use nearfar_topology::Profile;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A statement that is given up has ended within.
const PROMPTLY: Duration = Duration::from_secs(2);

/// Sixteen bytes a row, 3.2 MB, in two columns.
const T: &str = "CREATE TABLE t TABLESPACE far AS
                 SELECT value * 2654435761 AS k, value * 40503 % 1000000007 * 4294967296 AS v
                 FROM generate_series(1, 200000)";

/// What was moved to and from the far tier.
fn moved(engine: &Engine, task: Task) -> Moved {
    let far = engine.tier("far").expect("a far tier");
    engine.traffic().moved(far, task)
}

/// Waits until nobody waits for a turn.
async fn nobody_waits(engine: &Engine) {
    let begun = Instant::now();
    while engine.traffic().waiting() > 0 {
        assert!(begun.elapsed() < PROMPTLY, "somebody still waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs a statement until it waits for its turn, gives it up, and sees that nothing of it waits on.
async fn give_up_waiting(engine: &Arc<Engine>, sql: &'static str) {
    let session = engine.session();
    let task = tokio::spawn(async move { try_run(&session, sql).await.map(drop) });
    let begun = Instant::now();
    while engine.traffic().waiting() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{sql}: no wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task.abort();
    nobody_waits(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_under_a_limit() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(
        &session,
        "CREATE TABLE few TABLESPACE far AS SELECT k FROM t LIMIT 100",
    )
    .await;
    let queries = [
        "SELECT count(*), sum(k), min(v) FROM t",
        "SELECT k % 7 AS g, count(*), max(v) FROM t WHERE v % 3 = 0 GROUP BY g ORDER BY g",
        "SELECT t.k, t.v FROM t JOIN few ON t.k = few.k ORDER BY t.k LIMIT 5",
        "SELECT k FROM t ORDER BY v DESC LIMIT 3",
    ];
    let mut free = Vec::new();
    for query in queries {
        free.push(run(&session, query).await);
    }
    assert_eq!(moved(&engine, Task::Scan).waits, 0);
    run(&session, "SET far_bandwidth = '20MB/s'").await;
    for (query, free) in queries.into_iter().zip(free) {
        assert_eq!(run(&session, query).await, free, "{query}");
    }
    assert!(moved(&engine, Task::Scan).waits > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_takes_as_long_as_its_bytes() {
    const BYTES_PER_S: u64 = 8_000_000;
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(&session, "SET far_bandwidth = '8MB/s'").await;
    // One step of each of two threads is not waited for, and a burst of 20 ms is free.
    let free_bytes = 2 * 16 * 8192 + BYTES_PER_S / 50;
    let before = moved(&engine, Task::Scan);
    let begun = Instant::now();
    run(&session, "SELECT sum(k + v) FROM t").await;
    let took = begun.elapsed();
    let after = moved(&engine, Task::Scan);
    let bytes = after.read_bytes - before.read_bytes;
    assert!(bytes >= 3_200_000, "{bytes}");
    let least_s = (bytes - free_bytes) as f64 / BYTES_PER_S as f64;
    assert!(took.as_secs_f64() >= least_s, "{took:?} for {bytes} bytes");
    assert!(after.waits > before.waits && after.wait > before.wait);
    // A share of the limit is less.
    run(&session, "SET far_bandwidth_percent = 50").await;
    let begun = Instant::now();
    run(&session, "SELECT sum(k + v) FROM t").await;
    let least_s = (bytes - free_bytes) as f64 / (BYTES_PER_S / 2) as f64;
    assert!(begun.elapsed().as_secs_f64() >= least_s);
    // Without accesses counted, it is the same.
    run(&session, "SET count_accesses = off").await;
    let begun = Instant::now();
    run(&session, "SELECT sum(k + v) FROM t").await;
    assert!(begun.elapsed().as_secs_f64() >= least_s);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_point_query_beside_a_slow_scan_does_not_wait() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(&session, "CREATE INDEX by_k ON t (k)").await;
    run(&session, "SET far_bandwidth = '1MiB/s'").await;
    let scanning = engine.session();
    let long = "SELECT sum(a) FROM (SELECT k + v AS a FROM t UNION ALL SELECT k - v FROM t
                UNION ALL SELECT v - k FROM t UNION ALL SELECT k + 2 * v FROM t)";
    let scan = tokio::spawn(async move { try_run(&scanning, long).await });
    while engine.traffic().waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let by_key = "SELECT v FROM t WHERE k = 2654435761 * 77";
    run(&session, &format!("PREPARE p AS {by_key}")).await;
    let expected = value(&session, by_key).await;
    for _ in 0..30 {
        assert_eq!(value(&session, "EXECUTE p").await, expected);
        assert_eq!(value(&session, by_key).await, expected);
    }
    let point = moved(&engine, Task::Point);
    assert!(point.read_bytes > 0);
    assert_eq!((point.waits, point.wait), (0, Duration::ZERO));
    let before = moved(&engine, Task::Scan);
    assert!(before.waits > 0);
    assert!(!scan.is_finished(), "the scan was still waiting");
    scan.abort();
    nobody_waits(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_waits_no_longer() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(&session, "SET far_bandwidth = '1MiB/s'").await;
    for sql in [
        "SELECT sum(k + v) FROM t",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.v",
        "CREATE TABLE other TABLESPACE far AS
         SELECT value * 2654435761 AS k FROM generate_series(1, 2000000)",
        "ALTER TABLE t SET TABLESPACE near",
        "DELETE FROM t WHERE k % 1000 = 1",
    ] {
        give_up_waiting(&engine, sql).await;
    }
    // Who waits is told when there is no limit any more.
    let waiting = engine.session();
    let scan = tokio::spawn(async move { value(&waiting, "SELECT sum(k + v) FROM t").await });
    while engine.traffic().waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run(&session, "SET far_bandwidth = unlimited").await;
    let sum = tokio::time::timeout(PROMPTLY, scan).await;
    let sum = sum.expect("in time").expect("no panic");
    assert_eq!(sum, value(&session, "SELECT sum(k + v) FROM t").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_moves_merges_and_spills_are_limited() {
    let engine = two_tiers();
    let session = engine.session();
    run(
        &session,
        "SET far_bandwidth = '8MB/s'; SET merge_rows = never",
    )
    .await;
    run(&session, T).await;
    let load = moved(&engine, Task::Load);
    assert!(
        load.written_bytes >= 3_200_000 && load.waits > 0,
        "{load:?}"
    );
    run(&session, "ALTER TABLE t SET TABLESPACE near").await;
    run(&session, "ALTER TABLE t SET TABLESPACE far").await;
    let moves = moved(&engine, Task::Move);
    assert_eq!(moves.read_bytes, moves.written_bytes);
    assert!(
        moves.read_bytes >= 3_200_000 && moves.waits > 0,
        "{moves:?}"
    );
    run(&session, "DELETE FROM t WHERE k % 4 = 1").await;
    run(&session, "CALL nearfar.merge('t')").await;
    let merge = moved(&engine, Task::Merge);
    assert!(merge.read_bytes >= 3_200_000, "{merge:?}");
    assert!(merge.written_bytes > 0 && merge.written_bytes < merge.read_bytes);
    assert!(merge.waits > 0);
    let texts = "CREATE TABLE u AS SELECT value AS k, 'a string ' || value AS s
                 FROM generate_series(1, 400000)";
    let sorted = "SELECT count(*), sum(r * k) FROM
                  (SELECT k, row_number() OVER (ORDER BY s, k) AS r FROM u)";
    run(
        &session,
        "SET far_bandwidth = '50MB/s'; SET memory_limit = '24MiB'",
    )
    .await;
    run(&session, texts).await;
    run(&session, sorted).await;
    let spill = moved(&engine, Task::Spill);
    assert!(spill.written_bytes > 0 && spill.waits > 0, "{spill:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_traffic_adds_up() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    for _ in 0..2 {
        let other = engine.session();
        run(&other, "SELECT sum(k) FROM t").await;
    }
    run(&session, "SELECT sum(v) FROM t").await;
    let far = engine.tier("far").expect("a far tier");
    let read = "SELECT sum(read_bytes) FROM nearfar.traffic
                WHERE tier = 'far' AND task IN ('scan', 'point')";
    let bytes = engine.costs().bytes_read(far);
    assert!(bytes >= 3 * 1_600_000, "{bytes}");
    assert_eq!(value(&session, read).await, bytes.to_string());
    // Sessions that have ended have one row together.
    let ended = "SELECT read_bytes FROM nearfar.traffic
                 WHERE tier = 'far' AND task = 'scan' AND session IS NULL";
    let own = "SELECT read_bytes FROM nearfar.traffic
               WHERE tier = 'far' AND task = 'scan' AND session IS NOT NULL";
    let number = |text: String| text.parse::<u64>().expect("a number");
    let ended = number(value(&session, ended).await);
    assert_eq!(ended + number(value(&session, own).await), bytes);
    let written = "SELECT sum(written_bytes) FROM nearfar.traffic WHERE task = 'load'";
    let written = number(value(&session, written).await);
    // Regions are of whole pages.
    let beyond = far_bytes(&engine) - written;
    assert!(beyond < 8 * 4096, "{beyond}");
    let waits = "SELECT sum(waits) + sum(waited_s) FROM nearfar.traffic";
    assert_eq!(value(&session, waits).await, "0.0");
    // What was moved within the last seconds has a rate.
    let rate = "SELECT max(read_gb_per_s) > 0 FROM nearfar.traffic WHERE tier = 'far'";
    assert_eq!(value(&session, rate).await, "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_at_first_is_what_reset_gives_back() {
    let profile = Profile::builtin("cxl-blades-4").expect("a built-in profile");
    let engine = Engine::new(EngineOptions {
        profile: Some(profile),
        far_bandwidth_bytes_per_s: Some(3_000_000),
        ..options()
    });
    let session = engine.expect("an engine").session();
    let shown = async |session: &Session| value(session, "SHOW far_bandwidth").await;
    assert!(shown(&session).await.ends_with("3000000B/s"));
    run(&session, "SET far_bandwidth = '1.5GiB/s'").await;
    assert!(shown(&session).await.ends_with("1610612736B/s"));
    run(&session, "RESET far_bandwidth").await;
    assert!(shown(&session).await.ends_with("3000000B/s"));
    run(&session, "SET far_bandwidth = unlimited").await;
    assert!(shown(&session).await.ends_with("unlimited"));
    let told = error(&session, "SET far_bandwidth = '2GB'").await;
    assert!(
        told.contains("far_bandwidth") && told.contains("2GB/s"),
        "{told}"
    );
    assert!(told.contains("or unlimited"), "{told}");
    let told = error(&session, "SET far_bandwidth_percent = 0").await;
    assert!(
        told.contains("far_bandwidth_percent") && told.contains("from 1 to 100"),
        "{told}"
    );
}
