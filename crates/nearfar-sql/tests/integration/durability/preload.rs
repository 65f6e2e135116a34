//! Columns that come to memory before a query needs them.

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::Session;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::support::{error, run, value};
use super::{open, try_open};

const LARGE: &str = "AS SELECT value AS a, value % 7 AS b, 'text ' || value AS c
                     FROM generate_series(1, 300000)";

/// The columns that are in memory as a whole, in the order of their names.
const LOADED: &str = "SELECT coalesce(string_agg(column_name, ',' ORDER BY column_name), '')
                      FROM nearfar.loading
                      WHERE table_name = 't' AND loaded_segments = segments";

async fn loaded(session: &Session) -> String {
    value(session, LOADED).await
}

/// Waits until these columns are in memory.
async fn await_loaded(session: &Session, columns: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while loaded(session).await != columns {
        let found = loaded(session).await;
        assert!(
            Instant::now() < deadline,
            "in memory: {found}, not {columns}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes table `t` with `clauses`, and ends with a checkpoint, or with all of it in the log.
async fn make(folder: &Path, clauses: &str, after: &str, checkpoint: bool) {
    let mut data = DataOptions::new(folder);
    data.checkpoint_at_end = checkpoint;
    let session = try_open(data).expect("a data directory").session();
    run(
        &session,
        &format!("CREATE TABLE t {clauses} {LARGE}; {after}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_with_a_priority_come_by_themselves_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let after = "ALTER TABLE t ALTER c SET (preload = 2), ALTER a SET (preload = 9)";
    make(folder.path(), "", after, true).await;
    for _ in 0..2 {
        let session = open(folder.path()).session();
        await_loaded(&session, "a,c").await;
        assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "45000150000");
        assert_eq!(loaded(&session).await, "a,c");
        run(&session, "SELECT sum(b) FROM t").await;
        assert_eq!(loaded(&session).await, "a,b,c");
        let priorities = "SELECT string_agg(preload::text, ',' ORDER BY column_name)
                          FROM nearfar.loading WHERE table_name = 't'";
        assert_eq!(value(&session, priorities).await, "9,0,2");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priorities_are_in_the_log_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let after = "ALTER TABLE t ALTER COLUMN b SET (preload = 0)";
    make(folder.path(), "WITH (preload = 4)", after, false).await;
    let session = open(folder.path()).session();
    let priorities = "SELECT string_agg(preload::text, ',' ORDER BY column_name)
                      FROM nearfar.loading WHERE table_name = 't'";
    assert_eq!(value(&session, priorities).await, "4,0,4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_loaded_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), "", "", true).await;
    let session = open(folder.path()).session();
    assert_eq!(loaded(&session).await, "");
    run(&session, "CALL nearfar.load('t')").await;
    assert_eq!(loaded(&session).await, "a,b,c");
    run(&session, "CALL nearfar.load('t')").await;
    let missing = error(&session, "CALL nearfar.load('u')").await;
    assert!(missing.contains("`u` does not exist"), "{missing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_counts_immediately() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), "", "", true).await;
    let session = open(folder.path()).session();
    run(&session, "ALTER TABLE t ALTER COLUMN b SET (preload = 1)").await;
    await_loaded(&session, "b").await;
    let wrong = error(&session, "ALTER TABLE t SET (preload = 10)").await;
    assert!(wrong.contains("use 0"), "{wrong}");
    let unknown = error(&session, "ALTER TABLE t ALTER d SET (preload = 1)").await;
    assert!(unknown.contains("no column `d`"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_see_everything_while_columns_are_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), "WITH (preload = 5)", "", true).await;
    for _ in 0..5 {
        let session = open(folder.path()).session();
        let sum = "SELECT sum(a) + sum(b) + count(DISTINCT c) FROM t";
        assert_eq!(value(&session, sum).await, "45001349998");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_loaded_does_not_keep_the_rest_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    make(
        folder.path(),
        "WITH (preload = 5)",
        "CREATE TABLE u AS SELECT 1 AS a",
        true,
    )
    .await;
    damage_largest(&folder.path().join("savepoint/segments"));
    let session = open(folder.path()).session();
    assert_eq!(value(&session, "SELECT a FROM u").await, "1");
    let broken = error(&session, "SELECT sum(a), sum(b), max(c) FROM t").await;
    assert!(
        broken.contains("damaged") || broken.contains("checksum"),
        "{broken}"
    );
}

/// Changes a byte in the middle of the largest file.
fn damage_largest(folder: &Path) {
    let files = std::fs::read_dir(folder).expect("a folder");
    let files = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.is_file());
    let largest = files.max_by_key(|path| path.metadata().expect("a file").len());
    let largest = largest.expect("a checkpoint");
    let mut bytes = std::fs::read(&largest).expect("its bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&largest, bytes).expect("written");
}
