//! What users may do over the wire, in every spelling; and what drivers send by themselves.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use nearfar_server::{Role, ServerOptions, ServerState, User, Users};
use tempfile::TempDir;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::support::{
    Running, code, connect, message, options, read_until, start, start_with, startup,
};

const PASSWORD: &str = "correct horse";

fn users() -> Option<Users> {
    let user = |name, role| User::new(name, role, PASSWORD).expect("a user");
    Some(Users::new([
        user("ann", Role::ReadWrite),
        user("bob", Role::ReadOnly),
    ]))
}

async fn client(server: &Running, user: &str) -> Client {
    let mut config = server.config();
    connect(config.user(user).password(PASSWORD))
        .await
        .expect("connected")
}

/// The only value of the last row.
async fn shown(client: &Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await.expect(sql);
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(row.len() - 1),
        _ => None,
    });
    rows.last().expect("a row").to_owned()
}

/// Statements, and the SQLSTATEs with which they are refused to a writer and to a reader; nothing
/// where they are not.
const STATEMENTS: [(&str, &str, &str); 34] = [
    ("SELECT a FROM t", "", ""),
    ("SHOW merge_rows", "", ""),
    ("SET memory_limit = '1GiB'", "", ""),
    ("RESET ALL", "", ""),
    ("DISCARD ALL", "", ""),
    ("DEALLOCATE ALL", "", ""),
    ("CALL nearfar.load('t')", "", ""),
    ("SET merge_rows = 7", "", "25006"),
    ("SET SESSION merge_rows = 7", "", "25006"),
    ("SET LOCAL merge_rows = 7", "55P02", "25006"),
    ("SET nearfar.merge_bytes = '7MiB'", "", "25006"),
    ("RESET merge_rows", "", "25006"),
    (
        "SELECT set_config('merge_rows', '7', false)",
        "55P02",
        "55P02",
    ),
    ("RESET merge_bytes", "", "25006"),
    ("SET merge_rows = DEFAULT", "", "25006"),
    ("SET nearfar.log_sync = 'off'", "-", "25006"),
    ("RESET nearfar.log_sync", "-", "25006"),
    ("CHECKPOINT", "-", "25006"),
    ("INSERT INTO t VALUES (2)", "", "25006"),
    ("UPDATE t SET a = 2", "", "25006"),
    ("DELETE FROM t WHERE a = 9", "", "25006"),
    ("TRUNCATE u", "", "25006"),
    ("CREATE TABLE n AS SELECT 1 AS a", "", "25006"),
    ("CREATE VIEW m AS SELECT a FROM t", "", "25006"),
    ("ALTER TABLE t SET TABLESPACE near", "", "25006"),
    ("CALL nearfar.merge('t')", "", "25006"),
    ("DROP TABLE u", "", "25006"),
    ("COPY t TO '/nowhere/out.csv'", "42501", "42501"),
    ("COPY t FROM '/nowhere/in.csv'", "42501", "42501"),
    (
        "CREATE EXTERNAL TABLE f STORED AS CSV LOCATION '/nowhere/in.csv'",
        "42501",
        "42501",
    ),
    (
        "SET datafusion.runtime.temp_directory = '/nowhere'",
        "55P02",
        "55P02",
    ),
    (
        "SET datafusion.execution.batch_size = 200000000",
        "22023",
        "22023",
    ),
    ("SET work_mem = '1GB'", "42704", "42704"),
    ("SET SESSION AUTHORIZATION eve", "42501", "42501"),
];

async fn check(client: &Client, role: &str, codes: impl Fn(&(&str, &str, &str)) -> String) {
    for statement in &STATEMENTS {
        let (sql, expected) = (statement.0, codes(statement));
        let result = client.batch_execute(sql).await;
        match expected.as_str() {
            "" => assert!(result.is_ok(), "{role}: {sql}: {result:?}"),
            // Refused, but not for want of a right.
            "-" => assert_ne!(code(result), "25006", "{role}: {sql}"),
            expected => assert_eq!(code(result), expected, "{role}: {sql}"),
        }
    }
}

const TABLES: &str = "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE u AS SELECT 1 AS a";

#[tokio::test(flavor = "multi_thread")]
async fn every_role_may_what_it_is_for() {
    let server = start_with(ServerOptions {
        users: users(),
        ..options()
    })
    .await;
    let (writer, reader) = (client(&server, "ann").await, client(&server, "bob").await);
    writer.batch_execute(TABLES).await.expect("made");
    let before = shown(&writer, "SHOW merge_rows").await;
    check(&reader, "reader", |(_, _, reader)| (*reader).to_owned()).await;
    assert_eq!(before, shown(&writer, "SHOW merge_rows").await);
    assert_eq!("1", shown(&writer, "SELECT count(*) FROM u").await);
    check(&writer, "writer", |(_, writer, _)| (*writer).to_owned()).await;
    server.state.set(ServerState::Standby);
    let mut config = server.config();
    for user in ["ann", "bob"] {
        let refused = connect(config.user(user).password(PASSWORD)).await;
        assert_eq!(code(refused), "57P03");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_users_everybody_writes_and_has_no_files() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(TABLES).await.expect("made");
    check(&client, "anybody", |(_, writer, _)| (*writer).to_owned()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_for_writers_where_they_are_allowed() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("out.csv").display().to_string();
    let server = start_with(ServerOptions {
        users: users(),
        may_use_files: true,
        ..options()
    })
    .await;
    let (writer, reader) = (client(&server, "ann").await, client(&server, "bob").await);
    writer.batch_execute(TABLES).await.expect("made");
    let copy = format!("COPY t TO '{path}'");
    assert_eq!(code(reader.batch_execute(&copy).await), "42501");
    assert!(fs::metadata(&path).is_err());
    writer.batch_execute(&copy).await.expect("written");
    assert!(fs::metadata(&path).is_ok());
    let temporary = format!("SET datafusion.runtime.temp_directory = '{path}'");
    assert_eq!(code(writer.batch_execute(&temporary).await), "55P02");
    let from = format!("COPY t FROM '{path}'");
    assert_eq!(code(reader.batch_execute(&from).await), "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_hold_for_prepared_statements_too() {
    let server = start_with(ServerOptions {
        users: users(),
        ..options()
    })
    .await;
    let (writer, reader) = (client(&server, "ann").await, client(&server, "bob").await);
    writer.batch_execute(TABLES).await.expect("made");
    for (sql, expected) in [
        ("INSERT INTO t VALUES (2)", "25006"),
        ("SET merge_rows = 7", "25006"),
        ("RESET merge_rows", "25006"),
        ("CHECKPOINT", "25006"),
        ("COPY t TO '/nowhere/out.csv'", "42501"),
    ] {
        assert_eq!(code(reader.execute(sql, &[]).await), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_clients_connect_with_are_checked() {
    let server = start_with(ServerOptions {
        users: users(),
        ..options()
    })
    .await;
    for (user, given, expected) in [
        ("bob", "-c merge_rows=7", "25006"),
        ("bob", "-c nearfar.log_sync=off", "25006"),
        ("ann", "-c datafusion.runtime.temp_directory=/", "55P02"),
        (
            "ann",
            "-c datafusion.execution.batch_size=200000000",
            "22023",
        ),
        ("bob", "-c memory_limit=soon", "22023"),
        ("bob", "-c statement_timeout=soon", "22023"),
        (
            "bob",
            "-c statement_timeout=5s -c memory_limit=1GiB -c jit=off",
            "",
        ),
        ("bob", "-c datafusion.execution.batch_size=100", ""),
    ] {
        let mut config = server.config();
        let connected = connect(config.user(user).password(PASSWORD).options(given)).await;
        match expected {
            "" => drop(connected.expect(given)),
            expected => assert_eq!(code(connected), expected, "{given}"),
        }
    }
    let mut config = server.config();
    config.user("bob").password(PASSWORD);
    let given = "-c memory_limit=1GiB -c datafusion.execution.batch_size=100";
    let reader = connect(config.options(given)).await.expect("connected");
    assert_eq!(shown(&reader, "SHOW memory_limit").await, "1073741824B");
    let size = shown(&reader, "SHOW datafusion.execution.batch_size").await;
    assert_eq!(size, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_drivers_send_between_their_users_is_answered() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TEMP TABLE t AS SELECT 1 AS a; SET statement_timeout = '7s';
             SET application_name = 'one'; SET memory_limit = '64MiB'; PREPARE p AS SELECT 1",
        )
        .await
        .expect("set");
    // What psycopg and asyncpg send when a connection is given back.
    client
        .batch_execute("BEGIN; SELECT 1; ROLLBACK; DEALLOCATE ALL")
        .await
        .expect("given back");
    assert_eq!(code(client.batch_execute("EXECUTE p").await), "26000");
    client
        .batch_execute("CLOSE ALL; UNLISTEN *; RESET ALL")
        .await
        .expect("given back");
    assert_eq!(shown(&client, "SHOW statement_timeout").await, "0");
    assert_eq!(shown(&client, "SHOW application_name").await, "");
    assert_eq!(shown(&client, "SHOW memory_limit").await, "engine");
    client
        .batch_execute("SELECT a FROM t")
        .await
        .expect("still there");
    client
        .batch_execute(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
             SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; RESET SESSION AUTHORIZATION;
             SET SESSION AUTHORIZATION DEFAULT; SET SESSION AUTHORIZATION me; SET ROLE NONE;
             RESET ROLE; DISCARD PLANS; DISCARD SEQUENCES; SET application_name = 'two'",
        )
        .await
        .expect("taken");
    client
        .batch_execute("DISCARD ALL")
        .await
        .expect("discarded");
    assert_eq!(shown(&client, "SHOW application_name").await, "");
    assert_eq!(code(client.batch_execute("SELECT a FROM t").await), "42P01");
    assert_eq!(
        code(client.batch_execute("BEGIN; DISCARD ALL").await),
        "25001"
    );
}

/// Sends messages and a sync, and gives the SQLSTATE of the error among the answers, if there is one.
fn answered(stream: &mut TcpStream, messages: &[Vec<u8>]) -> Option<String> {
    let mut sent = messages.concat();
    sent.extend(message(b'S', b""));
    stream.write_all(&sent).expect("sent");
    let answers = read_until(stream, b'Z');
    let (_, error) = answers.into_iter().find(|(kind, _)| *kind == b'E')?;
    Some(error_code(&error))
}

/// The SQLSTATE in the body of an error.
fn error_code(error: &[u8]) -> String {
    let mut fields = error.split(|byte| *byte == 0);
    let code = fields.find_map(|field| field.strip_prefix(b"C"));
    String::from_utf8_lossy(code.expect("a code")).into_owned()
}

fn parse(name: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0SELECT 1\0\0\0").as_bytes())
}

fn bind(name: &str) -> Vec<u8> {
    message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_of_sql_and_of_messages_have_one_set_of_names() {
    let server = start().await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    let sql = |stream: &mut TcpStream, sql: &str| {
        let text = message(b'Q', format!("{sql}\0").as_bytes());
        stream.write_all(&text).expect("sent");
        let answers = read_until(stream, b'Z');
        let error = answers.iter().find(|(kind, _)| *kind == b'E');
        error.map(|(_, error)| error_code(error))
    };
    let is = |code: &str| Some(code.to_owned());
    assert_eq!(answered(&mut stream, &[parse("p")]), None);
    assert_eq!(sql(&mut stream, "PREPARE p AS SELECT 2"), is("42P05"));
    assert_eq!(answered(&mut stream, &[bind("p")]), None);
    assert_eq!(sql(&mut stream, "DEALLOCATE p"), None);
    assert_eq!(answered(&mut stream, &[bind("p")]), is("26000"));
    assert_eq!(sql(&mut stream, "PREPARE p AS SELECT 2"), None);
    assert_eq!(answered(&mut stream, &[parse("p")]), is("42P05"));
    assert_eq!(answered(&mut stream, &[parse("q"), bind("q")]), None);
    assert_eq!(sql(&mut stream, "DEALLOCATE ALL"), None);
    assert_eq!(answered(&mut stream, &[bind("q")]), is("26000"));
    assert_eq!(sql(&mut stream, "EXECUTE p"), is("26000"));
    assert_eq!(answered(&mut stream, &[parse("p")]), None);
    assert_eq!(sql(&mut stream, "BEGIN; SELECT 1 / 0"), is("22012"));
    assert_eq!(sql(&mut stream, "DEALLOCATE p"), is("25P02"));
    assert_eq!(sql(&mut stream, "ROLLBACK; DEALLOCATE ALL"), None);
    assert_eq!(answered(&mut stream, &[bind("p")]), is("26000"));
}
