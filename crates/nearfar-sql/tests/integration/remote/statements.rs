//! Tables on other hosts, made by statements.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use nearfar_durable::log::DataOptions;
use nearfar_memory::{Budgets, TierId, TierSpec};
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use tempfile::TempDir;

use super::played::{HOST, Host, MIB, TIER, engine_with};
use super::{QUERY, ROWS, SELECTED};
use crate::support::{error, options, region_bytes, run, value};

/// The name of the host's memory in statements.
const TABLESPACE: &str = "other";

fn hosted(budgets: Budgets) -> (Arc<Engine>, Session, Host) {
    let engine = engine_with(0, budgets);
    let host = Host::new(&engine);
    engine.add_memory_host(TABLESPACE, host.shared());
    (Arc::clone(&engine), engine.session(), host)
}

async fn make(session: &Session, query: &str) {
    let sql = format!("CREATE TABLE far_away TABLESPACE {TABLESPACE} AS {query}");
    run(session, &sql).await;
}

async fn told(session: &Session, column: &str) -> String {
    let sql = format!(
        "SELECT coalesce({column}::text, '') AS v FROM nearfar.remote_tables
         WHERE table_name = 'far_away'"
    );
    value(session, &sql).await
}

async fn expected(session: &Session) -> String {
    let query = QUERY.replace("far_away", &format!("({SELECTED})"));
    value(session, &query).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_puts_rows_there_that_all_sessions_read_and_that_are_rebuilt() {
    let (engine, session, host) = hosted(Budgets::new());
    make(&session, SELECTED).await;
    assert_eq!(host.puts(), 3);
    assert_eq!(region_bytes(&engine), host.used_bytes(), "nothing is near");
    let expected = expected(&session).await;
    let other = engine.session();
    assert_eq!(value(&other, QUERY).await, expected);
    let listed =
        "SELECT table_type AS v FROM information_schema.tables WHERE table_name = 'far_away'";
    assert_eq!(value(&other, listed).await, "BASE TABLE");
    let facts = ["tier", "host", "rows", "place", "rebuilt_from"];
    let wanted = [TIER, HOST, "150000", "host", "the query of table far_away"];
    for (fact, wanted) in facts.into_iter().zip(wanted) {
        assert_eq!(told(&other, fact).await, wanted, "{fact}");
    }
    let bytes: u64 = told(&other, "bytes").await.parse().expect("a number");
    assert!(bytes > 3 * MIB && bytes <= host.used_bytes(), "{bytes}");

    host.kill();
    let lost = error(&session, QUERY).await;
    let wanted = "is lost: the server is gone; the next query that needs its rows has them rebuilt from \
                  the query of table far_away";
    assert!(lost.contains(HOST) && lost.contains(wanted), "{lost}");
    assert_eq!(told(&session, "place").await, "lost");
    assert_eq!(told(&session, "lost_because").await, "the server is gone");
    host.start();
    assert_eq!(value(&other, QUERY).await, expected);
    assert_eq!(
        (told(&session, "place").await, host.puts()),
        ("host".into(), 6)
    );
    host.kill();
    error(&session, QUERY).await;
    assert_eq!(value(&session, QUERY).await, expected);
    assert_eq!(told(&session, "place").await, "near");
    run(&session, "DROP TABLE far_away").await;
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_again_from_the_query_with_its_names_types_and_parameters() {
    let (_engine, session, host) = hosted(Budgets::new());
    run(
        &session,
        "CREATE TABLE prices (id INT, price NUMERIC(10, 2))",
    )
    .await;
    run(
        &session,
        "INSERT INTO prices VALUES (1, 1.50), (2, 2.25), (3, NULL)",
    )
    .await;
    let sql = "CREATE TABLE far_away TABLESPACE other AS
               SELECT id AS number, price * 2 AS doubled, 1.5 AS n FROM prices WHERE id < 3 ORDER BY id";
    run(&session, sql).await;
    let sum = "SELECT sum(doubled) || ' ' || sum(number) || ' ' || max(n) AS v FROM far_away";
    let before = value(&session, sum).await;
    host.kill();
    host.start();
    error(&session, sum).await;
    assert_eq!(value(&session, sum).await, before);
    // Others by now: they stay lost until they are put there again.
    run(&session, "UPDATE prices SET price = 9 WHERE id = 1").await;
    host.kill();
    host.start();
    error(&session, sum).await;
    let changed = error(&session, sum).await;
    let wanted =
        "the query of table far_away, which had 2 rows when they were put there, has changed since";
    assert!(changed.contains(wanted), "{changed}");
    run(
        &session,
        &sql.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"),
    )
    .await;
    assert_ne!(value(&session, sum).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_temporary_rows_has_no_copy() {
    let (engine, session, host) = hosted(Budgets::new());
    run(&session, "CREATE TEMP TABLE own AS SELECT 1 AS k").await;
    let sql = "CREATE TEMP TABLE far_away TABLESPACE other AS SELECT * FROM own";
    run(&session, sql).await;
    assert_eq!(told(&session, "rebuilt_from").await, "");
    assert_eq!(told(&session, "table_schema").await, "temporary");
    assert!(
        error(&engine.session(), "SELECT * FROM far_away")
            .await
            .contains("far_away")
    );
    host.kill();
    for _ in 0..2 {
        let lost = error(&session, "SELECT * FROM far_away").await;
        assert!(lost.contains("no durable copy"), "{lost}");
    }
    drop(session);
    assert_eq!(host.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_would_be_rebuilt_from_themselves_are_not() {
    let (_engine, session, host) = hosted(Budgets::new());
    let lose = || {
        host.kill();
        host.start();
    };
    run(&session, "CREATE TABLE kept AS SELECT 1 AS k").await;
    run(&session, "CREATE VIEW seen AS SELECT k FROM kept").await;
    make(&session, "SELECT k FROM seen").await;
    run(
        &session,
        "CREATE OR REPLACE VIEW seen AS SELECT k FROM far_away",
    )
    .await;
    lose();
    error(&session, "SELECT k FROM far_away").await;
    let told = error(&session, "SELECT k FROM far_away").await;
    assert!(
        told.contains("cannot be rebuilt from the query of table far_away: "),
        "{told}"
    );
    // What is made of such a table has no copy, also where it takes its place.
    run(&session, "DROP VIEW seen; DROP TABLE far_away").await;
    make(&session, "SELECT k FROM kept").await;
    run(&session, "CREATE VIEW seen AS SELECT k FROM far_away").await;
    run(
        &session,
        "CREATE TABLE of_view TABLESPACE other AS SELECT k FROM seen",
    )
    .await;
    run(&session, "DROP VIEW seen").await;
    let sql =
        "CREATE OR REPLACE TABLE far_away TABLESPACE other AS SELECT k + 1 AS k FROM far_away";
    run(&session, sql).await;
    assert_eq!(value(&session, "SELECT k AS v FROM far_away").await, "2");
    lose();
    for table in ["far_away", "of_view"] {
        let query = format!("SELECT k FROM {table}");
        error(&session, &query).await;
        let told = error(&session, &query).await;
        assert!(told.contains("no durable copy"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_go_there_is_refused_and_says_why() {
    let (engine, session, host) = hosted(Budgets::new());
    run(&session, "CREATE TABLE kept AS SELECT 1 AS k").await;
    run(
        &session,
        "CREATE TABLE far_away TABLESPACE other AS SELECT 1 AS k",
    )
    .await;
    let puts = host.puts();
    let by_query = "AS and a query";
    let unchanged = "whose rows do not change";
    let cases = [
        ("CREATE TABLE t (k INT) TABLESPACE other", by_query),
        (
            "CREATE TABLE t (k INT PRIMARY KEY) TABLESPACE other",
            by_query,
        ),
        (
            "CREATE TABLE far_away TABLESPACE other AS SELECT 1 AS k",
            "already exists",
        ),
        (
            "CREATE TABLE t TABLESPACE another AS SELECT 1 AS k",
            "another",
        ),
        ("INSERT INTO far_away VALUES (2)", unchanged),
        ("INSERT INTO far_away SELECT * FROM kept", unchanged),
        ("UPDATE far_away SET k = 2", unchanged),
        ("DELETE FROM far_away", unchanged),
        ("TRUNCATE far_away", unchanged),
        ("ALTER TABLE far_away SET TABLESPACE near", unchanged),
        ("ALTER TABLE far_away ADD COLUMN v INT", unchanged),
        ("CREATE INDEX i ON far_away (k)", unchanged),
        ("ALTER TABLE kept SET TABLESPACE other", "other"),
        ("CREATE INDEX i ON kept (k) TABLESPACE other", "other"),
        ("SET default_tablespace = other", "other"),
        ("SET heap_tablespace = other", "other"),
    ];
    for (sql, wanted) in cases {
        let told = error(&session, sql).await;
        assert!(told.contains(wanted), "{sql}: {told}");
    }
    let sql = format!("CREATE TABLE t TABLESPACE \"{TIER}\" AS SELECT 1 AS k");
    error(&session, &sql).await;
    assert_eq!(host.puts(), puts);
    assert_eq!(
        value(&session, "SELECT sum(k) AS v FROM far_away").await,
        "1"
    );
    drop(engine);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_make_and_drop_them() {
    let (engine, session, host) = hosted(Budgets::new());
    run(&session, "BEGIN").await;
    make(&session, "SELECT 7 AS k").await;
    assert_eq!(value(&session, "SELECT k AS v FROM far_away").await, "7");
    error(&engine.session(), "SELECT k FROM far_away").await;
    run(&session, "ROLLBACK").await;
    assert_eq!(host.used_bytes(), 0);
    run(&session, "BEGIN").await;
    run(&session, "CREATE TABLE kept AS SELECT 8 AS k").await;
    make(&session, "SELECT k FROM kept").await;
    run(&session, "COMMIT").await;
    assert_eq!(
        value(&engine.session(), "SELECT k AS v FROM far_away").await,
        "8"
    );
    run(
        &session,
        "CREATE VIEW seen AS SELECT k + 1 AS k FROM far_away",
    )
    .await;
    assert!(
        error(&session, "DROP TABLE far_away")
            .await
            .contains("view `seen`")
    );
    host.kill();
    host.start();
    error(&session, "SELECT k FROM seen").await;
    assert_eq!(value(&session, "SELECT k AS v FROM seen").await, "9");
    run(
        &session,
        "DROP VIEW seen; BEGIN; DROP TABLE far_away; COMMIT",
    )
    .await;
    assert_eq!(host.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_room_leave_nothing() {
    let (engine, session, host) = hosted(Budgets::new().with(TIER, MIB));
    let sql = format!("CREATE TABLE far_away TABLESPACE other AS {SELECTED}");
    let told = error(&session, &sql).await;
    assert!(
        told.starts_with("host b:7475: ") && told.contains(TIER),
        "{told}"
    );
    run(&session, "SET memory_limit = '1MiB'").await;
    let told = error(&session, &sql).await;
    assert!(told.contains("RemoteTable"), "{told}");
    let failing = "CREATE TABLE far_away TABLESPACE other AS SELECT 1 / (k - k) AS k FROM generate_series(1, 9) AS t(k)";
    assert!(error(&session, failing).await.contains("zero"));
    host.kill();
    let told = error(
        &session,
        "CREATE TABLE far_away TABLESPACE other AS SELECT 1 AS k",
    )
    .await;
    assert!(told.contains("host b:7475 cannot be reached"), "{told}");
    assert!(
        error(&session, "SELECT * FROM far_away")
            .await
            .contains("far_away")
    );
    assert_eq!((host.used_bytes(), region_bytes(&engine)), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_given_up_ends_what_it_writes() {
    let (_engine, session, host) = hosted(Budgets::new());
    host.0.is_held.store(true, SeqCst);
    let making = tokio::spawn(async move { make(&session, "SELECT 1 AS k").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    making.abort();
    while host.0.given_up.load(SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((host.puts(), host.used_bytes()), (0, 0));
}

fn with_data(folder: &TempDir) -> Arc<Engine> {
    let options = EngineOptions {
        remote_tiers: vec![TierSpec::rdma(TIER, HOST, 64 * MIB)],
        data: Some(DataOptions::new(folder.path())),
        ..options()
    };
    Engine::new(options).expect("an engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_does_not_have_them() {
    let folder = TempDir::new().expect("a folder");
    let engine = with_data(&folder);
    let host = Host::new(&engine);
    engine.add_memory_host(TABLESPACE, host.shared());
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE kept AS SELECT value AS k FROM generate_series(1, 150000)",
    )
    .await;
    run(&session, "CREATE TABLE far_away AS SELECT 1 AS k").await;
    // What is replaced is gone from the log.
    let sql = "CREATE OR REPLACE TABLE far_away TABLESPACE other AS SELECT k FROM kept";
    run(&session, sql).await;
    run(&session, "CHECKPOINT").await;
    let count = "SELECT count(*) AS v FROM far_away";
    assert_eq!(value(&session, count).await, ROWS.to_string());
    drop((session, host));
    engine.close();
    drop(engine);
    let engine = with_data(&folder);
    let session = engine.session();
    assert!(error(&session, count).await.contains("far_away"));
    assert_eq!(
        value(&session, "SELECT count(*) AS v FROM kept").await,
        ROWS.to_string()
    );
    assert!(engine.system().usage(TierId::NEAR).region_bytes > 0);
}
