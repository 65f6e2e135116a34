//! The privilege matrix: every kind of statement, in every role. An [`Action`] that is new has no
//! statements in [`statements`], which does not compile then.

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Action, Engine, EngineOptions, Right, Session, SessionOptions};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::{ClientCopy, SqlError};
use nearfar_table::transaction::TransactionError;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

use super::support::{options, run, try_run};

/// What is promised of an action, apart from what the engine says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    ToWrite,
    Files,
    /// Nobody may, or the statement is not supported at all.
    More,
}

use Needs::{Files, More, Nothing, ToWrite};

/// Statements of an action. `DIR` is a folder that there is.
#[expect(clippy::too_many_lines, reason = "a table")]
fn statements(action: Action) -> (Needs, &'static [&'static str]) {
    match action {
        Action::Query => (
            Nothing,
            &[
                "SELECT a FROM t",
                "EXPLAIN SELECT a FROM t",
                "EXPLAIN ANALYZE SELECT a FROM t",
                "VALUES (1)",
                "SHOW merge_rows",
                "SHOW TABLES",
                "SELECT count(*) FROM ext",
                "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) \
                 SELECT n FROM r",
            ],
        ),
        Action::Cursor => (
            Nothing,
            &[
                "BEGIN; DECLARE c CURSOR FOR SELECT a FROM t; FETCH ALL FROM c; MOVE c; CLOSE c",
                "CLOSE ALL",
            ],
        ),
        Action::LockToRead => (
            Nothing,
            &["BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; COMMIT"],
        ),
        Action::LockTable => (
            ToWrite,
            &[
                "LOCK TABLE t",
                "LOCK t IN ROW SHARE MODE NOWAIT",
                "LOCK TABLE ONLY t IN EXCLUSIVE MODE",
            ],
        ),
        Action::LockRows => (
            ToWrite,
            &[
                "SELECT a FROM t FOR UPDATE",
                "SELECT a FROM t WHERE a = 1 FOR SHARE OF t SKIP LOCKED",
            ],
        ),
        Action::Describe => (Nothing, &["DESCRIBE t"]),
        Action::Begin => (Nothing, &["BEGIN", "START TRANSACTION READ ONLY"]),
        Action::End => (
            Nothing,
            &[
                "COMMIT",
                "ROLLBACK",
                "BEGIN; SAVEPOINT s; ROLLBACK TO s; RELEASE s; COMMIT",
            ],
        ),
        Action::SetOwn => (
            Nothing,
            &[
                "SET memory_limit = '1GiB'",
                "RESET memory_limit",
                "SET datafusion.execution.batch_size = 100",
                "SET LOCAL datafusion.optimizer.prefer_hash_join = off",
                "RESET datafusion.execution.batch_size",
                "SET TIME ZONE 'UTC'",
            ],
        ),
        Action::SetShared => (
            ToWrite,
            &[
                "SET merge_rows = 7",
                "SET SESSION merge_rows = 7",
                "SET LOCAL merge_rows = 7",
                "SET nearfar.merge_rows TO 7",
                "SET \"nearfar.merge_rows\" = 7",
                "SET \"nearfar\".\"MERGE_ROWS\" = 7",
                "SET merge_rows = DEFAULT",
                "SET merge_bytes = '7MiB'",
                "SET log_sync = off",
                "SET nearfar.log_sync = 'off'",
                "SET Nearfar.Log_Sync = '200ms'",
                "RESET merge_rows",
                "RESET merge_bytes",
                "RESET log_sync",
                "RESET nearfar.log_sync",
                "RESET \"nearfar.log_sync\"",
            ],
        ),
        Action::ResetAll => (Nothing, &["RESET ALL"]),
        Action::Prepare => (Nothing, &["PREPARE p AS SELECT a FROM t"]),
        Action::Execute => (Nothing, &["PREPARE q AS SELECT a FROM t; EXECUTE q"]),
        Action::Deallocate => (
            Nothing,
            &["DEALLOCATE ALL", "PREPARE r AS SELECT 1; DEALLOCATE r"],
        ),
        Action::Discard => (Nothing, &["DISCARD TEMP", "DISCARD ALL"]),
        Action::Nothing => (
            Nothing,
            &[
                "DISCARD PLANS",
                "UNLISTEN *",
                "RESET ROLE",
                "RESET SESSION AUTHORIZATION",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            ],
        ),
        Action::CopyOut => (Nothing, &["COPY t TO STDOUT", "COPY (SELECT 1) TO STDOUT"]),
        Action::Load => (Nothing, &["CALL nearfar.load('t')"]),
        Action::Check => (Nothing, &["CALL nearfar.check('t')"]),
        Action::CopyIn => (ToWrite, &["COPY t FROM STDIN"]),
        Action::Insert => (
            ToWrite,
            &[
                "INSERT INTO t VALUES (2)",
                "INSERT INTO t SELECT a FROM t",
                "INSERT INTO t VALUES (2) RETURNING a",
                "INSERT INTO t VALUES (2) ON CONFLICT DO NOTHING",
                "EXPLAIN ANALYZE INSERT INTO t VALUES (2)",
                "PREPARE i AS INSERT INTO t VALUES (2); EXECUTE i",
            ],
        ),
        Action::Update => (
            ToWrite,
            &[
                "UPDATE t SET a = 2",
                "UPDATE t SET a = 2 RETURNING a",
                "UPDATE t SET a = u.a FROM t AS u",
                "UPDATE information_schema.df_settings SET value = '7'",
            ],
        ),
        Action::Delete => (
            ToWrite,
            &[
                "DELETE FROM t",
                "DELETE FROM t WHERE a = 1",
                "DELETE FROM t USING t AS u WHERE t.a = u.a RETURNING t.a",
            ],
        ),
        Action::Truncate => (ToWrite, &["TRUNCATE t", "TRUNCATE TABLE t"]),
        Action::MergeInto => (
            ToWrite,
            &["MERGE INTO t USING t AS u ON t.a = u.a WHEN MATCHED THEN DELETE"],
        ),
        Action::CreateTable => (
            ToWrite,
            &[
                "CREATE TABLE n (a INT)",
                "CREATE TABLE n AS SELECT 1 AS a",
                "CREATE TEMP TABLE n AS SELECT 1 AS a",
                "CREATE OR REPLACE TABLE t AS SELECT 9 AS a",
            ],
        ),
        Action::CreateView => (
            ToWrite,
            &[
                "CREATE VIEW n AS SELECT a FROM t",
                "CREATE OR REPLACE VIEW v AS SELECT a FROM t",
                "CREATE TEMP VIEW n AS SELECT a FROM t",
            ],
        ),
        Action::CreateSchema => (ToWrite, &["CREATE SCHEMA n"]),
        Action::CreateDatabase => (More, &["CREATE DATABASE n"]),
        Action::CreateIndex => (ToWrite, &["CREATE INDEX n ON t (a)"]),
        Action::CreateFunction => (
            ToWrite,
            &["CREATE FUNCTION n(DOUBLE) RETURNS DOUBLE RETURN $1 + 1"],
        ),
        Action::DropIndex => (ToWrite, &["DROP INDEX IF EXISTS n"]),
        Action::AlterIndex => (ToWrite, &["ALTER INDEX IF EXISTS n SET TABLESPACE near"]),
        Action::CreateSequence => (ToWrite, &["CREATE SEQUENCE m"]),
        Action::AlterSequence => (ToWrite, &["ALTER SEQUENCE q RESTART"]),
        Action::DropSequence => (ToWrite, &["DROP SEQUENCE q", "DROP SEQUENCE IF EXISTS m"]),
        Action::Advance => (
            ToWrite,
            &["SELECT nextval('q')", "SELECT setval('q', 7) FROM t"],
        ),
        Action::DropTable => (ToWrite, &["DROP TABLE t", "DROP TABLE IF EXISTS t"]),
        Action::DropView => (ToWrite, &["DROP VIEW v"]),
        Action::DropSchema => (ToWrite, &["DROP SCHEMA s"]),
        Action::DropFunction => (ToWrite, &["DROP FUNCTION abs"]),
        Action::AlterTable => (
            ToWrite,
            &[
                "ALTER TABLE t SET TABLESPACE near",
                "ALTER TABLE t SET (preload = 3)",
            ],
        ),
        Action::Merge => (ToWrite, &["CALL nearfar.merge('t')"]),
        Action::Checkpoint => (ToWrite, &["CHECKPOINT", "checkpoint"]),
        Action::CreateExternalTable => (
            Files,
            &[
                "CREATE EXTERNAL TABLE n STORED AS CSV LOCATION 'DIR/in.csv' \
                 OPTIONS ('format.has_header' 'true')",
                "CREATE EXTERNAL TABLE n (a INT) STORED AS CSV LOCATION 'DIR/missing.csv'",
            ],
        ),
        Action::InsertIntoFile => (Files, &["INSERT INTO ext VALUES (2)"]),
        Action::CopyToFile => (
            Files,
            &[
                "COPY t TO 'DIR/out.csv'",
                "COPY (SELECT a FROM t) TO 'DIR/out.parquet'",
                "EXPLAIN ANALYZE COPY t TO 'DIR/out.csv'",
            ],
        ),
        Action::CopyFromFile => (
            Files,
            &["COPY t FROM 'DIR/in.csv'", "COPY t FROM 'DIR/missing.csv'"],
        ),
        Action::Nested => (
            More,
            &[
                "PREPARE n AS SET log_sync = off",
                "PREPARE n AS SET datafusion.runtime.temp_directory = '/'",
                "EXPLAIN SET merge_rows = 7",
                "SET merge_rows = 7, merge_bytes = never",
                "SET (merge_rows, merge_bytes) = (7, 7)",
                "ALTER SYSTEM SET merge_rows = 7",
                "ALTER DATABASE nearfar SET merge_rows = 7",
                "ALTER ROLE me SET merge_rows = 7",
                "ALTER SESSION SET merge_rows = 7",
            ],
        ),
    }
}

/// Who runs a statement.
#[derive(Debug, Clone, Copy)]
struct Role {
    name: &'static str,
    options: SessionOptions,
    /// Whether it does so in a transaction that is read-only.
    in_reading: bool,
}

fn roles() -> [Role; 6] {
    let role = |name, is_read_only, may_use_files| Role {
        name,
        options: SessionOptions {
            is_read_only,
            is_local: false,
            may_use_files,
            memory_limit_bytes: None,
        },
        in_reading: false,
    };
    let mut limited = role("limited reader", true, false);
    limited.options.memory_limit_bytes = Some(64 << 20);
    let mut in_reading = role("writer in a read-only transaction", false, true);
    in_reading.in_reading = true;
    [
        role("writer with files", false, true),
        role("writer", false, false),
        role("reader with files", true, true),
        role("reader", true, false),
        limited,
        in_reading,
    ]
}

/// How a statement is refused for want of a right; none where it is not.
fn refusal(result: &Result<String, EngineError>) -> Option<Needs> {
    match result {
        Err(EngineError::Transaction(TransactionError::ReadOnly { .. })) => Some(ToWrite),
        Err(EngineError::Sql(SqlError::FilesRefused { .. })) => Some(Files),
        Err(EngineError::Sql(SqlError::Unsupported { .. })) => Some(More),
        _ => None,
    }
}

/// What a role is to be refused.
fn expected(role: &Role, needs: Needs) -> Option<Needs> {
    let may_write = !role.options.is_read_only && !role.in_reading;
    match needs {
        Nothing => None,
        ToWrite => (!may_write).then_some(ToWrite),
        Files if !role.options.may_use_files => Some(Files),
        Files => (!may_write).then_some(ToWrite),
        More => Some(More),
    }
}

/// An engine with a data directory, and a session that may do everything.
fn engine(directory: &Path) -> (Arc<Engine>, Session) {
    let engine = Engine::new(EngineOptions {
        data: Some(DataOptions::new(directory)),
        ..options()
    });
    let engine = engine.expect("an engine");
    let session = engine.session();
    (engine, session)
}

/// Brings everything back to what statements expect.
async fn restore(admin: &Session, files: &Path) {
    clear(files);
    let files = files.display();
    run(
        admin,
        &format!(
            "DROP SEQUENCE IF EXISTS m; CREATE SEQUENCE IF NOT EXISTS q; ALTER SEQUENCE q RESTART;
             DROP VIEW IF EXISTS n; DROP TABLE IF EXISTS n; DROP SCHEMA IF EXISTS n;
             CREATE OR REPLACE VIEW v AS SELECT 2 AS b;
             CREATE OR REPLACE TABLE t AS SELECT CAST(1 AS INT) AS a;
             CREATE SCHEMA IF NOT EXISTS s;
             CREATE EXTERNAL TABLE IF NOT EXISTS ext (a INT) STORED AS CSV LOCATION '{files}/ext/';
             SET merge_rows = 5; SET merge_bytes = '5MiB'; SET log_sync = '50ms'"
        ),
    )
    .await;
}

/// What a statement that is refused must leave as it was.
async fn contents(admin: &Session, files: &Path) -> String {
    let mut text = String::new();
    for sql in [
        "SELECT table_schema, table_name FROM information_schema.tables \
         WHERE table_schema <> 'information_schema' ORDER BY 1, 2",
        "SELECT t.a, abs(t.a), v.b FROM t, v",
        "SELECT last_value, is_called FROM q",
        "SELECT value FROM information_schema.df_settings WHERE name IN \
         ('nearfar.merge_rows', 'nearfar.merge_bytes', 'nearfar.log_sync') ORDER BY name",
    ] {
        text += &run(admin, sql).await;
    }
    let mut names: Vec<String> = [files.to_owned(), files.join("ext")]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
        .map(|entry| entry.expect("a file").path().display().to_string())
        .collect();
    names.sort();
    text + &names.join("\n")
}

fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    clear(folder.path());
    folder
}

/// Leaves the files that statements expect, and no others.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        match path.is_dir() {
            true => fs::remove_dir_all(path).expect("removed"),
            false => fs::remove_file(path).expect("removed"),
        }
    }
    fs::create_dir(folder.join("ext")).expect("a folder");
    fs::write(folder.join("ext/one.csv"), "1\n").expect("a file");
    fs::write(folder.join("in.csv"), "a\n1\n").expect("a file");
}

async fn in_role(role: &Role, engine: &Arc<Engine>, sql: &str) -> Result<String, EngineError> {
    let session = engine.session_with(role.options);
    if role.in_reading {
        run(&session, "BEGIN READ ONLY").await;
    }
    let read = session.read(sql)?;
    match read[0].client_copy() {
        None => try_run(&session, sql).await,
        Some(ClientCopy::In(_)) => session
            .copied_columns(&read[0])
            .await
            .map(|_| String::new()),
        Some(ClientCopy::Out(_)) => session.copy_out(&read[0]).await.map(|_| String::new()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_is_refused_to_whom_it_is_not_for_and_changes_nothing() {
    let (data, files) = (TempDir::new().expect("a folder"), folder());
    let (engine, admin) = engine(&data.path().join("data"));
    let place = files.path().display().to_string();
    restore(&admin, files.path()).await;
    let before = contents(&admin, files.path()).await;
    for action in Action::ALL {
        let (needs, statements) = statements(*action);
        assert!(!statements.is_empty(), "{action:?} has no statement");
        for (role, statement) in roles()
            .iter()
            .flat_map(|role| statements.iter().map(move |statement| (role, statement)))
        {
            let sql = statement.replace("DIR", &place);
            let result = in_role(role, &engine, &sql).await;
            let (refused, name) = (refusal(&result), role.name);
            let expected = expected(role, needs);
            match expected {
                None => assert_eq!(refused, None, "{name}: {sql}: {result:?}"),
                // What is never supported may be refused as a change before that.
                Some(More) => assert!(result.is_err(), "{name}: {sql}: {result:?}"),
                wanted => assert_eq!(refused, wanted, "{name}: {sql}: {result:?}"),
            }
            if expected.is_some() {
                let after = contents(&admin, files.path()).await;
                assert_eq!(before, after, "{name}: {sql}");
            } else if needs != Nothing {
                restore(&admin, files.path()).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_the_actions_whose_rights_they_need() {
    let (data, files) = (TempDir::new().expect("a folder"), folder());
    let (_engine, admin) = engine(&data.path().join("data"));
    restore(&admin, files.path()).await;
    let place = files.path().display().to_string();
    for action in Action::ALL {
        let (needs, statements) = statements(*action);
        let right = match needs {
            Nothing => Right::Read,
            ToWrite => Right::Write,
            Files => Right::Files,
            // Refused by more than the lack of a right.
            More => action.right(),
        };
        assert_eq!(action.right(), right, "{action:?}");
        for statement in statements {
            let sql = statement.replace("DIR", &place);
            let Ok(read) = admin.read(&sql) else {
                assert_eq!(needs, More, "{sql}");
                continue;
            };
            // The first of a script; an EXECUTE is known to be what was prepared when it runs.
            if let Ok(actions) = admin.actions(&read[0]).await {
                let is_script = read.len() > 1;
                assert!(is_script || actions.contains(action), "{sql}: {actions:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_files_nothing_tells_which_there_are() {
    let (data, files) = (TempDir::new().expect("a folder"), folder());
    let (engine, admin) = engine(&data.path().join("data"));
    restore(&admin, files.path()).await;
    let (there, missing) = (files.path().join("in.csv"), files.path().join("no.csv"));
    let writer = engine.session_with(SessionOptions {
        may_use_files: false,
        ..SessionOptions::default()
    });
    let mut tested = 0;
    for statement in [
        "CREATE EXTERNAL TABLE n STORED AS CSV LOCATION 'FILE'",
        "CREATE EXTERNAL TABLE n (a INT) STORED AS PARQUET LOCATION 'FILE'",
        "EXPLAIN CREATE EXTERNAL TABLE n STORED AS CSV LOCATION 'FILE'",
        "COPY t FROM 'FILE'",
        "COPY t FROM 'FILE' (FORMAT csv)",
        "COPY nothing FROM 'FILE'",
        "COPY t TO 'FILE'",
        "COPY t TO 'FILE' STORED AS CSV",
        "EXPLAIN COPY t TO 'FILE'",
        "EXPLAIN ANALYZE COPY t TO 'FILE' STORED AS CSV",
        "SELECT * FROM 'FILE'",
        "SELECT * FROM \"FILE\"",
        "SELECT * FROM read_csv('FILE')",
        "SELECT * FROM read_parquet('FILE')",
        "SELECT * FROM parquet_metadata('FILE')",
        "EXPLAIN SELECT * FROM 'FILE'",
        "DESCRIBE 'FILE'",
        "CREATE VIEW n AS SELECT * FROM 'FILE'",
        "PREPARE n AS SELECT * FROM 'FILE'",
        "SELECT pg_read_file('FILE')",
        "COPY t TO PROGRAM 'cat FILE'",
        "COPY t FROM PROGRAM 'cat FILE'",
        "LOAD 'FILE'",
        "SET datafusion.runtime.temp_directory = 'FILE'",
        "SET datafusion.catalog.location = 'FILE'",
        "CREATE DATABASE n LOCATION 'FILE'",
        "INSERT INTO 'FILE' VALUES (1)",
    ] {
        let message = async |path: &Path| {
            let path = path.display().to_string();
            let result = try_run(&writer, &statement.replace("FILE", &path)).await;
            let error = result.expect_err(statement).to_string();
            error.replace(&path, "FILE")
        };
        assert_eq!(
            message(&there).await,
            message(&missing).await,
            "{statement}"
        );
        tested += 1;
    }
    assert!(tested > 20);
    assert!(!missing.exists());
    assert_eq!(fs::read_to_string(there).expect("as it was"), "a\n1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spills_stays_where_the_engine_puts_it() {
    let elsewhere = TempDir::new().expect("a folder");
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    let place = elsewhere.path().display();
    for sql in [
        format!("SET datafusion.runtime.temp_directory = '{place}'"),
        format!("SET LOCAL datafusion.runtime.temp_directory = '{place}'"),
        format!("SET \"datafusion.runtime.temp_directory\" = '{place}'"),
        format!("SET DataFusion.Runtime.Temp_Directory TO '{place}'"),
        "RESET datafusion.runtime.temp_directory".to_owned(),
        "SET datafusion.runtime.max_temp_directory_size = '1T'".to_owned(),
        "SET datafusion.runtime.memory_limit = '1T'".to_owned(),
        "SET datafusion.runtime.nothing = 1".to_owned(),
    ] {
        let refused = try_run(&session, &sql).await.expect_err(&sql);
        assert!(
            matches!(refused, EngineError::Sql(SqlError::FixedSetting { .. })),
            "{sql}: {refused}"
        );
    }
    let rows = "SELECT value AS k, 'text ' || value AS s FROM generate_series(1, 600000)";
    run(
        &session,
        &format!("CREATE TABLE t AS {rows}; SET memory_limit = '32MiB'"),
    )
    .await;
    let sort = "SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY s, k) AS r FROM t)";
    let analyzed = run(&session, &format!("EXPLAIN ANALYZE {sort}")).await;
    assert!(analyzed.contains("spilled: "), "{analyzed}");
    let left = fs::read_dir(elsewhere.path()).expect("a folder").count();
    assert_eq!(left, 0);
    let shown = run(
        &session,
        "SELECT name, value FROM information_schema.df_settings WHERE value LIKE '%/%'",
    )
    .await;
    let temp = std::env::temp_dir().display().to_string();
    assert!(!shown.contains(&temp), "{shown}");
}
