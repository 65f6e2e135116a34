//! Values and types as PostgreSQL gives them: expressions with PostgreSQL 15's answers, and columns of
//! declared lengths.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::support::{code, start};

/// Expressions. A line has an expression, the type and the text of its values (or `error` and an
/// SQLSTATE) as PostgreSQL gives them, and then ours, where they differ for a reason that is documented.
const ANSWERS: &str = include_str!("values.txt");

/// The type and the text of an expression's values, or `error` and its SQLSTATE.
async fn answer(client: &Client, expression: &str) -> (String, String) {
    let sql = format!("SELECT {expression}");
    let of_error = |error: tokio_postgres::Error| {
        let code = error.code().map_or("?", |code| code.code()).to_owned();
        ("error".to_owned(), code)
    };
    let kind = match client.prepare(&sql).await {
        Ok(prepared) => prepared.columns()[0].type_().clone(),
        Err(error) => return of_error(error),
    };
    let rows = match client.simple_query(&sql).await {
        Ok(rows) => rows,
        Err(error) => return of_error(error),
    };
    let values = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL")),
        _ => None,
    });
    let values: Vec<&str> = values.collect();
    (kind.name().to_owned(), values.join(";"))
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_are_answered_as_by_postgresql() {
    let server = start().await;
    let client = server.client().await;
    let mut wrong = Vec::new();
    for line in ANSWERS.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [expression, kind, value, ours @ ..] = &parts[..] else {
            panic!("{line}");
        };
        let (kind, value) = match ours {
            [kind, value] => (kind, value),
            _ => (kind, value),
        };
        let found = answer(&client, expression).await;
        if found != ((*kind).to_owned(), (*value).to_owned()) {
            wrong.push(format!("{expression}: {found:?}, expected {kind} {value}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_lengths_hold() {
    let server = start().await;
    let client = server.client().await;
    let run = |sql: &'static str| client.simple_query(sql);
    run("CREATE TABLE t (a VARCHAR(3), b CHAR(4), c NUMERIC(8, 2), d SMALLINT)")
        .await
        .expect("created");
    run("INSERT INTO t VALUES ('abc  ', 'ab', 1.005, 1.5), ('äöü', 'abcd  ', -1.005, 2.5)")
        .await
        .expect("inserted");
    for (sql, expected) in [
        ("INSERT INTO t (a) VALUES ('abcd')", "22001"),
        ("INSERT INTO t (b) VALUES ('abcde')", "22001"),
        ("UPDATE t SET a = a || 'x'", "22001"),
        ("INSERT INTO t (c) VALUES (1234567.0)", "22003"),
        ("INSERT INTO t (d) VALUES (32767.5)", "22003"),
        ("UPDATE t SET d = d + 32767", "22003"),
        ("CREATE TABLE u (a VARCHAR(0))", "22023"),
    ] {
        assert_eq!(code(run(sql).await), expected, "{sql}");
    }
    let rows = client
        .query("SELECT a, b, c, d FROM t ORDER BY c DESC", &[])
        .await;
    let rows = rows.expect("selected");
    assert_eq!(rows[0].get::<_, &str>(0), "abc");
    assert_eq!(rows[0].get::<_, &str>(1), "ab  ");
    assert_eq!(rows[1].get::<_, &str>(0), "äöü");
    assert_eq!(rows[1].get::<_, &str>(1), "abcd");
    assert_eq!((rows[0].get::<_, i16>(3), rows[1].get::<_, i16>(3)), (2, 3));
    let kinds: Vec<&Type> = rows[0]
        .columns()
        .iter()
        .map(|column| column.type_())
        .collect();
    assert_eq!(
        kinds,
        [&Type::VARCHAR, &Type::BPCHAR, &Type::NUMERIC, &Type::INT2]
    );
    let texts = client
        .simple_query("SELECT length(b) || b || 'x' || (b = 'ab') || (b = 'ab   ') || c FROM t WHERE b = 'ab '")
        .await
        .expect("selected");
    let SimpleQueryMessage::Row(row) = &texts[1] else {
        panic!("{texts:?}");
    };
    assert_eq!(row.get(0), Some("2abxtruetrue1.01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_tell_declared_lengths() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a VARCHAR(3), b CHAR(4), c NUMERIC(8, 2), d TEXT)";
    client.simple_query(create).await.expect("created");
    let sql = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute \
               JOIN pg_class ON attrelid = pg_class.oid WHERE relname = 't' ORDER BY attnum";
    let rows = client.query(sql, &[]).await.expect("selected");
    let types: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        types,
        [
            "character varying(3)",
            "character(4)",
            "numeric(8,2)",
            "text"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_made_of_numbers_have_room_for_more_digits() {
    let server = start().await;
    let client = server.client().await;
    let run = |sql: &'static str| client.simple_query(sql);
    run("CREATE TABLE t AS SELECT 1.5 AS a, 2.25::numeric(5, 2) AS b")
        .await
        .expect("created");
    run("INSERT INTO t VALUES (1234.5678, 2.345)")
        .await
        .expect("inserted");
    assert_eq!(
        code(run("INSERT INTO t VALUES (0, 12345.0)").await),
        "22003"
    );
    let rows = run("SELECT trim(trailing '0' from a::text) || ' ' || b FROM t ORDER BY a").await;
    let rows = rows.expect("selected");
    let texts = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["1.5 2.25", "1234.5678 2.35"]);
}
