//! File systems that are full: a tmpfs of a few MiB for each test, which needs the right to mount.

use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::error::CheckpointError;
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::DataOptions;
use nearfar_memory::pool::TakeOver;
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_sql::error::{EngineError, is_disk_full};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{options, run, try_run, value};

/// A small file system.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Of so many KiB; `None`, said aloud, where it can't be mounted.
    fn mount(kib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Self { folder };
        match disk.run(
            "mount",
            &["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"],
        ) {
            true => Some(disk),
            false => {
                let skipped = "skipped: this process may not mount a file system";
                let _ =
                    std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{skipped}\n"));
                None
            }
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new(program);
        let output = command.args(arguments).arg(self.folder.path()).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Makes it larger or smaller.
    fn resize(&self, kib: u64) {
        let size = format!("remount,size={kib}k");
        assert!(self.run("mount", &["-o", &size]), "remounted");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fills it to the last page.
    fn fill(&self) -> PathBuf {
        let path = self.path("ballast");
        let mut file = std::fs::File::create(&path).expect("made");
        while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

fn log_only(directory: &Path) -> DataOptions {
    DataOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_interval: None,
        checkpoint_at_end: false,
        ..DataOptions::new(directory)
    }
}

fn open(data: DataOptions, pool: Option<&Path>) -> Result<Arc<Engine>, EngineError> {
    let pool = pool.map(|path| {
        let mut pool = TablePoolOptions::new(path);
        pool.bytes = Some(32 << 20);
        pool.verify = Verify::All;
        pool.claim.take_over = TakeOver::Never;
        pool
    });
    Engine::new(EngineOptions {
        data: Some(data),
        pool,
        ..options()
    })
}

/// Inserts 200 rows at a time until that fails: how many rows were acknowledged, and the error.
async fn fill_with_rows(session: &Session, mut rows: i64) -> (i64, EngineError) {
    loop {
        let (first, last) = (rows + 1, rows + 200);
        let sql = format!(
            "INSERT INTO t SELECT value, repeat('x', 100) || value FROM generate_series({first}, {last})"
        );
        match try_run(session, &sql).await {
            Ok(_) => rows = last,
            Err(error) => return (rows, error),
        }
        assert!(rows < 1_000_000, "the disk is never full");
    }
}

/// Checks that the table has the rows 1 to `rows`.
async fn check(session: &Session, rows: i64) {
    let sql = "SELECT count(*) || ' ' || sum(k) || ' ' || max(k) FROM t";
    let wanted = format!("{rows} {} {rows}", rows * (rows + 1) / 2);
    assert_eq!(value(session, sql).await, wanted);
    let torn = "SELECT count(*) FROM t WHERE s <> repeat('x', 100) || k";
    assert_eq!(value(session, torn).await, "0");
}

#[track_caller]
fn assert_names(error: &EngineError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

const TABLE: &str = "CREATE TABLE t (k BIGINT, s VARCHAR)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_data_directory_refuses_changes_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(2048) else {
        return;
    };
    let data = disk.path("data");
    let engine = open(log_only(&data), None).expect("a directory");
    let session = engine.session();
    run(&session, TABLE).await;
    let (mut rows, error) = fill_with_rows(&session, 0).await;
    assert!(rows > 0);
    let is_full = matches!(
        error,
        EngineError::Durability(DurabilityError::NotLogged { .. })
    );
    assert!(is_full, "{error}");
    let folder = data.join("log").display().to_string();
    assert_names(
        &error,
        &["nothing was changed", &folder, "No space left", "make room"],
    );
    check(&session, rows).await;
    // Definitions are changes too; temporary tables are not.
    let error = try_run(&session, "CREATE TABLE u AS SELECT * FROM t").await;
    assert_names(&error.expect_err("full"), &["make room"]);
    run(&session, "CREATE TEMPORARY TABLE mine AS SELECT * FROM t").await;
    // A transaction is refused as a whole.
    let large = "BEGIN; DELETE FROM t WHERE k = 1; INSERT INTO t SELECT k + 1000000, s FROM t";
    run(&session, large).await;
    assert_names(
        &try_run(&session, "COMMIT").await.expect_err("full"),
        &["make room"],
    );
    check(&session, rows).await;
    for kib in [4096, 5120] {
        disk.resize(kib);
        let before = rows;
        (rows, _) = fill_with_rows(&session, rows).await;
        assert!(rows > before, "it goes on without a restart");
    }
    drop((session, engine));
    disk.resize(8192);
    let session = open(log_only(&data), None).expect("again").session();
    check(&session, rows).await;
    assert!(try_run(&session, "SELECT * FROM u").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_can_be_opened_on_a_full_disk_or_says_why_not() {
    let Some(disk) = SmallDisk::mount(4096) else {
        return;
    };
    let data = disk.path("data");
    let rows = {
        let session = open(log_only(&data), None).expect("a directory").session();
        run(&session, TABLE).await;
        fill_with_rows(&session, 0).await.0
    };
    let ballast = disk.fill();
    match open(DataOptions::new(&data), None) {
        Ok(engine) => check(&engine.session(), rows).await,
        Err(error) => assert_names(&error, &[&data.display().to_string(), "No space left"]),
    }
    std::fs::remove_file(ballast).expect("removed");
    disk.resize(16384);
    let session = open(log_only(&data), None).expect("again").session();
    check(&session, rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_without_room_leaves_the_log_and_can_be_done_later() {
    let Some(disk) = SmallDisk::mount(4096) else {
        return;
    };
    let data = disk.path("data");
    let engine = open(log_only(&data), None).expect("a directory");
    let session = engine.session();
    run(&session, TABLE).await;
    let (rows, _) = fill_with_rows(&session, 0).await;
    for merge in ["SELECT 1", "CALL nearfar.merge('t')"] {
        run(&session, merge).await;
        let error = try_run(&session, "CHECKPOINT").await.expect_err("full");
        let is_full = matches!(&error, EngineError::Checkpoint(error)
            if matches!(**error, CheckpointError::Full { .. }));
        assert!(is_full, "{error}");
        let folder = data.join("savepoint").display().to_string();
        assert_names(&error, &[&folder, "the file system is full", "make room"]);
        check(&session, rows).await;
    }
    disk.resize(16384);
    run(&session, "CHECKPOINT").await;
    let (later, _) = fill_with_rows(&session, rows).await;
    assert!(later > rows);
    drop((session, engine));
    let session = open(log_only(&data), None).expect("again").session();
    check(&session, later).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_on_a_full_file_system_costs_nothing_but_the_fast_restart() {
    let (Some(disk), Some(small)) = (SmallDisk::mount(65536), SmallDisk::mount(1024)) else {
        return;
    };
    let (data, pool) = (disk.path("data"), small.path("pool"));
    let engine = open(log_only(&data), Some(&pool)).expect("both");
    let session = engine.session();
    run(&session, TABLE).await;
    let rows = 100_000;
    let large =
        "INSERT INTO t SELECT value, repeat('x', 100) || value FROM generate_series(1, 100000)";
    run(&session, large).await;
    check(&session, rows).await;
    let error = engine.publish().expect_err("full");
    assert_names(
        &error,
        &[&pool.display().to_string(), "No space left", "make room"],
    );
    // The log and checkpoints have their own place.
    run(&session, "CALL nearfar.merge('t'); CHECKPOINT").await;
    check(&session, rows).await;
    small.resize(65536);
    engine.publish().expect("published");
    let (rows, _) = (
        rows + 1,
        run(
            &session,
            &format!(
                "INSERT INTO t VALUES ({0}, repeat('x', 100) || {0})",
                rows + 1
            ),
        )
        .await,
    );
    drop((session, engine));
    let engine = open(log_only(&data), Some(&pool)).expect("again");
    check(&engine.session(), rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_with_a_full_pool_is_followed_by_one_from_the_directory() {
    let (Some(disk), Some(small)) = (SmallDisk::mount(65536), SmallDisk::mount(1024)) else {
        return;
    };
    let (data, pool) = (disk.path("data"), small.path("pool"));
    let rows = {
        let engine = open(log_only(&data), Some(&pool)).expect("both");
        let session = engine.session();
        run(&session, TABLE).await;
        small.fill();
        let large =
            "INSERT INTO t SELECT value, repeat('x', 100) || value FROM generate_series(1, 80000)";
        run(&session, large).await;
        run(&session, "CHECKPOINT").await;
        80_000
    };
    let engine = open(log_only(&data), Some(&pool)).expect("again, while it is full");
    check(&engine.session(), rows).await;
    drop(engine);
    let none = small.path("another");
    let error = open(log_only(&disk.path("new")), Some(&none)).expect_err("no room");
    assert_names(&error, &[&none.display().to_string(), "No space left"]);
    small.resize(4096);
    open(log_only(&disk.path("new")), Some(&none)).expect("what was begun is no obstacle");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_data_directory_leaves_indexes_as_they_were() {
    let Some(disk) = SmallDisk::mount(2048) else {
        return;
    };
    let data = disk.path("data");
    let engine = open(log_only(&data), None).expect("a directory");
    let session = engine.session();
    run(&session, TABLE).await;
    let rows =
        "INSERT INTO t SELECT value, repeat('x', 100) || value FROM generate_series(1, 2000)";
    run(&session, rows).await;
    let ballast = disk.fill();
    // The last page of the log has room for some.
    let mut made = 0;
    let create = |number: i32| format!("CREATE UNIQUE INDEX i{number} ON t (k, s)");
    let error = loop {
        match try_run(&session, &create(made)).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 1000, "the disk is never full");
    };
    assert!(is_disk_full(&error), "{error}");
    let count = "SELECT count(*) FROM nearfar.indexes";
    assert_eq!(value(&session, count).await, made.to_string());
    run(&session, "CALL nearfar.check('t')").await;
    std::fs::remove_file(ballast).expect("removed");
    run(&session, &create(made)).await;
    let twice = "INSERT INTO t SELECT 7, repeat('x', 100) || 7";
    let refused = try_run(&session, twice).await.expect_err("it is there");
    assert_names(&refused, &["duplicate key"]);
    drop((session, engine));
    let engine = open(log_only(&data), None).expect("a directory");
    let session = engine.session();
    assert_eq!(value(&session, count).await, (made + 1).to_string());
    run(&session, "CALL nearfar.check('t')").await;
    check(&session, 2000).await;
}
