//! Rows that clients copy in and out.

use std::io::Write;
use std::pin::pin;
use std::process::{Command, Stdio};

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use nearfar_server::{Role, ServerOptions, User, Users};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::support::{
    Running, code, connect, message, not_tested, options, read_until, start, start_with, startup,
};

const CREATE: &str = "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR, c DOUBLE, d DATE, e DECIMAL(12, 2), \
                      f BOOLEAN, g TIMESTAMP, h BYTEA)";

async fn created(server: &Running) -> Client {
    let client = server.client().await;
    client.batch_execute(CREATE).await.expect("created");
    client
}

/// Sends pieces of rows and ends with all of them.
async fn copy_in(client: &Client, sql: &str, pieces: &[&[u8]]) -> Result<u64, Error> {
    let mut sink = pin!(client.copy_in(sql).await?);
    for piece in pieces {
        // Refused rows are told at the end.
        if sink.send(Bytes::copy_from_slice(piece)).await.is_err() {
            break;
        }
    }
    sink.finish().await
}

async fn bytes_out(client: &Client, sql: &str) -> Vec<u8> {
    let rows = client.copy_out(sql).await.expect("begun");
    let rows: Vec<Bytes> = rows.try_collect().await.expect("all rows");
    rows.concat()
}

async fn copy_out(client: &Client, sql: &str) -> String {
    String::from_utf8(bytes_out(client, sql).await).expect("text")
}

async fn count(client: &Client) -> i64 {
    let row = client.query_one("SELECT count(*) FROM t", &[]).await;
    row.expect("counted").get(0)
}

const ROWS: &str = "1\tone\t0.5\t2024-02-29\t12.50\tt\t2024-05-06 07:08:09.123\t\\\\x00ff\n\
                    -2\ta\\tb\\\\c\\nd\tNaN\t\\N\t\\N\tf\t\\N\t\\N\n\
                    3\t\t\\N\t1969-12-31\t-0.01\t\\N\t1969-12-31 23:59:59.999999\t\\\\x\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_copied_out_is_what_was_copied_in() {
    let server = start().await;
    let client = created(&server).await;
    let (first, second) = ROWS.as_bytes().split_at(31);
    let copied = copy_in(&client, "COPY t FROM STDIN", &[first, second]).await;
    assert_eq!(copied.expect("copied"), 3);
    let out = copy_out(&client, "COPY (SELECT * FROM t ORDER BY abs(a)) TO STDOUT").await;
    for (written, given) in out.lines().zip(ROWS.lines()) {
        let values = written.split('\t').zip(given.split('\t'));
        for (written, given) in values {
            assert!(written.starts_with(given), "{written} is not {given}");
        }
    }
    for form in [
        "TEXT",
        "CSV, HEADER",
        "CSV, DELIMITER ';', NULL 'nil', QUOTE '''', ESCAPE '\\'",
        "BINARY",
    ] {
        let out = bytes_out(&client, &format!("COPY t TO STDOUT (FORMAT {form})")).await;
        client
            .batch_execute("CREATE TABLE before AS SELECT * FROM t; DELETE FROM t")
            .await
            .expect(form);
        let sql = format!("COPY t FROM STDIN (FORMAT {form})");
        let copied = copy_in(&client, &sql, &[&out]).await;
        assert_eq!(copied.expect(form), 3);
        let same = "SELECT count(*) FROM (SELECT * FROM t INTERSECT SELECT * FROM before)";
        let same = client.query_one(same, &[]).await.expect(form);
        assert_eq!(same.get::<_, i64>(0), 3, "{form}: {out:?}");
        client.batch_execute("DROP TABLE before").await.expect(form);
    }
}

/// Values of all types, at their limits, and nulls.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_all_types_are_copied_in_binary_form() {
    let server = start().await;
    let client = server.client().await;
    for (kind, values) in [
        ("SMALLINT", "-32768|32767"),
        ("INT", "-2147483648|2147483647"),
        ("BIGINT", "-9223372036854775808|9223372036854775807"),
        ("REAL", "0|-1.5|NaN|Infinity"),
        ("DOUBLE PRECISION", "0|-1e300|NaN|-Infinity"),
        ("DECIMAL(9, 2)", "0|-0.01|9999999.99"),
        (
            "DECIMAL(38, 36)",
            "0|0.000000000000000000000000000000000001|99",
        ),
        (
            "DECIMAL(38, 0)",
            "0|-99999999999999999999999999999999999999",
        ),
        ("BOOLEAN", "true|false"),
        ("DATE", "0001-01-01|1999-12-31|9999-12-31"),
        ("TIME", "00:00:00|23:59:59.999999"),
        (
            "TIMESTAMP",
            "1900-01-01T00:00:00.000001|2261-12-31T23:59:59",
        ),
        ("TIMESTAMPTZ", "1900-01-01T00:00:00Z|2261-12-31T23:59:59Z"),
        ("INTERVAL", "1 mon|-3 days|0.000001 secs"),
        ("VARCHAR", "text|\u{e4}\u{1f642}"),
        ("BYTEA", "\\x|\\x00ff"),
        ("INT[]", "{}|{1,NULL,-3}"),
        ("VARCHAR[]", "{}|{a,NULL,b}"),
    ] {
        let rows = values
            .split('|')
            .map(|value| format!("('{value}'::{kind})"));
        let rows: Vec<String> = rows.chain(["(NULL)".to_owned()]).collect();
        let made = format!(
            "CREATE TABLE v (a {kind}); INSERT INTO v VALUES {}",
            rows.join(", ")
        );
        client.batch_execute(&made).await.expect(kind);
        let out = bytes_out(&client, "COPY v TO STDOUT BINARY").await;
        let before = copy_out(&client, "COPY v TO STDOUT").await;
        client.batch_execute("DELETE FROM v").await.expect(kind);
        let copied = copy_in(&client, "COPY v FROM STDIN BINARY", &[&out]).await;
        assert_eq!(copied.expect(kind), rows.len() as u64, "{kind}");
        assert_eq!(
            copy_out(&client, "COPY v TO STDOUT").await,
            before,
            "{kind}"
        );
        client.batch_execute("DROP TABLE v").await.expect(kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_binary_form_cannot_hold_is_refused() {
    let server = start().await;
    let client = server.client().await;
    let tables =
        "CREATE TABLE nested (a VARCHAR[][]); CREATE TABLE none (); CREATE TABLE days (a DATE)";
    client.batch_execute(tables).await.expect("made");
    for table in ["nested", "none"] {
        // Of copies that are refused before they begin, this client is told more than it waits for.
        let client = server.client().await;
        let sql = format!("COPY {table} FROM STDIN BINARY");
        let refused = copy_in(&client, &sql, &[b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\0"]).await;
        assert_eq!(code(refused), "0A000", "{table}");
    }
    // As PostgreSQL writes `-infinity`.
    let infinite = [
        &b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04"[..],
        &i32::MIN.to_be_bytes(),
    ]
    .concat();
    let client = server.client().await;
    let refused = copy_in(&client, "COPY days FROM STDIN BINARY", &[&infinite]).await;
    assert_eq!(code(refused), "22P03");
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_rows_are_those_of_another_implementation() {
    let server = start().await;
    let client = created(&server).await;
    let types = [
        Type::INT8,
        Type::VARCHAR,
        Type::FLOAT8,
        Type::BOOL,
        Type::BYTEA,
    ];
    let sink = client
        .copy_in("COPY t (a, b, c, f, h) FROM STDIN BINARY")
        .await;
    let mut writer = pin!(BinaryCopyInWriter::new(sink.expect("begun"), &types));
    let row: [&(dyn ToSql + Sync); 5] = [&1_i64, &"one", &0.5_f64, &true, &&b"\0\xff"[..]];
    writer.as_mut().write(&row).await.expect("sent");
    let row: [&(dyn ToSql + Sync); 5] = [
        &-2_i64,
        &None::<&str>,
        &f64::NAN,
        &None::<bool>,
        &None::<&[u8]>,
    ];
    writer.as_mut().write(&row).await.expect("sent");
    assert_eq!(writer.finish().await.expect("copied"), 2);
    let query = "COPY (SELECT a, b, c, f, h FROM t ORDER BY a) TO STDOUT (FORMAT binary)";
    let stream = client.copy_out(query).await.expect("begun");
    let rows: Vec<_> = BinaryCopyOutStream::new(stream, &types)
        .try_collect()
        .await
        .expect("all rows");
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].get::<i64>(0), rows[1].get::<i64>(0)), (-2, 1));
    assert_eq!(rows[0].get::<Option<&str>>(1), None);
    assert_eq!(rows[1].get::<&str>(1), "one");
    assert!(rows[0].get::<f64>(2).is_nan());
    assert_eq!(rows[1].get::<Option<bool>>(3), Some(true));
    assert_eq!(rows[1].get::<&[u8]>(4), b"\0\xff");
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_rows_that_are_wrong_leave_nothing() {
    let server = start().await;
    let client = created(&server).await;
    let query = "COPY (SELECT CAST(1 AS BIGINT) AS a, 'x' AS b) TO STDOUT BINARY";
    let whole = bytes_out(&client, query).await;
    let sql = "COPY t (a, b) FROM STDIN BINARY";
    let cut = &whole[..whole.len() - 3];
    let huge = [cut, &[0x7f; 64]].concat();
    for rows in [cut, b"1\tx\n", b"", &huge] {
        assert_eq!(code(copy_in(&client, sql, &[rows]).await), "22P04");
        assert_eq!(count(&client).await, 0);
    }
    let one = "COPY t (a) FROM STDIN BINARY";
    assert_eq!(code(copy_in(&client, one, &[&whole]).await), "22P04");
    let pieces: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(copy_in(&client, sql, &pieces).await.expect("copied"), 1);
    assert_eq!(copy_out(&client, "COPY t (a, b) TO STDOUT").await, "1\tx\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_may_be_named_in_any_order() {
    let server = start().await;
    let client = created(&server).await;
    let copied = copy_in(
        &client,
        "COPY t (b, a) FROM STDIN (FORMAT csv)",
        &[b"x,1\n,2\n"],
    )
    .await;
    assert_eq!(copied.expect("copied"), 2);
    let out = copy_out(&client, "COPY t (a, b) TO STDOUT (FORMAT csv, HEADER)").await;
    assert_eq!(out, "a,b\n1,x\n2,\n");
    for (columns, refused) in [("(z)", "42703"), ("(a, a)", "42701"), ("(b)", "23502")] {
        let sql = format!("COPY t {columns} FROM STDIN");
        assert_eq!(code(copy_in(&client, &sql, &[b"1\t2\n"]).await).len(), 5);
        let told = code(copy_in(&client, &sql, &[b"1\n"]).await);
        assert_eq!(told, refused, "{columns}");
    }
    assert_eq!(count(&client).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_copied_in_a_few_batches() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
        .await
        .expect("created");
    let rows: String = (0..200_000).map(|i| format!("{i}\trow {i}\n")).collect();
    let pieces: Vec<&[u8]> = rows.as_bytes().chunks(10_007).collect();
    let copied = copy_in(&client, "COPY t FROM STDIN", &pieces).await;
    assert_eq!(copied.expect("copied"), 200_000);
    assert_eq!(
        copy_out(&client, "COPY (SELECT * FROM t ORDER BY a) TO STDOUT").await,
        rows
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_leaves_nothing_and_names_its_line() {
    let server = start().await;
    let client = created(&server).await;
    let good = "1\tx\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n".repeat(20_000);
    for (wrong, refused) in [
        ("y\tx\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n", "22P02"),
        ("1\tx\n", "22P04"),
        ("\\N\tx\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n", "23502"),
    ] {
        let pieces = [good.as_bytes(), wrong.as_bytes(), good.as_bytes()];
        let error = copy_in(&client, "COPY t FROM STDIN", &pieces)
            .await
            .expect_err("refused");
        let error = error.as_db_error().expect("of the server");
        assert_eq!(error.code().code(), refused);
        assert!(error.message().contains("COPY t, line 20001: "), "{error}");
        assert_eq!(count(&client).await, 0);
    }
    for sql in [
        "COPY t FROM STDIN (FORMAT parquet)",
        "COPY nothing FROM STDIN",
        "COPY t FROM STDIN (NULL '\n')",
        "COPY t FROM STDIN (FORMAT binary, HEADER)",
    ] {
        assert!(
            ["0A000", "42P01", "22023"].contains(&code(copy_in(&client, sql, &[]).await).as_str())
        );
    }
    assert_eq!(
        code(client.batch_execute("COPY t FROM PROGRAM 'ls'").await),
        "0A000"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_part_of_the_transaction() {
    let server = start().await;
    let (client, other) = (created(&server).await, server.client().await);
    let row: &[u8] = b"1,x,,,,,,\n";
    client.batch_execute("BEGIN").await.expect("begun");
    copy_in(&client, "COPY t FROM STDIN CSV", &[row])
        .await
        .expect("copied");
    assert_eq!((count(&client).await, count(&other).await), (1, 0));
    client
        .batch_execute("ROLLBACK; BEGIN")
        .await
        .expect("rolled back");
    copy_in(&client, "COPY t FROM STDIN CSV", &[row])
        .await
        .expect("copied");
    assert_eq!(
        code(copy_in(&client, "COPY t FROM STDIN CSV", &[b"x"]).await),
        "22P04"
    );
    assert_eq!(code(client.batch_execute("SELECT 1").await), "25P02");
    client.batch_execute("COMMIT").await.expect("rolled back");
    assert_eq!(count(&other).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_given_up_leaves_nothing() {
    let server = start().await;
    let client = created(&server).await;
    let begin = async || {
        let mut sink = Box::pin(
            client
                .copy_in("COPY t FROM STDIN CSV")
                .await
                .expect("begun"),
        );
        sink.feed(Bytes::from_static(b"1,x,,,,,,\n"))
            .await
            .expect("sent");
        sink.flush().await.expect("sent");
        sink
    };
    // Ended by its client or by the server, so many so far.
    let given_up = async |count: f64| {
        let is_told = |it: &Running| it.metric("nearfar_errors_total{class=\"57\"}") >= count;
        server.wait_until("the end of a copy", is_told).await;
    };
    // A message that the client gives up.
    drop(begin().await);
    assert_eq!(count(&client).await, 0);
    let cancel = client.cancel_token();
    let mut sink = begin().await;
    cancel
        .cancel_query(tokio_postgres::NoTls)
        .await
        .expect("sent");
    given_up(2.0).await;
    assert_eq!(code(sink.as_mut().finish().await), "57014");
    // A connection that is lost.
    let mut stream = server.raw();
    let query = message(b'Q', b"COPY t FROM STDIN CSV\0");
    let rows = message(b'd', b"1,x,,,,,,\n");
    stream
        .write_all(&[startup(), query, rows].concat())
        .expect("sent");
    read_until(&mut stream, b'G');
    drop(stream);
    server
        .wait_until("its end", |it| it.metric("nearfar_sessions") <= 1.0)
        .await;
    assert_eq!(count(&client).await, 0);
    client
        .batch_execute("SET statement_timeout = '3s'")
        .await
        .expect("set");
    let mut sink = begin().await;
    given_up(3.0).await;
    assert_eq!(code(sink.as_mut().finish().await), "57014");
    assert_eq!(count(&client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_users_copy_out_only() {
    let user = |name, role| User::new(name, role, "secret word").expect("a user");
    let users = Users::new([user("ann", Role::ReadWrite), user("bob", Role::ReadOnly)]);
    let server = start_with(ServerOptions {
        users: Some(users),
        ..options()
    })
    .await;
    let mut config = server.config();
    config.password("secret word");
    let writer = connect(config.user("ann")).await.expect("connected");
    let reader = connect(config.user("bob")).await.expect("connected");
    writer
        .batch_execute("CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("created");
    assert_eq!(
        code(copy_in(&reader, "COPY t FROM STDIN", &[b"2\n"]).await),
        "25006"
    );
    assert_eq!(copy_out(&reader, "COPY t TO STDOUT").await, "1\n");
    reader.batch_execute("BEGIN").await.expect("begun");
    assert_eq!(
        code(copy_in(&reader, "COPY t FROM STDIN", &[b"2\n"]).await),
        "25006"
    );
}

/// What comes behind rows that were refused is passed over, whatever its length.
#[tokio::test(flavor = "multi_thread")]
async fn the_connection_goes_on_after_refused_rows() {
    let server = start_with(ServerOptions {
        max_message_bytes: 10_000,
        ..options()
    })
    .await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("created");
    let mut stream = server.raw();
    let long = vec![b'1'; 20_000];
    for rows in [&b"1\n2\t3\n"[..], &long] {
        let query = message(b'Q', b"COPY t FROM STDIN\0");
        let rows = message(b'd', rows);
        let after = [
            rows.clone(),
            message(b'd', &long),
            message(b'c', b""),
            message(b'Q', b"SELECT 7\0"),
        ];
        stream
            .write_all(&[&startup()[..], &query, &rows].concat())
            .expect("sent");
        read_until(&mut stream, b'E');
        read_until(&mut stream, b'Z');
        stream.write_all(&after.concat()).expect("sent");
        let answers = read_until(&mut stream, b'Z');
        assert!(
            answers
                .iter()
                .any(|(kind, body)| *kind == b'D' && body.ends_with(b"7")),
            "{answers:?}"
        );
        stream = server.raw();
    }
    let other = message(b'Q', b"COPY t FROM STDIN\0");
    let other = [startup(), other, message(b'Q', b"SELECT 7\0")].concat();
    stream.write_all(&other).expect("sent");
    let answers = read_until(&mut stream, b'E');
    assert!(answers.iter().any(|(kind, _)| *kind == b'G'));
    assert_eq!(count(&client).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_copies_files() {
    let Ok(psql) = Command::new("psql").arg("--version").output() else {
        not_tested("psql is not installed");
        return;
    };
    assert!(psql.status.success());
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
        .await
        .expect("created");
    let folder = tempfile::tempdir().expect("a folder");
    let (given, taken) = (
        folder.path().join("given.csv"),
        folder.path().join("taken.csv"),
    );
    let text = "a,b\n1,\"x, y\"\n2,\n3,\"\"\n";
    std::fs::write(&given, text).expect("written");
    let script = format!(
        "\\copy t from '{}' csv header\n\\copy t to '{}' with (format csv, header)\n\
         COPY t FROM STDIN;\n4\tfour\n\\.\nSELECT count(*) FROM t;\n",
        given.display(),
        taken.display()
    );
    let mut psql = Command::new("psql")
        .args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "me",
        ])
        .args(["-p", &server.address.port().to_string(), "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    psql.stdin
        .take()
        .expect("piped")
        .write_all(script.as_bytes())
        .expect("sent");
    let ended = tokio::task::spawn_blocking(move || psql.wait_with_output()).await;
    let ended = ended.expect("waited").expect("waited");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "4");
    assert_eq!(std::fs::read_to_string(taken).expect("written"), text);
}
