//! Opening a data directory again after its engine has ended.

use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_sql::error::EngineError;
use std::time::Duration;

use super::super::support::{run, try_run, value};
use super::{open, try_open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_permanent_is_there_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = open(folder.path()).session();
    run(
        &session,
        "CREATE TABLE t AS SELECT value AS k, nullif('row ' || value, '') AS s
         FROM generate_series(1, 1000);
         INSERT INTO t VALUES (2000, NULL), (2001, 'x');
         DELETE FROM t WHERE k % 10 = 0;
         UPDATE t SET s = 'changed' WHERE k < 5;
         CREATE SCHEMA other;
         CREATE TABLE other.t (a INT NOT NULL, b DECIMAL(10, 2));
         INSERT INTO other.t VALUES (1, 2.50);
         CREATE VIEW v AS SELECT count(*) AS n FROM t;
         CREATE VIEW w AS SELECT n + 1 AS n FROM v;
         CREATE TEMPORARY TABLE mine AS SELECT 1 AS a;
         INSERT INTO mine VALUES (2);
         CREATE TABLE gone AS SELECT 1 AS a; DROP TABLE gone;
         CREATE TABLE emptied AS SELECT 1 AS a; TRUNCATE TABLE emptied;
         INSERT INTO emptied VALUES (7);
         CREATE VIEW x AS SELECT 1 AS a; DROP VIEW x;
         CREATE SCHEMA old; CREATE TABLE old.t AS SELECT 1 AS a; DROP SCHEMA old CASCADE;
         CREATE OR REPLACE TABLE twice AS SELECT 1 AS a; CREATE OR REPLACE TABLE twice AS SELECT 2 AS a;
         BEGIN; INSERT INTO t VALUES (-1, 'undone'); ROLLBACK",
    )
    .await;
    let queries = [
        "SELECT count(*), sum(k), count(s), min(s), max(s) FROM t",
        "SELECT * FROM other.t",
        "SELECT n FROM w",
        "SELECT * FROM emptied",
        "SELECT * FROM twice",
        "SELECT table_schema, table_name, table_type FROM information_schema.tables
         WHERE table_schema IN ('public', 'other', 'old') ORDER BY 1, 2",
    ];
    let mut expected = Vec::new();
    for query in queries {
        expected.push(run(&session, query).await);
    }
    drop(session);
    for _ in 0..3 {
        let session = open(folder.path()).session();
        for (query, expected) in queries.iter().zip(&expected) {
            assert_eq!(&run(&session, query).await, expected, "{query}");
        }
        assert!(try_run(&session, "SELECT * FROM mine").await.is_err());
        assert!(
            try_run(&session, "INSERT INTO other.t VALUES (NULL, 1)")
                .await
                .is_err()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_known_by_their_identities_after_merges_and_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut expected = 0i64;
    for round in 0..4i64 {
        let session = open(folder.path()).session();
        if round == 0 {
            run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
        } else {
            assert_eq!(
                value(&session, "SELECT sum(v) FROM t").await,
                expected.to_string()
            );
        }
        for part in 0..5 {
            let first = round * 1000 + part * 100;
            let last = first + 99;
            run(
                &session,
                &format!(
                    "INSERT INTO t SELECT value, 1 FROM generate_series({first}, {last});
                     DELETE FROM t WHERE k % 7 = {part} AND k >= {first};
                     CALL nearfar.merge('t');
                     UPDATE t SET v = v + 1 WHERE k % 3 = 0"
                ),
            )
            .await;
        }
        expected = value(&session, "SELECT sum(v) FROM t")
            .await
            .parse()
            .expect("a number");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_loads_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = open(folder.path()).session();
    let texts = "repeat('text ', 20) || value";
    run(
        &session,
        &format!(
            "CREATE TABLE t AS SELECT value AS k, {texts} AS s FROM generate_series(1, 70000);
             INSERT INTO t SELECT value, {texts} FROM generate_series(70001, 140000)"
        ),
    )
    .await;
    drop(session);
    let session = open(folder.path()).session();
    let wrong =
        format!("SELECT count(*), sum(k) FROM (SELECT k, s, k AS value FROM t) WHERE s = {texts}");
    let counted = run(&session, &wrong).await;
    assert!(
        counted.contains("140000") && counted.contains("9800070000"),
        "{counted}"
    );
    assert_eq!(
        value(&session, "SELECT delta_rows FROM nearfar.tables").await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_that_wait_together_share_a_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path());
    run(&engine.session(), "CREATE TABLE t (a BIGINT)").await;
    let clients = (0..16).map(|client| {
        let session = engine.session();
        tokio::spawn(async move {
            for row in 0..20 {
                run(
                    &session,
                    &format!("INSERT INTO t VALUES ({client} * 100 + {row})"),
                )
                .await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client");
    }
    let log = engine.log().expect("a log");
    assert_eq!(log.status().durable, log.status().position);
    assert!(log.status().syncs <= 16 * 20 + 2, "{:?}", log.status());
    drop(engine);
    let session = open(folder.path()).session();
    assert_eq!(
        value(&session, "SELECT count(DISTINCT a) FROM t").await,
        "320"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_open_once_and_every_setting_keeps_what_ends_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        LogSync::On,
        LogSync::Off,
        LogSync::Every(Duration::from_millis(5)),
    ];
    for (round, sync) in settings.into_iter().enumerate() {
        let options = DataOptions {
            sync,
            ..DataOptions::new(folder.path())
        };
        let engine = try_open(options.clone()).expect("a data directory");
        match try_open(options) {
            Err(EngineError::Durability(DurabilityError::InUse { owner, .. })) => {
                assert_eq!(owner, Some(std::process::id()));
            }
            other => panic!("{other:?}"),
        }
        let session = engine.session();
        run(
            &session,
            &format!("CREATE TABLE t{round} AS SELECT {round} AS a"),
        )
        .await;
        run(&session, &format!("INSERT INTO t{round} VALUES (10)")).await;
        assert_eq!(
            value(&session, &format!("SELECT sum(a) FROM t{round}")).await,
            (10 + round).to_string()
        );
    }
    let session = open(folder.path()).session();
    let sums = "SELECT sum(a) FROM (SELECT * FROM t0 UNION ALL SELECT * FROM t1 UNION ALL SELECT * FROM t2)";
    assert_eq!(value(&session, sums).await, "33");
}
