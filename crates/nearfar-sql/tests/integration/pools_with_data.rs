//! A pool beside a data directory: the pool has main storage, the directory has what came since, and
//! everything if the pool is lost.

use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::error::CheckpointError;
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::DataOptions;
use nearfar_memory::pool::TakeOver;
use nearfar_sql::engine::{Engine, EngineOptions, Origin};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::table_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::pools::EXTENTS_START;
use crate::support::{options, region_bytes, run, try_run, value};

const LARGE: &str = "CREATE TABLE t AS SELECT value AS a, value % 7 AS b, 'text ' || (value % 11) AS c \
                     FROM generate_series(1, 200000)";
const SUM: &str = "SELECT sum(a) + sum(b) + count(DISTINCT c) FROM t";

/// Where everything is.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    fn pool(&self) -> std::path::PathBuf {
        self.folder.path().join("pool")
    }

    fn with_data(&self, data: &str) -> EngineOptions {
        let mut data = DataOptions::new(self.folder.path().join(data));
        // So that the log has a tail.
        data.checkpoint_at_end = false;
        EngineOptions {
            data: Some(data),
            ..options()
        }
    }

    fn with_both(&self, data: &str) -> EngineOptions {
        let mut pool = TablePoolOptions::new(self.pool());
        pool.bytes = Some(64 << 20);
        EngineOptions {
            pool: Some(pool),
            ..self.with_data(data)
        }
    }

    fn open(&self) -> Arc<Engine> {
        Engine::new(self.with_both("data")).expect("an engine")
    }
}

async fn sum(engine: &Arc<Engine>) -> String {
    value(&engine.session(), SUM).await
}

/// Changes a bit of each page that has any.
fn flip(path: &Path, pages: impl Iterator<Item = u64>) {
    let mut open = std::fs::File::options();
    let file = open.read(true).write(true).open(path).expect("the pool");
    let mut page = [0_u8; 4096];
    for offset in pages {
        file.read_exact_at(&mut page, offset).expect("read");
        if page.iter().any(|byte| *byte != 0) {
            let flipped = [page[9] ^ 4];
            file.write_all_at(&flipped, offset + 9).expect("written");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn main_storage_is_attached_and_the_log_goes_on_from_there() {
    let place = Place::new();
    let engine = place.open();
    let session = engine.session();
    run(&session, LARGE).await;
    run(&session, "INSERT INTO t VALUES (1, 1, 'late')").await;
    run(&session, "DELETE FROM t WHERE a = 77").await;
    let wanted = sum(&engine).await;
    drop((session, engine));
    for _ in 0..2 {
        let engine = place.open();
        let bytes = region_bytes(&engine);
        assert!(bytes <= 16 << 10, "{bytes} bytes of regions");
        assert_eq!(sum(&engine).await, wanted);
    }
    let engine = place.open();
    run(&engine.session(), "INSERT INTO t VALUES (2, 2, 'later')").await;
    let wanted = sum(&engine).await;
    drop(engine);
    // The directory alone has everything too.
    let engine = Engine::new(place.with_data("data")).expect("an engine");
    assert_eq!(sum(&engine).await, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_has_fallen_behind_is_not_used() {
    let place = Place::new();
    let engine = place.open();
    run(&engine.session(), LARGE).await;
    drop(engine);
    let engine = Engine::new(place.with_data("data")).expect("an engine");
    let session = engine.session();
    run(&session, "DELETE FROM t WHERE a % 2 = 0").await;
    run(&session, "CHECKPOINT").await;
    let wanted = sum(&engine).await;
    drop((session, engine));
    let engine = place.open();
    assert_eq!(sum(&engine).await, wanted);
    drop(engine);
    let engine = place.open();
    assert_eq!(region_bytes(&engine), 0, "the pool was filled anew");
    assert_eq!(sum(&engine).await, wanted);
}

/// Copies a data directory.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    let permissions = std::fs::metadata(from).expect("metadata").permissions();
    std::fs::set_permissions(to, permissions).expect("set");
    for entry in std::fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&from, &to),
            false => drop(std::fs::copy(from, to).expect("copied")),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_has_no_part_in_a_backup_that_was_put_back() {
    // Statements of one length: positions in the log come again.
    let insert = async |engine: &Arc<Engine>, text: &str| {
        for number in 100..110 {
            let sql = format!("INSERT INTO t VALUES ({number}, 1, '{text}')");
            run(&engine.session(), &sql).await;
        }
        sum(engine).await
    };
    let place = Place::new();
    let engine = place.open();
    run(&engine.session(), LARGE).await;
    let backed_up = sum(&engine).await;
    drop(engine);
    let (data, backup) = ["data", "backup"]
        .map(|name| place.folder.path().join(name))
        .into();
    copy(&data, &backup);
    let engine = place.open();
    insert(&engine, "lost").await;
    engine.publish().expect("published");
    drop(engine);
    let put_back = || {
        std::fs::remove_dir_all(&data).expect("removed");
        copy(&backup, &data);
    };
    for inserted in [false, true] {
        put_back();
        let mut wanted = backed_up.clone();
        if inserted {
            let alone = Engine::new(place.with_data("data")).expect("an engine");
            wanted = insert(&alone, "kept").await;
        }
        let engine = place.open();
        assert_eq!(sum(&engine).await, wanted, "inserted: {inserted}");
        let lost = "SELECT count(*) FROM t WHERE c = 'lost'";
        assert_eq!(value(&engine.session(), lost).await, "0");
        drop(engine);
        let engine = place.open();
        assert_eq!(engine.origin(), Origin::Pool, "the pool was filled anew");
        assert_eq!(sum(&engine).await, wanted);
        // The pool that the next round finds.
        drop(engine);
        put_back();
        let engine = place.open();
        insert(&engine, "lost").await;
        engine.publish().expect("published");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_used_however_many_owners_ended_without_publishing() {
    let place = Place::new();
    let engine = place.open();
    run(&engine.session(), LARGE).await;
    run(&engine.session(), "CHECKPOINT").await;
    let wanted = sum(&engine).await;
    drop(engine);
    for _ in 0..5 {
        let mut options = place.with_both("data");
        options.pool.as_mut().expect("a pool").claim.take_over = TakeOver::Now;
        let engine = Engine::new(options).expect("an engine");
        assert_eq!(engine.origin(), Origin::Pool);
        assert_eq!(sum(&engine).await, wanted);
        // As if it was killed.
        std::mem::forget(engine);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_in_the_pool_comes_from_the_directory() {
    for verify in [Verify::Background, Verify::All] {
        let place = Place::new();
        let engine = place.open();
        let session = engine.session();
        run(&session, LARGE).await;
        run(&session, "CHECKPOINT").await;
        let wanted = sum(&engine).await;
        drop((session, engine));
        // The first extent is a column's.
        flip(&place.pool(), std::iter::once(EXTENTS_START));
        let mut options = place.with_both("data");
        options.pool.as_mut().expect("a pool").verify = verify;
        let engine = Engine::new(options).expect("an engine");
        assert_eq!(sum(&engine).await, wanted);
        assert!(region_bytes(&engine) > 0, "a column was read from its file");
        drop(engine);
        let engine = place.open();
        assert_eq!(sum(&engine).await, wanted);
        assert_eq!(region_bytes(&engine), 0, "the pool was mended");
        drop(engine);
        flip(&place.pool(), (EXTENTS_START..64 << 20).step_by(4096));
        let engine = place.open();
        assert_eq!(sum(&engine).await, wanted);
        drop(engine);
        assert_eq!(sum(&place.open()).await, wanted);
    }
}

/// Flips a bit in every frame of sketches that a pool has; how many there are.
fn flip_sketches(path: &Path) -> usize {
    let mut open = std::fs::File::options();
    let file = open.read(true).write(true).open(path).expect("the pool");
    let bytes = file.metadata().expect("metadata").len();
    let mut magic = [0_u8; 8];
    let frames = (EXTENTS_START..bytes).step_by(4096).filter(|offset| {
        file.read_exact_at(&mut magic, *offset).expect("read");
        magic == *b"NFARSKET"
    });
    let flip = |offset: u64| file.write_all_at(b"nfarsket", offset).expect("written");
    frames.map(flip).count()
}

/// So many rows of the delta that it is asked which values they have.
const MANY_ROWS: usize = 40_000;

/// Adds rows that are the same.
fn insert(text: usize, rows: usize) -> String {
    format!("INSERT INTO t SELECT 0, 0, 'text {text}' FROM generate_series(1, {rows})")
}

/// The distinct values of `c` in `t` that the planner knows of.
async fn distinct(engine: &Arc<Engine>) -> usize {
    let session = engine.session();
    let provider = session.context().table_provider("t").await;
    let provider = provider.expect("a table");
    let table = table_of(provider.as_ref()).expect("in memory").snapshot();
    table.summary().columns[2].distinct
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_sketches_come_from_the_directory_and_are_mended() {
    for verify in [Verify::Background, Verify::All] {
        let place = Place::new();
        let engine = place.open();
        run(&engine.session(), LARGE).await;
        run(&engine.session(), "CHECKPOINT").await;
        drop(engine);
        assert!(flip_sketches(&place.pool()) > 0);
        for wanted in [11, 12, 13] {
            let mut options = place.with_both("data");
            options.pool.as_mut().expect("a pool").verify = verify;
            let engine = Engine::new(options).expect("an engine");
            assert_eq!(distinct(&engine).await, wanted, "kept with the table");
            let session = engine.session();
            run(&session, &insert(wanted, 1)).await;
            assert_eq!(distinct(&engine).await, wanted, "not worth a look");
            run(&session, &insert(wanted, MANY_ROWS)).await;
            assert_eq!(distinct(&engine).await, wanted + 1, "from sketches");
            run(&session, "CALL nearfar.merge('t')").await;
            assert_eq!(distinct(&engine).await, wanted + 1, "after a merge");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_sketches_lose_no_rows() {
    let place = Place::new();
    let alone = || EngineOptions {
        data: None,
        ..place.with_both("data")
    };
    let engine = Engine::new(alone()).expect("an engine");
    run(&engine.session(), LARGE).await;
    let wanted = sum(&engine).await;
    drop(engine);
    assert!(flip_sketches(&place.pool()) > 0);
    let engine = Engine::new(alone()).expect("an engine");
    assert_eq!(distinct(&engine).await, 11, "kept with the table");
    run(&engine.session(), &insert(1, MANY_ROWS)).await;
    assert_eq!(distinct(&engine).await, 0, "unknown");
    assert_eq!(sum(&engine).await, wanted);
    drop(engine);
    let engine = Engine::new(alone()).expect("an engine");
    assert_eq!(sum(&engine).await, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_belongs_to_one_data_directory() {
    let place = Place::new();
    let engine = place.open();
    run(&engine.session(), LARGE).await;
    drop(engine);
    let alone = EngineOptions {
        data: None,
        ..place.with_both("data")
    };
    for (options, wanted) in [
        (place.with_both("other"), "another data directory"),
        (alone, "belongs to a data directory"),
    ] {
        let refused = Engine::new(options).expect_err("refused");
        let EngineError::Checkpoint(error) = &refused else {
            panic!("{refused:?}");
        };
        let is_expected = matches!(
            error.as_ref(),
            CheckpointError::OtherDatabase { .. } | CheckpointError::NeedsDataDirectory { .. }
        );
        assert!(is_expected && error.to_string().contains(wanted), "{error}");
    }
    let engine = place.open();
    assert_eq!(
        value(&engine.session(), "SELECT count(*) FROM t").await,
        "200000"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_lost_the_pool_answers_no_query_from_memory_of_another() {
    let place = Place::new();
    let open = |take_over| {
        let mut options = place.with_both("data");
        let claim = &mut options.pool.as_mut().expect("a pool").claim;
        claim.take_over = take_over;
        // As if it was stopped: it notices nothing by itself.
        claim.lease = Duration::from_secs(3600);
        Engine::new(options).expect("an engine")
    };
    let old = open(TakeOver::Never);
    run(&old.session(), LARGE).await;
    let wanted = sum(&old).await;
    let new = open(TakeOver::Now);
    assert_eq!(sum(&new).await, wanted);
    // All that the old owner has is overwritten.
    for round in 0..3 {
        let session = new.session();
        run(&session, "DROP TABLE t").await;
        run(
            &session,
            &LARGE.replace("value AS a", &format!("-value - {round} AS a")),
        )
        .await;
        new.publish().expect("published");
    }
    for sql in [SUM, "SELECT * FROM t", "SELECT count(*) FROM t WHERE a < 0"] {
        match try_run(&old.session(), sql).await {
            Err(EngineError::Durability(DurabilityError::Fenced { .. })) => {}
            other => panic!("{sql} gave {:?}", other.map(|text| text[..200].to_owned())),
        }
    }
}
