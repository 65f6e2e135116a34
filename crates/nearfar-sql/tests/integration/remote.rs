//! Tables on other hosts: kept near, lost and rebuilt. A host is played by memory of the test's own.

mod played;
mod statements;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use nearfar_memory::{Budgets, TierId};
use nearfar_sql::engine::Session;
use nearfar_sql::load::FileFormat;
use nearfar_sql::remote::{FileRows, RemoteTable, RemoteTableError, RowSource};
use nearfar_table::traffic::Task;
use tempfile::TempDir;

use super::support::{error, region_bytes, run, value};
use played::{HOST, Host, MIB, TIER, engine_with};

/// Three parts.
const ROWS: u64 = 150_000;

/// Two numbers and a text per row, some of which are null.
const SELECTED: &str =
    "SELECT value AS k, CASE WHEN value % 7 <> 0 THEN value * 31 % 1000 END AS v,
    'name ' || value % 100 AS name FROM generate_series(1, 150000)";

async fn file(session: &Session, folder: &TempDir) -> Arc<dyn RowSource> {
    let path = folder.path().join("rows.parquet");
    let sql = format!("COPY ({SELECTED}) TO '{}'", path.display());
    run(session, &sql).await;
    Arc::new(FileRows::new(path, FileFormat::Parquet))
}

/// A table of `source` on the host, as `far_away`.
async fn put(session: &Session, host: &Host, source: Arc<dyn RowSource>) -> Arc<RemoteTable> {
    let table = RemoteTable::put_from(host.shared(), source).await;
    let table = Arc::new(table.expect("put"));
    let attached = session.attach_remote("far_away", Arc::clone(&table));
    attached.expect("attached");
    table
}

const QUERY: &str =
    "SELECT count(*) || ' ' || count(v) || ' ' || sum(v) || ' ' || max(k) || ' ' || max(name) AS v
    FROM far_away";

async fn traffic(session: &Session, tier: &str, task: &str, what: &str) -> u64 {
    let sql = format!(
        "SELECT coalesce(sum({what}), 0) AS v FROM nearfar.traffic
         WHERE tier = '{tier}' AND task = '{task}'"
    );
    value(session, &sql).await.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_table_is_rebuilt_on_its_host_once() {
    let (folder, engine) = (
        TempDir::new().expect("a folder"),
        engine_with(0, Budgets::new()),
    );
    let (session, host) = (engine.session(), Host::new(&engine));
    let table = put(&session, &host, file(&session, &folder).await).await;
    assert_eq!((table.rows() as u64, table.host()), (ROWS, HOST));
    assert_eq!(host.puts(), 3);
    let used_bytes = host.used_bytes();
    assert!(used_bytes > 3 * MIB, "{used_bytes}");
    let expected = value(&session, QUERY).await;
    assert!(expected.starts_with("150000 128572 "), "{expected}");
    assert_eq!(
        traffic(&session, TIER, "scan", "read_bytes").await,
        host.read_bytes()
    );
    assert_eq!(
        engine.traffic().moved(host.0.tier, Task::Scan).read_bytes,
        host.read_bytes()
    );

    host.kill();
    host.start();
    let told = error(&session, QUERY).await;
    let named = "host b:7475, region 3, is lost: the server is gone; the next query that needs its rows has \
                 them rebuilt from `";
    assert!(
        told.contains(named) && told.contains("rows.parquet`"),
        "{told}"
    );
    assert_eq!(
        value(&session, "SELECT count(*) AS v FROM generate_series(1, 3)").await,
        "3"
    );
    // Several queries, one of which rebuilds it.
    let queries = (0..4).map(|_| {
        let session = session.clone();
        tokio::spawn(async move { value(&session, QUERY).await })
    });
    for query in queries.collect::<Vec<_>>() {
        assert_eq!(query.await.expect("a query"), expected);
    }
    assert_eq!((host.puts(), host.used_bytes()), (6, used_bytes));
    let written = traffic(&session, TIER, "load", "written_bytes").await;
    assert!(
        written.abs_diff(used_bytes) < 4096,
        "{written} {used_bytes}"
    );
    assert!(session.detach("far_away"));
    drop(table);
    assert_eq!(host.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_whose_host_stays_away_is_rebuilt_near() {
    let (folder, engine) = (
        TempDir::new().expect("a folder"),
        engine_with(0, Budgets::new()),
    );
    let (session, host) = (engine.session(), Host::new(&engine));
    put(&session, &host, file(&session, &folder).await).await;
    let expected = value(&session, QUERY).await;
    let (used_bytes, read_bytes) = (host.used_bytes(), host.read_bytes());
    assert_eq!(
        region_bytes(&engine),
        used_bytes,
        "what is there, and nothing near"
    );
    host.kill();
    assert!(
        error(&session, QUERY)
            .await
            .contains("host b:7475, region 3")
    );
    assert_eq!(value(&session, QUERY).await, expected);
    assert_eq!(host.used_bytes(), 0);
    let near = engine.system().usage(TierId::NEAR).region_bytes;
    assert!(
        near >= used_bytes && near < used_bytes + 3 * 4096,
        "{near} {used_bytes}"
    );
    // It stays there.
    host.start();
    assert_eq!(value(&session, QUERY).await, expected);
    assert_eq!(host.read_bytes(), read_bytes);
    assert!(session.detach("far_away"));
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_room_stays_lost_until_its_host_is_back() {
    let budgets = Budgets::new().with("near", 2 * MIB);
    let (folder, engine) = (TempDir::new().expect("a folder"), engine_with(0, budgets));
    let (session, host) = (engine.session(), Host::new(&engine));
    put(&session, &host, file(&session, &folder).await).await;
    let expected = value(&session, QUERY).await;
    host.kill();
    error(&session, QUERY).await;
    for _ in 0..2 {
        let told = error(&session, QUERY).await;
        let all = [
            "host b:7475, region 3, is lost",
            "cannot be reached",
            "have no room near",
            "near",
        ];
        assert!(all.iter().all(|part| told.contains(part)), "{told}");
        assert_eq!(region_bytes(&engine), 0);
    }
    host.start();
    assert_eq!(value(&session, QUERY).await, expected);
    // A query without memory for it leaves it lost, and the next one has it rebuilt.
    host.kill();
    host.start();
    error(&session, QUERY).await;
    run(&session, "SET memory_limit = '1MiB'").await;
    let told = error(&session, QUERY).await;
    assert!(told.contains("RemoteTable"), "{told}");
    run(&session, "RESET memory_limit").await;
    assert_eq!(value(&session, QUERY).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_nobody_else_has_stay_lost() {
    let engine = engine_with(0, Budgets::new());
    let (session, host) = (engine.session(), Host::new(&engine));
    let numbers = |rows: std::ops::Range<i64>| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
        RecordBatch::try_from_iter([("n", numbers)]).expect("a batch")
    };
    let batches = [numbers(0..100_000), numbers(100_000..200_000)];
    let table = RemoteTable::put(host.shared(), batches[0].schema(), &batches).expect("put");
    session
        .attach_remote("own", Arc::new(table))
        .expect("attached");
    let sum = "SELECT sum(n) AS v FROM own WHERE n >= 65535";
    assert_eq!(value(&session, sum).await, "17852514655");
    host.kill();
    host.start();
    for _ in 0..3 {
        let told = error(&session, sum).await;
        let expected =
            "host b:7475, region 3, is lost: the server is gone; its rows have no durable copy";
        assert!(told.contains(expected), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_has_changed_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let engine = engine_with(0, Budgets::new());
    let (session, host) = (engine.session(), Host::new(&engine));
    run(&session, &format!("CREATE TABLE kept AS {SELECTED}")).await;
    run(&session, "CREATE TEMP TABLE own AS SELECT 1 AS n").await;
    for name in ["own", "nowhere"] {
        assert!(session.rows_of(name).await.is_err(), "{name}");
    }
    let source = session.rows_of("kept").await.expect("a table");
    put(&session, &host, source).await;
    let expected = value(&session, QUERY).await;
    host.kill();
    host.start();
    error(&session, QUERY).await;
    run(&session, "INSERT INTO kept VALUES (0, 5, 'another')").await;
    let told = error(&session, QUERY).await;
    let changed = "table public.kept, which had 150000 rows when they were put there, has changed since and has \
                   150001 now: put them there again";
    assert!(
        told.contains("host b:7475") && told.contains(changed),
        "{told}"
    );
    // As many, but others.
    run(&session, "DELETE FROM kept WHERE k = 1").await;
    assert!(error(&session, QUERY).await.contains("has changed since"));
    run(
        &session,
        "DELETE FROM kept WHERE k = 0; INSERT INTO kept VALUES (1, 31, 'name 1')",
    )
    .await;
    assert_eq!(value(&session, QUERY).await, expected);
    host.kill();
    error(&session, QUERY).await;
    run(&session, "DROP TABLE kept").await;
    let told = error(&session, QUERY).await;
    let gone = "its rows cannot be rebuilt from table public.kept";
    assert!(
        told.contains("host b:7475") && told.contains(gone),
        "{told}"
    );

    let missing = FileRows::new(folder.path().join("no.parquet"), FileFormat::Parquet);
    let put = RemoteTable::put_from(host.shared(), Arc::new(missing)).await;
    assert!(
        matches!(put, Err(RemoteTableError::Source { .. })),
        "{put:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fetched_is_kept_near_within_its_budget() {
    let folder = TempDir::new().expect("a folder");
    let engine = engine_with(16 * MIB, Budgets::new());
    let (session, host) = (engine.session(), Host::new(&engine));
    let source = file(&session, &folder).await;
    let table = put(&session, &host, Arc::clone(&source)).await;
    let expected = value(&session, QUERY).await;
    let (read_bytes, held_bytes) = (host.read_bytes(), engine.remote_cache().held_bytes());
    assert!(held_bytes >= read_bytes, "{held_bytes} {read_bytes}");
    let near = engine.system().usage(TierId::NEAR).region_bytes;
    assert_eq!(near, held_bytes, "it is counted");
    let near_before = traffic(&session, "near", "scan", "read_bytes").await;
    // Of another session too.
    let other = engine.session();
    other
        .attach_remote("far_away", Arc::clone(&table))
        .expect("attached");
    assert_eq!(value(&other, QUERY).await, expected);
    assert_eq!(host.read_bytes(), read_bytes, "nothing is fetched again");
    assert_eq!(
        traffic(&session, TIER, "scan", "read_bytes").await,
        read_bytes
    );
    let near_read = traffic(&session, "near", "scan", "read_bytes").await - near_before;
    assert!(near_read >= read_bytes, "{near_read} {read_bytes}");
    // What is near needs no host.
    host.kill();
    host.start();
    assert_eq!(value(&session, QUERY).await, expected);
    assert!(session.detach("far_away") && other.detach("far_away"));
    drop(table);
    assert_eq!(
        (engine.remote_cache().held_bytes(), region_bytes(&engine)),
        (0, 0)
    );

    let small = engine_with(2 * MIB, Budgets::new());
    let (session, host) = (small.session(), Host::new(&small));
    put(&session, &host, source).await;
    for _ in 0..3 {
        assert_eq!(value(&session, QUERY).await, expected);
        let held_bytes = small.remote_cache().held_bytes();
        assert!(held_bytes > 0 && held_bytes <= 2 * MIB, "{held_bytes}");
    }
    // One column fits.
    value(&session, "SELECT sum(k) AS v FROM far_away").await;
    let read_bytes = host.read_bytes();
    value(&session, "SELECT sum(k) AS v FROM far_away").await;
    assert_eq!(host.read_bytes(), read_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_run_together_fetch_once() {
    let folder = TempDir::new().expect("a folder");
    let engine = engine_with(16 * MIB, Budgets::new());
    let (session, host) = (engine.session(), Host::new(&engine));
    let path = folder.path().join("rows.parquet");
    let rows = "SELECT value AS k FROM generate_series(1, 60000)";
    run(&session, &format!("COPY ({rows}) TO '{}'", path.display())).await;
    let source = FileRows::new(path, FileFormat::Parquet);
    put(&session, &host, Arc::new(source)).await;
    host.0.is_held.store(true, SeqCst);
    let query = || {
        let session = session.clone();
        tokio::spawn(async move { value(&session, "SELECT sum(k) AS v FROM far_away").await })
    };
    let given_up = query();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let queries = [query(), query(), query()];
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Another one fetches it then.
    given_up.abort();
    assert!(given_up.await.is_err());
    tokio::time::sleep(Duration::from_millis(200)).await;
    host.0.is_held.store(false, SeqCst);
    for query in queries {
        assert_eq!(query.await.expect("a query"), "1800030000");
    }
    assert_eq!(
        host.read_bytes(),
        traffic(&session, TIER, "scan", "read_bytes").await
    );
    assert!(
        host.read_bytes() <= host.used_bytes(),
        "{}",
        host.read_bytes()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_wait_for_their_turns() {
    let folder = TempDir::new().expect("a folder");
    let engine = engine_with(0, Budgets::new());
    let (session, host) = (engine.session(), Host::new(&engine));
    put(&session, &host, file(&session, &folder).await).await;
    let expected = value(&session, QUERY).await;
    run(&session, "SET far_bandwidth = '20MB/s'").await;
    let (begun, before) = (Instant::now(), host.read_bytes());
    assert_eq!(value(&session, QUERY).await, expected);
    let bytes = host.read_bytes() - before;
    assert!(bytes > 3 * MIB, "{bytes}");
    assert!(
        begun.elapsed() > Duration::from_millis(50),
        "{:?}",
        begun.elapsed()
    );
    assert!(engine.traffic().moved(host.0.tier, Task::Scan).waits > 0);
    // Nothing else is put there.
    let told = error(
        &session,
        &format!("CREATE TABLE t TABLESPACE \"{TIER}\" AS SELECT 1 AS n"),
    )
    .await;
    assert!(told.contains(TIER), "{told}");
}
