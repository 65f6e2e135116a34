//! Texts that clients prepare without a name, again and again.

use std::io::Write;
use std::net::TcpStream;

use tokio_postgres::SimpleQueryMessage;

use crate::support::{message, read_until, start, startup};

/// What a client is told of a text that it prepares without a name, with a type for its parameter: the types of
/// parameters, the columns, and the first value, or the code of an error.
fn prepared_without_name(stream: &mut TcpStream, sql: &str, kind: u32, value: &str) -> Told {
    let mut parse = [b"\0", sql.as_bytes(), b"\0\0\x01"].concat();
    parse.extend(kind.to_be_bytes());
    let mut bind = b"\0\0\0\0\0\x01".to_vec();
    bind.extend((value.len() as u32).to_be_bytes());
    bind.extend(value.as_bytes());
    bind.extend([0, 0]);
    for (kind, body) in [
        (b'P', &parse[..]),
        (b'D', b"S\0"),
        (b'B', &bind),
        (b'E', b"\0\0\0\0\0"),
        (b'S', b""),
    ] {
        stream.write_all(&message(kind, body)).expect("sent");
    }
    let mut told = Told::default();
    for (kind, body) in read_until(stream, b'Z') {
        let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        match kind {
            b't' => told.parameter = u32::from_be_bytes([body[2], body[3], body[4], body[5]]),
            b'T' => told.columns = number(0),
            b'D' => {
                let last = body.rsplit(|byte| *byte < b' ').next();
                told.last = String::from_utf8_lossy(last.unwrap_or_default()).into_owned();
            }
            b'E' => {
                let text = String::from_utf8_lossy(&body).into_owned();
                let code = text.split('\0').find_map(|field| field.strip_prefix('C'));
                told.error = code.unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }
    told
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    parameter: u32,
    columns: u16,
    /// The last value of the last row.
    last: String,
    error: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_prepared_again_are_described_as_tables_are_now() {
    const INT4: u32 = 23;
    const INT8: u32 = 20;
    let server = start().await;
    let other = server.client().await;
    let change = async |sql: &str| other.batch_execute(sql).await.expect("changed");
    change("CREATE TABLE t (k INT PRIMARY KEY, a VARCHAR); INSERT INTO t VALUES (1, 'ann')").await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    let mut ask = |kind: u32| {
        let sql = "SELECT * FROM t WHERE k = $1";
        let told = prepared_without_name(&mut stream, sql, kind, "1");
        (told.parameter, told.columns, told.last, told.error)
    };
    let found = |kind, columns, last: &str| (kind, columns, last.to_owned(), String::new());
    for _ in 0..3 {
        assert_eq!(ask(0), found(INT4, 2, "ann"));
    }
    assert_eq!(ask(INT8), found(INT8, 2, "ann"), "with another type");
    assert_eq!(ask(0), found(INT4, 2, "ann"), "and the first again");
    change("ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'bob'").await;
    assert_eq!(ask(0), found(INT4, 3, "bob"));
    change("BEGIN; DROP TABLE t; CREATE TABLE t (k BIGINT, c VARCHAR); INSERT INTO t VALUES (1, 'c'); COMMIT")
        .await;
    assert_eq!(ask(0), found(INT8, 2, "c"));
    assert_eq!(ask(0), found(INT8, 2, "c"));
    change("DROP TABLE t").await;
    assert_eq!(ask(0).3, "42P01");
    change("CREATE VIEW t AS SELECT 1 AS k, 'v' AS v").await;
    assert_eq!(ask(INT8), found(INT8, 2, "v"));
    change("CREATE OR REPLACE VIEW t AS SELECT 1 AS k, 'v' AS v, 'w' AS w").await;
    assert_eq!(ask(INT8), found(INT8, 3, "w"));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_prepared_again_see_their_own_transaction() {
    let server = start().await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    let mut run = |sql: &str| {
        let query = [sql.as_bytes(), b"\0"].concat();
        stream.write_all(&message(b'Q', &query)).expect("sent");
        read_until(&mut stream, b'Z');
        let sql = "SELECT * FROM t WHERE k = $1";
        let told = prepared_without_name(&mut stream, sql, 0, "1");
        (told.columns, told.last, told.error)
    };
    let found = |columns, last: &str| (columns, last.to_owned(), String::new());
    let create = "CREATE TABLE t (k INT, a VARCHAR); INSERT INTO t VALUES (1, 'ann')";
    assert_eq!(run(create), found(2, "ann"));
    let drafted = "BEGIN; ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'bob'";
    assert_eq!(run(drafted), found(3, "bob"));
    assert_eq!(run("ROLLBACK"), found(2, "ann"));
    let hidden = "CREATE TEMP TABLE t AS SELECT 1 AS k, 'x' AS x, 'y' AS y, 'z' AS z";
    assert_eq!(run(hidden), found(4, "z"));
    assert_eq!(run("DROP TABLE t"), found(2, "ann"));
    assert_eq!(run("BEGIN; SELECT nothing").2, "25P02");
    assert_eq!(run("ROLLBACK"), found(2, "ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_come_again_mean_what_they_mean_now() {
    let server = start().await;
    let (client, other) = (server.client().await, server.client().await);
    let tables =
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2); CREATE TABLE u AS SELECT 1 AS k";
    client.batch_execute(tables).await.expect("tables");
    let sql = "SELECT * FROM t WHERE k IN (SELECT max(k) FROM u)";
    for (change, columns) in [
        ("SELECT 1", 1),
        ("INSERT INTO u VALUES (2)", 1),
        ("ALTER TABLE t ADD COLUMN a INT DEFAULT 7", 2),
        ("DROP TABLE u; CREATE VIEW u AS SELECT 1 AS k", 2),
        (
            "DROP TABLE t; CREATE TABLE t AS SELECT 1 AS k, 2 AS a, 3 AS b",
            3,
        ),
        ("SET plan_cache_mode = force_custom_plan", 3),
        ("DISCARD ALL", 3),
    ] {
        let by = match change.starts_with("DROP") {
            true => &other,
            false => &client,
        };
        by.batch_execute(change).await.expect(change);
        for _ in 0..3 {
            let simple = client.simple_query(sql).await.expect(change);
            let widths = simple.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.len()),
                _ => None,
            });
            assert_eq!(widths.collect::<Vec<_>>(), [columns], "{change}");
            let rows = client.query(sql, &[]).await.expect(change);
            let widths = rows.iter().map(|row| row.columns().len());
            assert_eq!(widths.collect::<Vec<_>>(), [columns], "{change}");
        }
    }
}
