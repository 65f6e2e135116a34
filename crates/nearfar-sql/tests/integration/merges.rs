//! Merges change no answer, and leave no memory behind.

use super::support::{
    error, eventually_empty, far_bytes, options, region_bytes, run, two_tiers, two_tiers_with,
    value,
};
use futures::StreamExt;
use nearfar_memory::Budgets;
use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};
use nearfar_topology::{Known, Profile};
use std::sync::Arc;
use std::time::{Duration, Instant};

const T: &str = "CREATE TABLE t TABLESPACE far AS
                 SELECT value AS k, value % 10 AS v, 'row ' || value AS s
                 FROM generate_series(1, 100000)";

/// Waits for merges in the background.
async fn until(engine: &Arc<Engine>, sql: &str, wanted: &str) {
    let session = engine.session();
    for _ in 0..6_000 {
        if value(&session, sql).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{sql} gives {}", value(&session, sql).await);
}

const STATE: &str = "SELECT segments || ' ' || rows || ' ' || delta_rows || ' ' || deleted_rows
                     || ' ' || merges FROM nearfar.tables WHERE table_name = 't'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_becomes_main_storage_where_the_table_is() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(&session, "DELETE FROM t WHERE k % 3 = 0").await;
    for row in 0..50 {
        run(
            &session,
            &format!("INSERT INTO t VALUES ({}, 3, 'new')", 200_000 + row),
        )
        .await;
    }
    assert_eq!(value(&session, STATE).await, "2 66717 50 33333 0");
    let answers = "SELECT count(*) || ' ' || sum(k) || ' ' || sum(v) || ' ' || max(s) FROM t";
    let (before, read) = (
        value(&session, answers).await,
        "SELECT sum(total) FROM nearfar.column_access",
    );
    let counted = value(&session, read).await;
    assert_eq!(
        run(&session, "CALL nearfar.merge('t')").await,
        "MERGE 66717"
    );
    assert_eq!(value(&session, read).await, counted);
    assert_eq!(value(&session, STATE).await, "1 66717 0 0 1");
    assert_eq!(value(&session, answers).await, before);
    assert_eq!(region_bytes(&engine), far_bytes(&engine));
    assert_eq!(run(&session, "CALL nearfar.merge('t')").await, "MERGE 0");
    assert_eq!(value(&session, STATE).await, "1 66717 0 0 1");
    let missing = error(&session, "CALL nearfar.merge('u')").await;
    assert!(missing.contains("table `u` does not exist"), "{missing}");
    run(&session, "DELETE FROM t").await;
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_inserts_are_put_together() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "CREATE TABLE t (k BIGINT, s VARCHAR)").await;
    for row in 0..300 {
        run(
            &session,
            &format!("INSERT INTO t VALUES ({row}, 'text number {row}')"),
        )
        .await;
    }
    let parts = "SELECT count(DISTINCT segment) FROM nearfar.segments WHERE storage = 'delta'";
    let parts: u64 = value(&session, parts).await.parse().expect("a number");
    assert!(parts <= 10, "{parts} parts");
    assert_eq!(value(&session, STATE).await, "0 300 300 0 0");
    run(&session, "DELETE FROM t WHERE k % 7 = 3").await;
    let rows = "SELECT count(*) || ' ' || sum(k) FROM t WHERE s = 'text number ' || k";
    assert_eq!(value(&session, rows).await, "257 38400");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_keep_what_they_began_with_and_then_let_go() {
    let engine = two_tiers();
    let (reader, writer) = (engine.session(), engine.session());
    run(&writer, T).await;
    run(
        &writer,
        "INSERT INTO t SELECT k + 100000, v, s FROM t LIMIT 30000",
    )
    .await;
    run(&reader, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    let answers = "SELECT count(*) || ' ' || sum(k) || ' ' || sum(v) FROM t";
    let before = value(&reader, answers).await;
    let scan = reader
        .execute("SELECT k FROM t")
        .await
        .expect("a scan")
        .remove(0);
    let StatementResult::Rows(mut rows) = scan else {
        panic!("rows")
    };
    let mut seen = rows
        .next()
        .await
        .expect("rows")
        .expect("a batch")
        .num_rows();
    for round in 0..3 {
        run(&writer, &format!("DELETE FROM t WHERE k % 5 = {round}")).await;
        run(
            &writer,
            "INSERT INTO t SELECT k + 500000, v + 1, s FROM t LIMIT 10000",
        )
        .await;
        run(&writer, "CALL nearfar.merge('t')").await;
        assert_eq!(value(&reader, answers).await, before);
    }
    while let Some(batch) = rows.next().await {
        seen += batch.expect("a batch").num_rows();
    }
    assert_eq!(seen, 130_000);
    drop(rows);
    let held = region_bytes(&engine);
    run(&reader, "COMMIT").await;
    assert!(region_bytes(&engine) < held);
    // Just the table is left, by the ledger.
    let bytes = "SELECT sum(bytes) FROM nearfar.segments";
    let rows: u64 = value(&writer, bytes).await.parse().expect("bytes");
    assert!(region_bytes(&engine) >= rows && region_bytes(&engine) < rows + (64 << 10));
    run(&writer, "DROP TABLE t").await;
    eventually_empty(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_reader_keeps_one_version_however_many_merges_follow() {
    let engine = two_tiers();
    let (reader, writer) = (engine.session(), engine.session());
    run(&writer, T).await;
    let old = region_bytes(&engine);
    run(&reader, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    let answers = "SELECT count(*) || ' ' || sum(k) || ' ' || sum(v) FROM t";
    let before = value(&reader, answers).await;
    for round in 0..6 {
        run(
            &writer,
            &format!("UPDATE t SET v = v + 1 WHERE k % 6 = {round}"),
        )
        .await;
        run(&writer, "CALL nearfar.merge('t')").await;
        // What the reader sees, and what was merged last: nothing of the rounds between.
        let bytes = "SELECT sum(bytes) FROM nearfar.segments";
        let new: u64 = value(&writer, bytes).await.parse().expect("bytes");
        let held = region_bytes(&engine);
        assert!(
            held <= old + new + (64 << 10),
            "round {round}: {held} > {old} + {new}"
        );
        assert_eq!(value(&reader, answers).await, before);
    }
    run(&reader, "COMMIT").await;
    assert_ne!(value(&reader, answers).await, before);
    run(&writer, "DROP TABLE t").await;
    eventually_empty(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_begin_by_themselves() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, &format!("{T}; SET merge_rows = 1000")).await;
    assert_eq!(
        value(&engine.session(), "SHOW merge_rows").await,
        "nearfar.merge_rows | 1000"
    );
    run(
        &session,
        "INSERT INTO t SELECT value, 1, 'x' FROM generate_series(1, 1500)",
    )
    .await;
    until(&engine, STATE, "1 101500 0 0 1").await;
    run(&session, "DELETE FROM t WHERE k % 5 = 0").await;
    until(&engine, STATE, "1 81200 0 0 2").await;
    run(
        &session,
        "SET merge_rows = never; SET merge_bytes = '100KiB'",
    )
    .await;
    run(
        &session,
        "INSERT INTO t SELECT value, 1, 'x' FROM generate_series(1, 5000)",
    )
    .await;
    until(&engine, STATE, "1 86200 0 0 3").await;
    run(&session, "RESET merge_rows; RESET merge_bytes").await;
    assert_eq!(
        value(&session, "SHOW merge_bytes").await,
        "nearfar.merge_bytes | 67108864B"
    );
    for wrong in [
        "SET merge_rows = 0",
        "SET merge_rows = 'few'",
        "SET merge_bytes = 'much'",
    ] {
        assert!(error(&session, wrong).await.contains("never"), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_without_room_changes_nothing() {
    let engine = two_tiers_with(Budgets::new().with("far", 1_900_000));
    let session = engine.session();
    run(&session, T).await;
    run(&session, "DELETE FROM t WHERE k % 100 = 0").await;
    let held = region_bytes(&engine);
    let message = error(&session, "CALL nearfar.merge('t')").await;
    assert!(message.contains("raise the budget"), "{message}");
    assert_eq!(region_bytes(&engine), held);
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "99000");
    assert_eq!(value(&session, STATE).await, "2 99000 0 1000 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_moves_and_writers_go_on_beside_each_other() {
    let engine = two_tiers();
    run(&engine.session(), &format!("{T}; SET merge_rows = 500")).await;
    let writer = |first: u64| {
        let session = engine.session();
        tokio::spawn(async move {
            for round in 0..20 {
                let start = first + round * 100;
                run(
                    &session,
                    &format!(
                        "INSERT INTO t SELECT value, 1, 'w' FROM generate_series({start}, {})",
                        start + 99
                    ),
                )
                .await;
                run(&session, &format!("DELETE FROM t WHERE k = {start}")).await;
            }
        })
    };
    let mover = engine.session();
    let mover = tokio::spawn(async move {
        for _ in 0..5 {
            run(
                &mover,
                "ALTER TABLE t SET TABLESPACE near; CALL nearfar.merge('t')",
            )
            .await;
            run(
                &mover,
                "ALTER TABLE t SET TABLESPACE far; CALL nearfar.merge('t')",
            )
            .await;
        }
    });
    let writers = [writer(1_000_000), writer(2_000_000)];
    for task in writers {
        task.await.expect("a writer");
    }
    mover.await.expect("a mover");
    let session = engine.session();
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "103960");
    let written = "SELECT count(DISTINCT k) || ' ' || min(k) FROM t WHERE k >= 1000000";
    assert_eq!(value(&session, written).await, "3960 1000001");
    run(&session, "CALL nearfar.merge('t')").await;
    let places = "SELECT string_agg(DISTINCT placement, ',') FROM nearfar.segments";
    assert_eq!(value(&session, places).await, "far");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "103960");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_ends_its_merges() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "SET merge_rows = 1").await;
    run(&session, T).await;
    run(&session, "DELETE FROM t WHERE k % 2 = 0").await;
    let database = Arc::downgrade(engine.database());
    drop((session, engine));
    for _ in 0..6_000 {
        if database.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the database is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_takes_as_long_as_a_modelled_tier_is_read() {
    const BYTES_PER_S: f64 = 2e6;
    let mut profile = Profile::builtin("cxl-blades-4").expect("a built-in profile");
    profile.far.read_bandwidth_bytes_per_s = Known::Value(BYTES_PER_S);
    let engine = Engine::new(EngineOptions {
        profile: Some(profile),
        whole_device: true,
        ..options()
    });
    let engine = engine.expect("an engine");
    let session = engine.session();
    let create = "CREATE TABLE t TABLESPACE far AS
                  SELECT value AS k, value * 7919 % 100003 AS v FROM generate_series(1, 100000)";
    run(&session, create).await;
    run(&session, "DELETE FROM t WHERE k % 1000 = 5").await;
    let bytes = far_bytes(&engine);
    let started = Instant::now();
    assert_eq!(
        run(&session, "CALL nearfar.merge('t')").await,
        "MERGE 99900"
    );
    // The pages of two columns are not all full.
    let least = Duration::from_secs_f64((bytes - 16_384) as f64 / BYTES_PER_S);
    assert!(started.elapsed() >= least, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tables_are_dropped_truncated_and_merged_at_once() {
    let session = two_tiers().session();
    let create = "CREATE TABLE a (k INT) WITH (fillfactor = 70); CREATE TEMP TABLE b (k INT);
                  INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)";
    run(&session, create).await;
    let delta = "SELECT sum(delta_rows) FROM nearfar.tables WHERE table_name IN ('a', 'b')";
    assert_eq!(value(&session, delta).await, "2");
    assert_eq!(run(&session, "VACUUM ANALYZE a").await, "VACUUM");
    assert_eq!(value(&session, delta).await, "1");
    assert_eq!(run(&session, "VACUUM").await, "VACUUM");
    assert_eq!(value(&session, delta).await, "0");
    assert_eq!(run(&session, "ANALYZE a, b").await, "ANALYZE");

    assert_eq!(
        run(&session, "BEGIN; TRUNCATE a, b").await,
        "BEGIN\nTRUNCATE TABLE"
    );
    let rows = "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)";
    assert_eq!(value(&session, rows).await, "0");
    run(&session, "ROLLBACK").await;
    assert_eq!(value(&session, rows).await, "2");
    run(&session, "TRUNCATE TABLE a, b").await;
    assert_eq!(value(&session, rows).await, "0");

    run(&session, "CREATE VIEW v AS SELECT k FROM b").await;
    for (sql, why) in [
        ("DROP TABLE a, b", "view"),
        ("DROP TABLE a, unknown", "unknown"),
        ("DROP TABLE IF EXISTS a, v", "view"),
        ("TRUNCATE a, unknown", "unknown"),
        ("VACUUM unknown", "unknown"),
        ("ANALYZE unknown", "unknown"),
        ("CREATE TABLE c (k INT) WITH (fillfactor = 7)", "fillfactor"),
        ("BEGIN; VACUUM a", "transaction"),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(why), "{sql}: {message}");
    }
    run(&session, "ROLLBACK").await;
    assert_eq!(value(&session, rows).await, "0", "nothing was dropped");
    let drop = "DROP VIEW v; DROP TABLE IF EXISTS a, unknown, b, a";
    assert_eq!(run(&session, drop).await, "DROP VIEW\nDROP TABLE");
    error(&session, "SELECT * FROM a").await;
}
