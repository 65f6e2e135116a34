//! Statements, parameters, transactions.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use nearfar_server::ServerOptions;

use crate::support::{code, message, options, read_until, start, start_with, startup, values};

use std::io::Write;

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_answered_one_after_another() {
    let server = start().await;
    let client = server.client().await;
    let script = "CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2), (3); \
                  SELECT a FROM t ORDER BY a; SELECT NULL";
    let answers = client.simple_query(script).await.expect("answered");
    assert_eq!(values(&answers), ["1", "2", "3", "null"]);
    assert!(client.simple_query(" ; -- nothing\n").await.is_ok());
    let failed = client
        .simple_query("SELECT 1; SELECT nothing; SELECT 2")
        .await;
    assert_eq!(code(failed), "42703");
    assert!(client.simple_query("SELECT 1").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_of_their_places() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE, d DATE, e DECIMAL(12, 2))";
    client.execute(create, &[]).await.expect("created");
    let insert = "INSERT INTO t VALUES ($1, $2, $3, DATE '2024-05-06', 12.5)";
    let insert = client.prepare(insert).await.expect("prepared");
    assert_eq!(insert.params()[0], Type::INT8);
    for number in 0..3_i64 {
        let text = format!("row {number}");
        let added = client.execute(&insert, &[&number, &text, &0.5_f64]).await;
        assert_eq!(added.expect("inserted"), 1);
    }
    let select = "SELECT a, b, c, a IS NULL, CAST(e AS VARCHAR) FROM t WHERE a >= $1 ORDER BY a";
    let rows = client.query(select, &[&1_i64]).await.expect("selected");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].get::<_, i64>(0), 2);
    assert_eq!(rows[1].get::<_, &str>(1), "row 2");
    assert_eq!(rows[1].get::<_, f64>(2), 0.5);
    assert!(!rows[1].get::<_, bool>(3));
    assert_eq!(rows[1].get::<_, &str>(4), "12.50");
    let null = client
        .execute(&insert, &[&None::<i64>, &"x", &1.0_f64])
        .await;
    assert_eq!(null.expect("inserted"), 1);
    let updated = client
        .execute("UPDATE t SET b = $1 WHERE a = $2", &[&"y", &1_i64])
        .await;
    assert_eq!(updated.expect("updated"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_told_by_their_codes_and_rows_found_again_and_again() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    let create =
        "CREATE TABLE t (k INT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 10), (2, 20)";
    one.batch_execute(create).await.expect("created");
    for (sql, expected) in [
        ("INSERT INTO t VALUES (2, 0)", "23505"),
        ("INSERT INTO t SELECT NULL, 0", "23502"),
        ("ALTER TABLE t ADD PRIMARY KEY (v)", "42P16"),
        ("CREATE INDEX t_pkey ON t (v)", "42P07"),
        ("DROP INDEX t_pkey", "2BP01"),
        ("DROP INDEX u", "42704"),
        ("CREATE INDEX ON t (nothing)", "42703"),
        ("CREATE INDEX ON t USING hash (v)", "0A000"),
    ] {
        assert_eq!(code(one.simple_query(sql).await), expected, "{sql}");
    }
    let select = one
        .prepare("SELECT v FROM t WHERE k = $1")
        .await
        .expect("prepared");
    for round in 0..5_i64 {
        let row = one.query_one(&select, &[&2_i32]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 20 + round);
        let text = "SELECT v FROM t WHERE k = 2";
        let answers = one.simple_query(text).await.expect("answered");
        assert_eq!(values(&answers), [(20 + round).to_string()]);
        assert!(
            one.query_opt(&select, &[&3_i32])
                .await
                .expect("none")
                .is_none()
        );
        let answers = one.simple_query("SELECT 1").await.expect("answered");
        assert_eq!(values(&answers), ["1"]);
        let change = "UPDATE t SET v = v + 1 WHERE k = 2";
        assert_eq!(other.execute(change, &[]).await.expect("changed"), 1);
    }
    other.batch_execute("DROP TABLE t").await.expect("dropped");
    assert_eq!(code(one.query(&select, &[&2_i32]).await), "42P01");
    let again = "CREATE TABLE t (v VARCHAR, k INT PRIMARY KEY)";
    other.batch_execute(again).await.expect("created");
    let changed = one.query(&select, &[&2_i32]).await;
    assert_eq!(
        code(changed),
        "0A000",
        "the columns are not those that were described"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_rows_are_given_back() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR)";
    client.batch_execute(create).await.expect("created");
    let insert = "INSERT INTO t (k, v) VALUES ($1, $2) RETURNING k, v AS w, k + 1";
    let insert = client.prepare(insert).await.expect("prepared");
    assert_eq!(insert.params(), [Type::INT4, Type::TEXT]);
    let columns = insert.columns().iter().map(|column| column.name());
    assert_eq!(columns.collect::<Vec<_>>()[..2], ["k", "w"]);
    assert_eq!(*insert.columns()[0].type_(), Type::INT4);
    for k in 1..5_i32 {
        let row = client.query_one(&insert, &[&k, &"a"]).await.expect("a row");
        assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (k, "a"));
    }
    for (sql, rows, count) in [
        (
            "INSERT INTO t VALUES (7, 'b'), (8, 'c') RETURNING v",
            &["b", "c"][..],
            2,
        ),
        (
            "UPDATE t SET v = 'd' WHERE k > 6 RETURNING v",
            &["d", "d"],
            2,
        ),
        (
            "UPDATE t SET v = u.v FROM t AS u WHERE t.k = 1 AND u.k = 7 RETURNING t.v",
            &["d"],
            1,
        ),
        (
            "WITH x AS (SELECT 1) SELECT v FROM t WHERE k = 2",
            &["a"],
            1,
        ),
        (
            "DELETE FROM t USING t AS u WHERE t.k = 8 AND u.k = 8 RETURNING u.v",
            &["d"],
            1,
        ),
        ("DELETE FROM t WHERE k = 8 RETURNING v", &[], 0),
    ] {
        let answers = client.simple_query(sql).await.expect(sql);
        assert_eq!(values(&answers), rows, "{sql}");
        let tag = answers.iter().find_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        });
        assert_eq!(tag, Some(count), "{sql}");
    }
    let mut socket = server.raw();
    socket.write_all(&startup()).expect("sent");
    read_until(&mut socket, b'Z');
    let sql = b"INSERT INTO t VALUES (9, 'e') RETURNING k\0";
    socket.write_all(&message(b'Q', sql)).expect("sent");
    let answers = read_until(&mut socket, b'Z');
    let tag = answers.iter().find(|(kind, _)| *kind == b'C');
    assert_eq!(tag.expect("a tag").1, b"INSERT 0 1\0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_change_has_its_code() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR); INSERT INTO t VALUES (1, 'a')";
    client.batch_execute(create).await.expect("created");
    for (sql, expected) in [
        ("INSERT INTO t VALUES (1, 'a') RETURNING k", "23505"),
        ("INSERT INTO t VALUES (9, 'a') RETURNING x", "42703"),
        ("DELETE FROM t RETURNING count(*)", "42803"),
        ("DELETE FROM t RETURNING rank() OVER ()", "42P20"),
        (
            "INSERT INTO t VALUES (9, 'a') RETURNING 1 / (k - 9)",
            "22012",
        ),
        ("UPDATE t SET x = 1 FROM t AS u", "42703"),
        ("UPDATE t SET v = 'a', v = 'b' FROM t AS u", "42601"),
    ] {
        assert_eq!(code(client.simple_query(sql).await), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_the_way_are_changed() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR); INSERT INTO t VALUES (1, 'a')";
    client.batch_execute(create).await.expect("created");
    let upsert =
        "INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v || t.v";
    let upsert = client.prepare(upsert).await.expect("prepared");
    assert!(upsert.columns().is_empty());
    for _ in 0..3 {
        let changed = client.execute(&upsert, &[&11_i32, &"u"]).await;
        assert_eq!(changed.expect("changed"), 1);
    }
    let row = client.query_one("SELECT v FROM t WHERE k = 11", &[]).await;
    assert_eq!(row.expect("a row").get::<_, &str>(0), "uuu");
    for (sql, expected) in [
        (
            "INSERT INTO t (k) VALUES (1) ON CONFLICT (v) DO NOTHING",
            "42P10",
        ),
        (
            "INSERT INTO t (k) VALUES (1) ON CONFLICT (x) DO NOTHING",
            "42703",
        ),
        (
            "INSERT INTO t (k) VALUES (1) ON CONFLICT ON CONSTRAINT x DO NOTHING",
            "42704",
        ),
        (
            "INSERT INTO t (k) VALUES (1) ON CONFLICT DO UPDATE SET v = 'a'",
            "42601",
        ),
        (
            "INSERT INTO t (k) VALUES (20), (20) ON CONFLICT (k) DO UPDATE SET v = 'a'",
            "21000",
        ),
    ] {
        assert_eq!(code(client.simple_query(sql).await), expected, "{sql}");
    }
}

/// Commits what a client has done with this statement, or rolls it back. What became of it.
async fn unless_it_fails(client: &Client, sql: &str) -> String {
    let done = client.batch_execute(sql).await;
    let (end, told) = match done {
        Ok(()) => ("COMMIT", "COMMIT".to_owned()),
        failed => ("ROLLBACK", code(failed)),
    };
    client.batch_execute(end).await.expect("ended");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_isolate_and_conflict() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    one.batch_execute("CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("created");
    one.batch_execute("BEGIN; UPDATE t SET a = 2")
        .await
        .expect("changed");
    let seen = other.query_one("SELECT a FROM t", &[]).await.expect("read");
    assert_eq!(seen.get::<_, i32>(0), 1);
    other
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t")
        .await
        .expect("begun");
    one.batch_execute("COMMIT").await.expect("committed");
    let conflict = other.batch_execute("UPDATE t SET a = 3").await;
    assert_eq!(code(conflict), "40001");
    other.batch_execute("ROLLBACK").await.expect("rolled back");
    // Two that wait for each other.
    let both = "INSERT INTO t VALUES (4); BEGIN; UPDATE t SET a = 20 WHERE a = 2";
    one.batch_execute(both).await.expect("changed");
    let other_row = "BEGIN; SAVEPOINT s; UPDATE t SET a = 40 WHERE a = 4";
    other.batch_execute(other_row).await.expect("changed");
    let ends = tokio::join!(
        unless_it_fails(&one, "UPDATE t SET a = 41 WHERE a = 4"),
        unless_it_fails(&other, "UPDATE t SET a = 21 WHERE a = 2"),
    );
    let mut ends = <[_; 2]>::from(ends);
    ends.sort();
    assert_eq!(ends, ["40P01", "COMMIT"], "one of both, whoever was later");
    assert_eq!(code(other.batch_execute("SAVEPOINT a").await), "25P01");
    let unknown = "BEGIN; ROLLBACK TO a";
    assert_eq!(code(other.batch_execute(unknown).await), "3B001");
    other.batch_execute("ROLLBACK").await.expect("rolled back");
    other.batch_execute("BEGIN").await.expect("begun");
    assert_eq!(code(other.batch_execute("SELECT nothing").await), "42703");
    assert_eq!(code(other.batch_execute("SELECT 1").await), "25P02");
    other
        .batch_execute("ROLLBACK; SELECT 1")
        .await
        .expect("rolled back");
}

/// The status behind every answer, as the client sees it.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_the_transaction_is_told() {
    let server = start().await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    for (sql, status) in [
        ("SELECT 1", b'I'),
        ("BEGIN", b'T'),
        ("SELECT nothing", b'E'),
        ("SELECT 1", b'E'),
        ("COMMIT", b'I'),
        ("BEGIN; syntax error", b'I'),
    ] {
        let query = message(b'Q', &[sql.as_bytes(), b"\0"].concat());
        stream.write_all(&query).expect("sent");
        let answers = read_until(&mut stream, b'Z');
        let (_, ready) = answers.last().expect("an answer");
        assert_eq!(ready[..], [status], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_their_codes() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("created");
    for (sql, expected) in [
        ("SELEKT 1", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT b FROM t", "42703"),
        ("SELECT nothing(1)", "42883"),
        ("CREATE TABLE t AS SELECT 1 AS a", "42P07"),
        (
            "CREATE TABLE u TABLESPACE nowhere AS SELECT 1 AS a",
            "42704",
        ),
        ("SELECT 1 / 0", "22012"),
        ("SELECT CAST('x' AS BIGINT)", "22P02"),
        ("COPY t TO '/tmp/never.csv'", "42501"),
        ("SET statement_timeout = soon", "22023"),
        ("DROP TABLE nothing", "42P01"),
    ] {
        assert_eq!(code(client.batch_execute(sql).await), expected, "{sql}");
    }
    let error = client
        .batch_execute("SELECT 1,\n  b FROM t")
        .await
        .expect_err("unknown");
    let error = error.as_db_error().expect("of the server");
    let position = tokio_postgres::error::ErrorPosition::Original(13);
    assert_eq!(error.position(), Some(&position), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_and_settings_end_with_their_connection() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    one.batch_execute("CREATE TEMP TABLE t AS SELECT 1 AS a; SET statement_timeout = '1h'")
        .await
        .expect("created");
    assert_eq!(code(other.batch_execute("SELECT * FROM t").await), "42P01");
    let shown = one
        .simple_query("SHOW statement_timeout")
        .await
        .expect("shown");
    assert_eq!(values(&shown), ["3600000ms"]);
    let shown = other
        .query_one("SHOW statement_timeout", &[])
        .await
        .expect("shown");
    assert_eq!(shown.get::<_, &str>(0), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_without_a_place_that_tells_are_texts_or_what_the_client_says() {
    let server = start().await;
    let client = server.client().await;
    let upper = client.prepare("SELECT upper($1), $1").await;
    let upper = upper.expect("prepared");
    assert_eq!(upper.params(), [Type::TEXT]);
    let row = client.query_one(&upper, &[&"abc"]).await.expect("a row");
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("ABC", "abc")
    );
    let given = client.prepare_typed("SELECT abs($1)", &[Type::INT8]).await;
    let given = given.expect("prepared");
    assert_eq!(given.params(), [Type::INT8]);
    let row = client.query_one(&given, &[&-5_i64]).await.expect("a row");
    assert_eq!(row.get::<_, i64>(0), 5);
    assert_eq!(code(client.prepare("SELECT $1 * $2").await), "42P18");
    assert_eq!(
        code(client.prepare("SELECT $1 * $2 FROM nothing").await),
        "42P01"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_a_connection_share_its_memory() {
    let server = start_with(ServerOptions {
        session_memory_bytes: Some(64 << 20),
        ..options()
    })
    .await;
    let client = server.client().await;
    let shown = client.simple_query("SHOW session_memory_limit").await;
    assert!(format!("{:?}", shown.expect("shown")).contains("67108864B"));
    let large = "SELECT length(string_agg(repeat('x', 20), '')) FROM generate_series(1, 2000000)";
    client
        .batch_execute("SET session_memory_limit = '1MiB'")
        .await
        .expect("set");
    let error = client.batch_execute(large).await.expect_err("too large");
    let error = error.as_db_error().expect("of the server");
    assert_eq!(error.code().code(), "53200");
    let told = format!("{} {}", error.message(), error.hint().unwrap_or_default());
    assert!(
        told.contains("session") && told.contains("SET session_memory_limit"),
        "{told}"
    );
    server
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("answered");
    client
        .batch_execute("RESET session_memory_limit; SELECT 1")
        .await
        .expect("answered");
    let above = client
        .batch_execute("SET session_memory_limit = '65MiB'")
        .await;
    assert_eq!(code(above), "22023");
}

/// What a script of one statement gives: its rows, how many it changed, or its error.
async fn outcome(client: &Client, sql: &str) -> String {
    let answers = match client.simple_query(sql).await {
        Ok(answers) => answers,
        Err(error) => return code::<()>(Err(error)),
    };
    let changed = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
        _ => None,
    });
    format!("{:?} {changed:?}", values(&answers))
}

/// Texts that differ in their integers mean what each means alone: every statement is run on two
/// servers, once among its like and once where no other statement is like it.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_one_shape_mean_what_each_means_alone() {
    let (alike, alone) = (start().await, start().await);
    let (alike, alone) = (alike.client().await, alone.client().await);
    let create = "CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER, b BIGINT, d DECIMAL(9, 2), \
                  f DOUBLE, s VARCHAR)";
    for client in [&alike, &alone] {
        client.simple_query(create).await.expect("created");
    }
    let shapes = [
        "INSERT INTO t VALUES (@, 1, 2, 3, 4, 'five 5')",
        "INSERT INTO t VALUES (@0, @, -@, @, @, 'x')",
        "INSERT INTO t (k, s) VALUES (1@, @)",
        "SELECT n, 7, s FROM t WHERE k = @",
        "SELECT n + 1 FROM t WHERE k = @ AND n < @0",
        "SELECT k FROM t WHERE k = @ AND s = 'five 5' AND n = 1",
        "SELECT k FROM t WHERE k = -@",
        "SELECT k FROM t WHERE k = @ + 1",
        "SELECT k FROM t WHERE k = @ AND d = @ AND f = @",
        "SELECT k FROM t WHERE s = @",
        "SELECT k, n FROM t WHERE k > @ ORDER BY 2, 1 LIMIT @",
        "SELECT count(*) FROM t WHERE k IN (@, 2, 30)",
        "SELECT nothing FROM t WHERE k = @",
        "UPDATE t SET n = n * 1000000 / 1000000 + @, d = d / @ WHERE k = @",
        "UPDATE t SET n = 2147483640 + @ WHERE k = @",
        "UPDATE t SET b = b - @, s = @ WHERE k = @ AND f > -@",
        "DELETE FROM t WHERE k = @0",
        "SELECT k, n, b, d, f, s FROM t WHERE k = @ OR n = @",
    ];
    for shape in shapes {
        for value in [
            "1",
            "2",
            "3",
            "9",
            "0",
            "4294967297",
            "99999999999999999999",
        ] {
            let sql = shape.replace('@', value);
            let wanted = outcome(&alone, &format!("{sql} -- {value}")).await;
            assert_eq!(outcome(&alike, &sql).await, wanted, "{sql}");
        }
    }
    let all = "SELECT concat_ws('|', k, n, b, d, f, s) FROM t ORDER BY k";
    assert_eq!(outcome(&alike, all).await, outcome(&alone, all).await);
    // Another table of the name.
    for client in [&alike, &alone] {
        let other = "DROP TABLE t; CREATE TABLE t (k VARCHAR PRIMARY KEY, n VARCHAR); \
                     INSERT INTO t VALUES ('1', 'one'), ('01', 'other')";
        client.simple_query(other).await.expect("created");
    }
    for value in ["1", "2"] {
        let sql = format!("SELECT n, 7 FROM t WHERE k = {value}");
        let wanted = outcome(&alone, &format!("{sql} -- {value}")).await;
        assert_eq!(outcome(&alike, &sql).await, wanted, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_committed_by_a_server_in_memory() {
    let server = start().await;
    let (client, other) = (server.client().await, server.client().await);
    for sql in [
        "BEGIN",
        "CREATE TABLE made (id SERIAL PRIMARY KEY, v INT)",
        "INSERT INTO made (v) VALUES (1)",
        "COMMIT",
        "BEGIN",
        "ALTER TABLE made ADD COLUMN w INT DEFAULT 2",
        "INSERT INTO made (v) VALUES (3)",
        "COMMIT",
        "BEGIN",
        "CREATE TABLE never (a INT)",
        "ROLLBACK",
    ] {
        client.batch_execute(sql).await.expect(sql);
    }
    let row = other.query_one("SELECT sum(v + w) FROM made", &[]).await;
    let sum: i64 = row.expect("a row").get(0);
    assert_eq!(sum, 8);
    let never = other.batch_execute("SELECT * FROM never").await;
    assert_eq!(code(never), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_undo_settings_of_the_server_and_tell_the_client() {
    let server = start().await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    let mut ask = |sql: &str| {
        let text = [sql.as_bytes(), b"\0"].concat();
        stream.write_all(&message(b'Q', &text)).expect("sent");
        let answers = read_until(&mut stream, b'Z').into_iter();
        let told = answers.filter(|(kind, _)| b"SEN".contains(kind));
        let told = told.map(|(kind, body)| {
            let text = String::from_utf8_lossy(&body).replace('\0', " ");
            format!("{} {}", char::from(kind), text.trim())
        });
        told.collect::<Vec<_>>()
    };
    let named = |name: &str| vec![format!("S application_name {name}").trim().to_owned()];
    assert_eq!(ask("SET application_name = 'a'"), named("a"));
    assert_eq!(ask("SET application_name = 'a'"), [""; 0]);
    ask("BEGIN");
    assert_eq!(ask("SET application_name = 'b'"), named("b"));
    assert_eq!(
        ask("SAVEPOINT s; SET LOCAL application_name = 'c'"),
        named("c")
    );
    assert_eq!(ask("ROLLBACK TO s"), named("b"));
    assert_eq!(ask("ROLLBACK"), named("a"));
    ask("BEGIN; SET LOCAL application_name = 'd'");
    assert!(ask("SELECT nothing")[0].starts_with("E "));
    assert_eq!(ask("COMMIT"), named("a"));
    let set = "SELECT set_config('application_name', 'e', true)";
    assert_eq!(ask(&format!("BEGIN; {set}")), named("e"));
    assert_eq!(ask("COMMIT"), named("a"));
    let warned = ask("SET LOCAL application_name = 'f'");
    assert!(
        warned.len() == 1 && warned[0].contains("25P01"),
        "{warned:?}"
    );
    assert!(ask("SET LOCAL lock_timeout = 5")[0].contains("25P01"));
    assert_eq!(ask("BEGIN; RESET ALL; ROLLBACK"), [""; 0]);
    assert_eq!(ask("RESET ALL"), named(""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_a_transaction_ends_with_it() {
    let server = start().await;
    let client = server.client().await;
    let shown = async || {
        let rows = client.simple_query("SHOW statement_timeout").await;
        let by_function = "SELECT current_setting('statement_timeout')";
        let again = client.simple_query(by_function).await.expect("shown");
        let shown = values(&rows.expect("shown"));
        assert_eq!(shown, values(&again));
        shown[0].clone()
    };
    let set = "BEGIN; SET LOCAL statement_timeout = 200";
    client.batch_execute(set).await.expect("set");
    assert_eq!(shown().await, "200ms");
    assert_eq!(
        code(client.simple_query(crate::support::LONG).await),
        "57014"
    );
    client.batch_execute("ROLLBACK").await.expect("undone");
    assert_eq!(shown().await, "0");
    for (wrong, expected) in [
        (
            "SELECT set_config('client_encoding', 'LATIN1', false)",
            "22023",
        ),
        ("SELECT set_config('role', 'bob', false)", "42501"),
        ("SELECT set_config('nothing', '1', false)", "42704"),
        ("SELECT current_setting('nothing')", "42704"),
        ("SELECT set_config('merge_rows', '1', false)", "55P02"),
    ] {
        assert_eq!(code(client.simple_query(wrong).await), expected, "{wrong}");
    }
    let prepared = client.prepare("SELECT set_config($1, $2, false)").await;
    let prepared = prepared.expect("prepared");
    let row = client
        .query_one(&prepared, &[&"statement_timeout", &"5s"])
        .await;
    assert_eq!(row.expect("set").get::<_, &str>(0), "5000ms");
    assert_eq!(shown().await, "5000ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_locked_with_the_codes_that_drivers_know() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    one.batch_execute("CREATE TABLE t (a INT)")
        .await
        .expect("created");
    assert_eq!(code(one.batch_execute("LOCK TABLE t").await), "25P01");
    let lock = "BEGIN; LOCK TABLE ONLY t IN SHARE MODE";
    one.batch_execute(lock).await.expect("locked");
    let now = "BEGIN; LOCK t NOWAIT";
    assert_eq!(code(other.batch_execute(now).await), "55P03");
    let late = "ROLLBACK; SET lock_timeout = 50; INSERT INTO t VALUES (1)";
    assert_eq!(code(other.batch_execute(late).await), "55P03");
    other
        .batch_execute("SET statement_timeout = 50; RESET lock_timeout")
        .await
        .expect("set");
    // Prepared, and again where it is not planned any more.
    for _ in 0..3 {
        let insert = other.execute("INSERT INTO t VALUES ($1)", &[&1_i32]).await;
        assert_eq!(code(insert), "57014");
    }
    assert_eq!(code(one.batch_execute("LOCK TABLE nothing").await), "42P01");
    other
        .batch_execute("RESET statement_timeout")
        .await
        .expect("reset");
    one.batch_execute("ROLLBACK").await.expect("undone");
    let insert = other.execute("INSERT INTO t VALUES ($1)", &[&1_i32]).await;
    assert_eq!(insert.expect("added"), 1);
    // A connection that is lost has no locks.
    other
        .batch_execute("BEGIN; LOCK TABLE t")
        .await
        .expect("locked");
    drop(other);
    let count = one.query_one("SELECT count(*) FROM t", &[]).await;
    assert_eq!(count.expect("read").get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_sql_has_prepared_are_run_by_both_protocols() {
    let server = start().await;
    let client = server.client().await;
    let prepared = "CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'y'); \
                    PREPARE get (INT) AS SELECT a + 1 AS next, b FROM t WHERE a = $1; \
                    PREPARE put (INT) AS UPDATE t SET a = $1 WHERE b = 'y' RETURNING a; \
                    PREPARE quietly (INT) AS DELETE FROM t WHERE a = $1";
    client.batch_execute(prepared).await.expect("prepared");
    let simple = client.simple_query("EXECUTE get (2)").await.expect("run");
    assert_eq!(values(&simple), ["3"]);
    let row = client.query_one("EXECUTE get (1)", &[]).await.expect("run");
    assert_eq!(row.columns()[0].name(), "next");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (2, "x"));
    let row = client.query_one("EXECUTE put (7)", &[]).await.expect("run");
    assert_eq!(row.get::<_, i32>(0), 7);
    let gone = client.execute("EXECUTE quietly (7)", &[]).await;
    assert_eq!(gone.expect("run"), 1);
    assert_eq!(code(client.query("EXECUTE none (1)", &[]).await), "26000");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_merged_with_tags_and_codes() {
    let server = start().await;
    let client = server.client().await;
    let tables = "CREATE TABLE t (k INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2)";
    client.batch_execute(tables).await.expect("created");
    let merge = "MERGE INTO t USING (SELECT CAST($1 AS INT) AS k, CAST($2 AS INT) AS n) AS s \
                 ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n \
                 WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n)";
    let merge = client.prepare(merge).await.expect("prepared");
    for (k, n) in [(1, 10), (3, 30), (3, 31)] {
        let changed = client.execute(&merge, &[&k, &n]).await;
        assert_eq!(changed.expect("merged"), 1, "{k}");
    }
    let sum = client.query_one("SELECT sum(k * n) FROM t", &[]).await;
    assert_eq!(sum.expect("summed").get::<_, i64>(0), 10 + 4 + 93);
    let twice = "MERGE INTO t USING (VALUES (1), (1)) AS s (k) ON t.k = s.k \
                 WHEN MATCHED THEN DELETE";
    assert_eq!(code(client.execute(twice, &[]).await), "21000");
    let unreached = "MERGE INTO t USING t AS s ON t.k = s.k WHEN MATCHED THEN DELETE \
                     WHEN MATCHED THEN DO NOTHING";
    assert_eq!(code(client.execute(unreached, &[]).await), "42601");
}
