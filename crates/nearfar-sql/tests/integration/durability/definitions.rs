//! Changes of the catalog beside each other, and what the log says of them.

use nearfar_durable::log::DataOptions;
use std::sync::Arc;
use std::time::Duration;

use super::super::support::{run, try_run, value};
use super::{open, try_open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_not_entered_into_another_schema_of_the_same_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path());
    let (session, other) = (engine.session(), Arc::new(engine.session()));
    run(&session, "CREATE SCHEMA s").await;
    let loader = Arc::clone(&other);
    let loading = tokio::spawn(async move {
        let sql = "CREATE TABLE s.t AS
            SELECT repeat('text ' || value, 20) AS s FROM generate_series(1, 300000)";
        try_run(&loader, sql).await
    });
    while other.loading().is_none() {
        assert!(!loading.is_finished(), "it is loaded too soon");
        tokio::task::yield_now().await;
    }
    run(
        &session,
        "DROP SCHEMA s; CREATE SCHEMA s; CREATE TABLE s.t (a INT); INSERT INTO s.t VALUES (7)",
    )
    .await;
    let refused = loading.await.expect("a statement").expect_err("refused");
    assert!(refused.to_string().contains("schema `s`"), "{refused}");
    assert_eq!(value(&session, "SELECT a FROM s.t").await, "7");
    drop((session, other, engine));
    let engine = open(folder.path());
    assert_eq!(value(&engine.session(), "SELECT a FROM s.t").await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_dropped_while_it_moves_leaves_nothing_in_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = || DataOptions {
        checkpoint_at_end: false,
        ..DataOptions::new(folder.path())
    };
    for round in 0..10 {
        let engine = try_open(data()).expect("a log that can be read");
        let (session, other) = (engine.session(), engine.session());
        let fill = "CREATE TABLE t AS SELECT value AS k, repeat('text ' || value, 20) AS s
            FROM generate_series(1, 30000)";
        run(&session, fill).await;
        let moving = tokio::spawn(async move {
            try_run(&other, "ALTER TABLE t SET (preload = 1)")
                .await
                .ok();
            try_run(&other, "ALTER TABLE t SET TABLESPACE near").await
        });
        tokio::time::sleep(Duration::from_micros(300 * round)).await;
        run(&session, "DROP TABLE t; CHECKPOINT").await;
        // Whether it came before or behind the drop, it is not in the way of the next start.
        let _ = moving.await.expect("a statement");
    }
    open(folder.path());
}
