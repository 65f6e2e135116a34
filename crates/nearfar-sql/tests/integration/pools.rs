//! Main storage in a pool: what the next process has immediately, and what becomes of damage.

use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::error::EngineError;
use nearfar_sql::load::{Load, tpch};
use nearfar_table::placement::ColumnPlacements;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{error, options, region_bytes, run, value};

/// A folder on tmpfs where there is one.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder")
}

fn pooled(path: &Path) -> EngineOptions {
    let mut pool = TablePoolOptions::new(path);
    pool.bytes = Some(64 << 20);
    EngineOptions {
        pool: Some(pool),
        ..options()
    }
}

fn open(path: &Path) -> Arc<Engine> {
    Engine::new(pooled(path)).expect("an engine")
}

fn pool_bytes(engine: &Engine) -> u64 {
    let tiers = engine.system().tiers();
    tiers
        .map(|(tier, _)| engine.system().usage(tier).pool_bytes)
        .sum()
}

const LARGE: &str = "CREATE TABLE t AS SELECT value AS a, value % 7 AS b, 'text ' || (value % 11) AS c \
                     FROM generate_series(1, 200000)";
const SUM: &str = "SELECT sum(a) + sum(b) + count(DISTINCT c) FROM t";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_engine_uses_main_storage_where_it_lies() {
    let folder = folder();
    let path = folder.path().join("pool");
    let (wanted, bytes) = {
        let engine = open(&path);
        let session = engine.session();
        run(&session, LARGE).await;
        run(&session, "CREATE VIEW v AS SELECT count(*) AS n FROM t").await;
        run(
            &session,
            "CREATE SCHEMA other; CREATE TABLE other.u (x BIGINT)",
        )
        .await;
        run(&session, "INSERT INTO other.u VALUES (1), (2)").await;
        run(&session, "DELETE FROM t WHERE a < 100").await;
        assert!(pool_bytes(&engine) > 0);
        (value(&session, SUM).await, region_bytes(&engine))
    };
    // The delta of `other.u` was in a region that small deltas share, and nothing of `t`.
    assert!(bytes <= 64 << 10, "{bytes} bytes of regions");
    let engine = open(&path);
    let session = engine.session();
    assert_eq!(value(&session, SUM).await, wanted);
    assert_eq!(value(&session, "SELECT n FROM v").await, "199901");
    assert_eq!(value(&session, "SELECT sum(x) FROM other.u").await, "3");
    assert_eq!(region_bytes(&engine), 0, "nothing was copied");
    assert!(pool_bytes(&engine) > 0);
    // It goes on as before.
    run(
        &session,
        "INSERT INTO t SELECT value, 1, 'new' FROM generate_series(1, 1000)",
    )
    .await;
    run(&session, "CALL nearfar.merge('t')").await;
    let wanted = value(&session, SUM).await;
    drop((session, engine));
    let engine = open(&path);
    assert_eq!(value(&engine.session(), SUM).await, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn space_of_what_is_gone_is_used_again() {
    let folder = folder();
    let path = folder.path().join("pool");
    let engine = open(&path);
    let session = engine.session();
    run(&session, LARGE).await;
    run(&session, "DROP TABLE t").await;
    let empty = pool_bytes(&engine);
    for _ in 0..40 {
        run(&session, LARGE).await;
        run(&session, "DROP TABLE t").await;
    }
    assert_eq!(pool_bytes(&engine), empty);
    assert_eq!(region_bytes(&engine), 0);
    // That of what an earlier process has published, too.
    run(&session, LARGE).await;
    drop((session, engine));
    let engine = open(&path);
    let session = engine.session();
    assert!(pool_bytes(&engine) > empty);
    run(&session, "DROP TABLE t").await;
    // Whoever verifies in the background holds it for that long.
    let started = std::time::Instant::now();
    while pool_bytes(&engine) != empty && started.elapsed().as_secs() < 60 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(pool_bytes(&engine), empty);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_on_another_tier_are_copied_from_the_pool_when_they_are_needed() {
    let folder = folder();
    let path = folder.path().join("pool");
    let profile = nearfar_topology::Profile::builtin("cxl-blades-4").expect("a profile");
    let two_tiers = || {
        let options = EngineOptions {
            profile: Some(profile.clone()),
            whole_device: true,
            ..pooled(&path)
        };
        Engine::new(options).expect("an engine")
    };
    let wanted = {
        let engine = two_tiers();
        let session = engine.session();
        run(&session, LARGE).await;
        run(&session, "ALTER TABLE t ALTER COLUMN a SET TABLESPACE far").await;
        assert!(region_bytes(&engine) > 0);
        value(&session, SUM).await
    };
    let engine = two_tiers();
    let session = engine.session();
    assert_eq!(region_bytes(&engine), 0);
    assert_eq!(value(&session, SUM).await, wanted);
    let far = "SELECT DISTINCT placement FROM nearfar.segments WHERE column_name = 'a'";
    assert_eq!(value(&session, far).await, "far");
    let far = engine.tier("far").expect("a far tier");
    assert!(engine.system().usage(far).region_bytes > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_room_refuses_new_tables_and_says_what_is_not_kept() {
    let folder = folder();
    let path = folder.path().join("pool");
    let mut small = pooled(&path);
    small.pool.as_mut().expect("a pool").bytes = Some(2 << 20);
    let engine = Engine::new(small).expect("an engine");
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE kept AS SELECT value AS a FROM generate_series(1, 100)",
    )
    .await;
    run(&session, LARGE).await;
    let refused = crate::support::error(&session, "CREATE TABLE u AS SELECT * FROM t").await;
    assert!(refused.contains("has no room"), "{refused}");
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'u'";
    assert_eq!(value(&session, tables).await, "0");
    // Rows of tables that are there are in memory, and missed at the end.
    run(&session, "INSERT INTO t SELECT * FROM t").await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "400000");
    assert!(region_bytes(&engine) > 0);
    let error = engine.publish().unwrap_err().to_string();
    assert!(
        error.contains("has no room") && error.contains("make a larger pool"),
        "{error}"
    );
    drop((session, engine));
    let engine = open(&path);
    assert_eq!(
        value(&engine.session(), "SELECT sum(a) FROM kept").await,
        "5050"
    );
}

/// Where extents of a pool begin (docs/restart-format.md).
pub const EXTENTS_START: u64 = 72 << 10;

/// Flips a byte in the middle of every 4 KiB of the pool that holds something.
fn flip(path: &Path, from: u64) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("the pool");
    let bytes = file.metadata().expect("metadata").len();
    let mut page = [0_u8; 4096];
    for offset in (from..bytes).step_by(4096) {
        file.read_exact_at(&mut page, offset).expect("read");
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(&[page[9] ^ 4], offset + 9)
                .expect("written");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_named() {
    let folder = folder();
    let path = folder.path().join("pool");
    let engine = open(&path);
    run(&engine.session(), LARGE).await;
    drop(engine);
    let whole = std::fs::read(&path).expect("read");
    // The first extent is a column's.
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("the pool");
    file.write_all_at(&[whole[EXTENTS_START as usize] ^ 1], EXTENTS_START)
        .expect("written");
    let engine = open(&path);
    let session = engine.session();
    let text = error(&session, SUM).await;
    assert!(
        text.contains("of table `t`") && text.contains("damaged"),
        "{text}"
    );
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "200000");
    drop((session, engine));
    let mut all = pooled(&path);
    all.pool.as_mut().expect("a pool").verify = Verify::All;
    let refused = Engine::new(all).expect_err("refused");
    assert!(refused.to_string().contains("of table `t`"), "{refused}");
    flip(&path, EXTENTS_START);
    let refused = Engine::new(pooled(&path)).expect_err("refused");
    assert!(matches!(refused, EngineError::Checkpoint(_)), "{refused:?}");
    assert!(
        refused
            .to_string()
            .contains("cannot be read: its catalog is damaged"),
        "{refused}"
    );
}

/// Runs in a process of its own, which it ends without any warning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of another test"]
async fn loads_and_is_killed() {
    let Some(path) = std::env::var_os("NEARFAR_TEST_POOL").map(PathBuf::from) else {
        return;
    };
    let engine = open(&path);
    let session = engine.session();
    load_tpch(&engine);
    run(&session, "INSERT INTO region SELECT * FROM region").await;
    let kill = Command::new("kill")
        .args(["-9", &std::process::id().to_string()])
        .status();
    std::thread::sleep(std::time::Duration::from_secs(60));
    panic!("still here: {kill:?}");
}

fn load_tpch(engine: &Arc<Engine>) {
    for table in tpch::TABLES {
        let rows = tpch::rows(table, 0.01, 2).expect("rows");
        let load = Load {
            storage: engine.storage().clone(),
            name: table.to_owned(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::default(),
        };
        let loaded = load.batches(&rows.schema, rows.parts).expect("loaded");
        engine.register(loaded).expect("registered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_published_is_there_after_a_kill() {
    let folder = folder();
    let path = folder.path().join("pool");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "pools::loads_and_is_killed", "--ignored"])
        .env("NEARFAR_TEST_POOL", &path)
        .output()
        .expect("run");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let engine = open(&path);
    let session = engine.session();
    assert_eq!(
        value(&session, "SELECT count(*) FROM lineitem").await,
        "60175"
    );
    // What is in the delta only is not published before a merge or the end.
    assert_eq!(value(&session, "SELECT count(*) FROM region").await, "5");
    let revenue = "SELECT count(*) FROM lineitem, orders, customer, nation WHERE l_orderkey = o_orderkey \
                   AND o_custkey = c_custkey AND c_nationkey = n_nationkey";
    assert_eq!(value(&session, revenue).await, "60175");
    assert_eq!(region_bytes(&engine), 0, "nothing was copied");
}
